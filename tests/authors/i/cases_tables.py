"""Tables and grids."""
import math

import numpy as np
import torch

from posenc_ref import (
    AxialLearned, BoxSine, DETRSine, FourierFeatures, Hybrid, Learned, Sinusoidal, Sinusoidal2D,
    Sinusoidal3D, StandardizedSinusoidal, Time2Vec,
)
from posenc_ref.resize import resize_table

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface,
                      settings=settings, right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def rand(seed, *shape, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def sincos(p, dim, base=10000.0):
    """interleaved, float64"""
    p = np.asarray(p, np.float64)
    a = p[..., None] / base ** (np.arange(0, dim, 2) / dim)
    out = np.empty((*p.shape, dim))
    out[..., 0::2], out[..., 1::2] = np.sin(a), np.cos(a)
    return out


# ---- i001
def make(bug):
    class Positional:
        def __init__(self, dim, max_len=2048):
            self.dim = dim
            self.max_len = max_len
            self.pe = sincos(np.arange(max_len), dim).astype(np.float32)

        def __call__(self, positions):
            positions = np.asarray(positions)
            if bug:
                return self.pe[np.clip(positions, 0, self.max_len - 1).astype(np.int64)]
            if positions.dtype.kind in "iu" and positions.size and positions.min() >= 0 \
                    and positions.max() < self.max_len:
                return self.pe[positions]
            return sincos(positions, self.dim).astype(np.float32)
    return Positional(64)
case("i001", make, Sinusoidal(64), "table",
     "Positions are clipped to the 2048 rows of the precomputed table, so all positions from 2048 on "
     "get the row of position 2047.", "table-clipped",
     "Enlarge the table, or compute the rows beyond it.")


# ---- i002
def make(bug):
    def table(positions):
        pos = torch.as_tensor(np.asarray(positions))
        pos = pos.to(torch.bfloat16 if bug else torch.float64).unsqueeze(-1).double()
        div = torch.exp(torch.arange(0, 128, 2, dtype=torch.float64) * (-math.log(10000.0) / 128))
        ang = pos * div
        return torch.stack([ang.sin(), ang.cos()], -1).flatten(-2).float().numpy()
    return table
case("i002", make, Sinusoidal(128), "table",
     "The positions are cast to bfloat16 before they are multiplied by the frequencies, so positions "
     "above 256 are rounded to a neighbour.", "positions-bf16",
     "Keep positions in integers or float32 until the angles are computed.")


# ---- i003
def make(bug):
    def table(positions):
        p = np.asarray(positions, np.float64)
        d = 65
        div = np.exp(np.arange(0, d, 2) * -(np.log(10000.0) / d))
        pe = np.zeros((*p.shape, d))
        pe[..., 0::2] = np.sin(p[..., None] * div)
        pe[..., 1::2] = np.cos(p[..., None] * (div[1:] if bug else div[:-1]))
        return pe.astype(np.float32)
    return table
case("i003", make, Sinusoidal(65, odd="extra-sin"), "table",
     "With an odd dim, the cosine columns take the frequencies 1.. instead of 0..: column 2k+1 has "
     "the frequency of pair k+1 (div_term[1:] instead of div_term[:-1]).", "odd-dim-cos",
     "Cut the surplus frequency from the end: cos(p * div_term[:-1]).")


# ---- i004
def make(bug):
    def get_embedding(positions):
        dim = 33
        half_dim = dim // 2
        emb = math.log(10000) / ((dim / 2 if bug else half_dim) - 1)
        emb = torch.exp(torch.arange(half_dim, dtype=torch.float64) * -emb)
        p = torch.as_tensor(np.asarray(positions)).double()
        emb = p.unsqueeze(-1) * emb
        emb = torch.cat([torch.sin(emb), torch.cos(emb)], dim=-1)
        emb = torch.nn.functional.pad(emb, (0, 1))
        return emb.float().numpy()
    return get_embedding
case("i004", make, Sinusoidal(33, layout="concat", denominator="half-1", odd="zero-pad"), "table",
     "The denominator of the exponent is dim/2 - 1 = 15.5 with a true division, instead of "
     "dim//2 - 1 = 15, so with the odd dim all frequencies but the first are wrong.",
     "half-minus-one-float", "Use integer division: half_dim = dim // 2, then half_dim - 1.")


# ---- i005
def make(bug):
    def timestep_embedding(t):
        shift = 1.0 if bug else 0.0
        k = np.arange(64)
        freqs = np.exp(-math.log(10000) * k / (64 - shift))
        arg = np.multiply.outer(np.asarray(t, np.float64), freqs)
        return np.concatenate([np.cos(arg), np.sin(arg)], -1).astype(np.float32)
    return timestep_embedding
case("i005", make, Sinusoidal(128, layout="concat", first="cos", denominator=64.0), "table",
     "downscale_freq_shift is 1 (exponent k/63) where the model has 0 (exponent k/64).",
     "freq-shift", "Pass downscale_freq_shift=0.")


# ---- i006
def make(bug):
    def add(x):
        s, d = x.shape[-2:]
        h = x.astype(np.float64) * (math.sqrt(d) if bug else 1.0)
        return (h + sincos(np.arange(s), d)).astype(x.dtype)
    return add
case("i006", make, Sinusoidal(96), "add",
     "The embeddings are multiplied by sqrt(dim) before the table is added, although this model does "
     "not scale its embeddings (or has done it already).", "embedding-scaled",
     "Add the table to the embeddings as they are.")


# ---- i007
def make(bug):
    class PositionalEncoding(torch.nn.Module):
        def __init__(self, d_model):
            super().__init__()
            self.register_buffer("pe", torch.from_numpy(sincos(np.arange(8192), d_model)[:, None]))

        def forward(self, x):
            y = x.double()
            if bug:
                y = y + self.pe[:y.size(0)]
            else:
                y = y + self.pe[:y.size(1)].transpose(0, 1)
            return y.to(x.dtype)
    m = PositionalEncoding(64)
    return lambda x: m(x)
case("i007", make, Sinusoidal(64), "add",
     "The rows of the table are taken by the index of the batch (x.size(0), sequence-first code of "
     "the PyTorch tutorial) while x is batch-first, so every token of batch element b gets row b.",
     "batch-first", "Index the table by axis 1: pe[:x.size(1)] broadcast over the batch.",
     backend="torch")


# ---- i008
def make(bug):
    class Grow:
        def __init__(self):
            self.rows = sincos(np.arange(16), 48)

        def __call__(self, x):
            n, have = x.shape[1], len(self.rows)
            if n > have:
                more = np.arange(n - have) if bug else np.arange(have, n)
                self.rows = np.concatenate([self.rows, sincos(more, 48)])
            return (x + self.rows[:n]).astype(x.dtype)
    return Grow()
case("i008", make, Sinusoidal(48), "add",
     "When the cached table of 16 rows is too short, the new rows are computed for positions "
     "0, 1, .. instead of from the old length on, so every extension restarts at position 0.",
     "table-grown-from-zero", "Extend by the rows of positions have .. n-1.")


# ---- i009
def make(bug):
    def get_2d_sincos_pos_embed(h, w):
        gh, gw = np.arange(h, dtype=np.float64), np.arange(w, dtype=np.float64)
        grid = np.stack(np.meshgrid(gw, gh, indexing="ij" if bug else "xy")).reshape(2, h * w)
        omega = 10000.0 ** (-np.arange(16) / 16.0)
        parts = []
        for axis in grid:
            a = np.einsum("m,d->md", axis, omega)
            parts += [np.sin(a), np.cos(a)]
        return np.concatenate(parts, axis=1).astype(np.float32)
    return get_2d_sincos_pos_embed
case("i009", make, Sinusoidal2D(64, axis_order="wh"), "grid",
     "The grid is made with meshgrid(w, h, indexing='ij'), so it has shape (w, h) and is flattened "
     "column by column: the tokens, which are row by row, get the coordinates of other patches "
     "(also if the image is square).", "meshgrid-order",
     "Use indexing='xy' with (w, h), or 'ij' with (h, w).")


# ---- i010
def make(bug):
    def pos_embed(height, width):
        base_size = 16.0
        y = np.arange(height) / (height / base_size)
        x = np.arange(width) / ((height if bug else width) / base_size)
        om = 1.0 / 10000 ** (np.arange(8) / 8)
        ex = np.concatenate([np.sin(x[:, None] * om), np.cos(x[:, None] * om)], 1)
        ey = np.concatenate([np.sin(y[:, None] * om), np.cos(y[:, None] * om)], 1)
        full = np.empty((height, width, 32))
        full[..., :16] = ex[None]
        full[..., 16:] = ey[:, None]
        return full.reshape(-1, 32).astype(np.float32)
    return pos_embed
case("i010", make, Sinusoidal2D(32, axis_order="wh", extent=16.0), "grid",
     "The columns of patches are divided by height/base_size instead of width/base_size, so the x "
     "coordinates are scaled by the height; only images that are not square show it.",
     "extent-of-other-axis", "Divide x by width / base_size.")


# ---- i011
def make(bug):
    sections = (16, 24, 24)
    def table(positions):
        t, y, x = np.asarray(positions, np.float64)
        out = []
        for n, (p, s) in enumerate(zip((t, y, x), sections)):
            half = s // 2
            width = sections[1] // 2 if bug and n == 0 else half
            a = p[..., None] * np.power(10000.0, -np.arange(half) / width)
            out += [np.sin(a), np.cos(a)]
        return np.concatenate(out, -1).astype(np.float32)
    return table
case("i011", make, Sinusoidal3D((16, 24, 24)), "table",
     "The exponents of the time columns are divided by the half width of a spatial section (12) "
     "instead of that of the time section (8), so the time frequencies fall too slowly.",
     "time-section-width", "Use k / (section/2) with the section of the axis itself.")


# ---- i012
def make(bug):
    def grid(h, w):
        ones = torch.ones(1, h, w, dtype=torch.float64)
        y, x = ones.cumsum(1), ones.cumsum(2)
        eps, scale = 1e-6, 2 * math.pi
        if bug:
            y = (y / (y[:, -1:, :] + eps) - 0.5) * scale
            x = (x / (x[:, :, -1:] + eps) - 0.5) * scale
        else:
            y = (y - 0.5) / (y[:, -1:, :] + eps) * scale
            x = (x - 0.5) / (x[:, :, -1:] + eps) * scale
        dim_t = torch.arange(32, dtype=torch.float64)
        dim_t = 10000 ** (2 * (dim_t // 2) / 32)
        px, py = x[..., None] / dim_t, y[..., None] / dim_t
        px = torch.stack((px[..., 0::2].sin(), px[..., 1::2].cos()), dim=4).flatten(3)
        py = torch.stack((py[..., 0::2].sin(), py[..., 1::2].cos()), dim=4).flatten(3)
        return torch.cat((py, px), dim=3)[0].reshape(h * w, 64).float().numpy()
    return grid
case("i012", make, DETRSine(64, shift=-0.5), "grid",
     "The shift of -0.5 is added after the division by the size, so it moves the normalised "
     "position by half the image instead of half a pixel.", "shift-after-division",
     "Add the shift to the cumulative sum: (y - 0.5) / (y_last + eps) * scale.")


# ---- i013
def make(bug):
    def grid(h, w):
        def enc(n, T):
            c = np.arange(1, n + 1) / (n + 1e-6) * 2 * np.pi
            return sincos(c, 32, T)
        ey, ex = enc(h, 20.0), enc(w, 20.0 if bug else 40.0)
        rows = [np.concatenate([ey[i], ex[j]]) for i in range(h) for j in range(w)]
        return np.asarray(rows, dtype=np.float32)
    return grid
case("i013", make, DETRSine(64, base=20.0, width_base=40.0), "grid",
     "The columns of x use the temperature of the height (20) instead of temperatureW (40).",
     "width-temperature", "Use temperatureW for x.")


# ---- i014
def make(bug):
    def gen_sineembed(pos):
        f = 16
        dim_t = 10000 ** (2 * (np.arange(f) // 2) / f)
        def emb(c):
            a = np.asarray(c, np.float64)[..., None] * (2 * math.pi) / dim_t
            return np.stack([np.sin(a[..., 0::2]), np.cos(a[..., 1::2])], -1).reshape(*a.shape[:-1], f)
        x, y, w, h = (emb(c) for c in pos)
        parts = [y, x, h, w] if bug else [y, x, w, h]
        return np.concatenate(parts, -1).astype(np.float32)
    return gen_sineembed
case("i014", make, BoxSine(64), "table",
     "The columns of the box sizes are exchanged: h comes before w, where the function has "
     "(y, x, w, h).", "wh-exchanged", "Concatenate y, x, w, h.")


# ---- i015
def make(bug):
    def table(points):
        d, n = 128, 2
        f = d // n
        exponent = 2 * (torch.arange(f, dtype=torch.float64) // 2) / (d if bug else f)
        per = 10000.0 ** exponent
        out = []
        for c in (1, 0):
            a = torch.as_tensor(np.asarray(points[c], dtype=np.float64)).unsqueeze(-1)
            a = a * 2 * math.pi / per
            a[..., 0::2] = a[..., 0::2].sin()
            a[..., 1::2] = a[..., 1::2].cos()
            out.append(a)
        return torch.cat(out, -1).to(torch.float32).numpy()
    return table
case("i015", make, BoxSine(128, axes="xy", axis_order="yx"), "table",
     "The exponents are divided by the whole number of columns (128) instead of the columns of one "
     "coordinate (64), so the wavelengths reach only sqrt(10000).", "exponent-whole-dim",
     "Divide by dim / n, the columns of one coordinate.")


# ---- i016
W16 = rand(16, 514, 24)
def make(bug):
    padding_idx = 0 if bug else 1
    def table(positions):
        return W16[np.asarray(positions) + padding_idx + 1]
    return table
case("i016", make, Learned(W16, offset=2), "table",
     "Rows are looked up at position + 1 instead of position + 2 (padding_idx 0 instead of 1), one "
     "row too early.", "learned-offset", "Add 2 to the position, as the checkpoint has two rows for "
     "padding.")


# ---- i017
W17 = rand(17, 130, 8)
def make(bug):
    def create_position_ids(input_ids):
        mask = (np.asarray(input_ids) != 1).astype(np.int64)
        ids = np.cumsum(mask, axis=1)
        return ids + 1 if bug else ids * mask + 1
    return create_position_ids
case("i017", make, Learned(W17, padding_idx=1), "ids_from_tokens",
     "The cumulative sum is not multiplied by the mask, so padding tokens get the id of the token "
     "before them instead of padding_idx (right and inner padding).", "padding-not-masked",
     "cumsum(mask) * mask + padding_idx.")


# ---- i018
W18 = rand(18, 1026, 4)
def make(bug):
    def ids(input_ids):
        t = torch.as_tensor(np.asarray(input_ids))
        m = t.ne(0).to(torch.uint8 if bug else torch.int32)
        n = torch.cumsum(m, dim=1).to(m.dtype) * m
        return n.long().numpy() + 0
    return ids
case("i018", make, Learned(W18, padding_idx=0), "ids_from_tokens",
     "The mask and its cumulative sum are uint8, so ids wrap around to 0 at the 256th token of a "
     "row.", "uint8-cumsum", "Count in int32 or int64.")


# ---- i019
T19 = (rand(19, 8, 12), rand(191, 32, 20))
def make(bug):
    def table(positions):
        p = np.asarray(positions)
        n = T19[0].shape[0] if bug else T19[1].shape[0]
        return np.concatenate([T19[0][p // n % 8], T19[1][p % n]], axis=-1)
    return table
case("i019", make, AxialLearned(T19, flat=True), "table",
     "The flat position is split by the rows of the first table (8) instead of those of the second "
     "(32): both coordinates are wrong from position 8 on.", "axial-split",
     "divmod(p, rows of the last axis).")


# ---- i020
T20 = (rand(20, 50, 16), rand(201, 50, 16))
def make(bug):
    row_embed, col_embed = T20
    def grid(h, w):
        i, j = torch.arange(w), torch.arange(h)
        x_emb = torch.from_numpy(col_embed)[i]
        y_emb = torch.from_numpy(col_embed if bug else row_embed)[j]
        pos = torch.cat([x_emb.unsqueeze(0).repeat(h, 1, 1), y_emb.unsqueeze(1).repeat(1, w, 1)], -1)
        return pos.flatten(0, 1).numpy()
    return grid
case("i020", make, AxialLearned(T20, order=(1, 0)), "grid",
     "The rows of patches are looked up in col_embed like the columns (a copied line); row_embed is "
     "never used.", "one-table-for-both", "y reads row_embed.")


# ---- i021
def make(bug):
    L = 6
    bands = np.linspace(1.0, 2.0 ** (L - 1), L) if bug else 2.0 ** np.arange(L)
    def embed(v):
        v = np.asarray(v, np.float64)
        outs = [v]
        for b in bands:
            outs += [np.sin(v * b), np.cos(v * b)]
        return np.moveaxis(np.concatenate(outs, 0), 0, -1).astype(np.float32)
    return embed
case("i021", make, FourierFeatures.nerf(6, unit="radian", include_input=True), "table",
     "The frequency bands are equally spaced from 1 to 2**(L-1) (log_sampling=False) instead of "
     "powers of two.", "linear-bands", "bands = 2.0 ** arange(L).")


# ---- i022
def make(bug):
    res, bands = (16, 24), 5
    def features(coords):
        c = np.asarray(coords, np.float64)
        sin, cos = [], []
        for axis, n in enumerate(res):
            f = np.linspace(1.0, n / 2, bands)
            a = np.pi * c[axis][..., None] * f
            sin.append(np.sin(a)); cos.append(np.cos(a))
        parts = [*sin, *cos]
        own = np.moveaxis(c, 0, -1)
        parts = [*parts, own] if bug else [own, *parts]
        return np.concatenate(parts, -1).astype(np.float32)
    return features
case("i022", make, FourierFeatures.perceiver(5, (16, 24)), "table",
     "The coordinates themselves are appended after the sines and cosines, where Perceiver's "
     "features start with them.", "input-columns-last", "Put the coordinates in front.")


# ---- i023
w23, b23 = rand(23, 12, scale=0.3).astype(float), rand(231, 12).astype(float)
def make(bug):
    def t2v(t):
        t = np.asarray(t, np.float64)[..., None]
        lin = w23[:1] * t + b23[:1]
        per = np.sin(w23[1:] * t) + b23[1:] if bug else np.sin(w23[1:] * t + b23[1:])
        return np.concatenate([lin, per], axis=-1).astype(np.float32)
    return t2v
case("i023", make, Time2Vec(w23, b23), "table",
     "The phases of the periodic components are added after the sine, sin(w t) + b, instead of "
     "inside it.", "phase-outside", "sin(w t + b).")


# ---- i024
def make(bug):
    ref = sincos(np.arange(64), 32)
    if bug:
        mean, std = ref.mean(0), ref.std(0, ddof=1)
        std = np.where(std > 1e-12, std, 1.0)
    else:
        mean, std = ref.mean(), ref.std(ddof=1)
    def table(p):
        return ((sincos(p, 32) - mean) / (std * 10)).astype(np.float32)
    return table
case("i024", make, StandardizedSinusoidal(32, 64), "table",
     "Mean and standard deviation are taken for each column of the table, not over all its "
     "elements.", "per-column-moments", "Use the mean and std of the whole table.")


# ---- i025
W25 = rand(25, 1024, 20)
def make(bug):
    class Both:
        def __init__(self):
            self.memo = {}

        def __call__(self, positions):
            p = np.asarray(positions)
            key = p.shape if bug else (p.shape, p.astype(np.int64).tobytes())
            if key not in self.memo:
                self.memo[key] = sincos(p, 20)
            return (self.memo[key] + W25[p]).astype(np.float32)
    return Both()
case("i025", make, Hybrid((Sinusoidal(20), Learned(W25))), "table",
     "The sinusoidal rows are cached by the number of positions only: a call with as many but other "
     "positions gets the sinusoids of the first such call.", "cache-key-length",
     "Make the positions part of the key.")


# ---- i026
W26 = rand(26, 1 + 7 * 5, 16)
def make(bug):
    old, new = (7, 5), (10, 9)
    grid = W26[1:].reshape(7, 5, 16)
    at = [np.minimum(np.floor((np.arange(m) + (0.5 if bug else 0.0)) * n / m), n - 1).astype(int)
          for n, m in zip(old, new)]
    full = np.concatenate([W26[:1], grid[at[0]][:, at[1]].reshape(-1, 16)])
    def table(p):
        return full[np.asarray(p)]
    return table
case("i026", make, Learned(resize_table(W26, (7, 5), (10, 9), kept=1, mode="nearest")), "table",
     "The position table is resized with 'nearest-exact' (source of the pixel centre, "
     "floor((i + 1/2) r)) instead of 'nearest' (floor(i r)), so some patches get the row of the next "
     "source patch.", "nearest-exact", "Use mode='nearest'.")


# ---- i027
W27 = rand(27, 36, 12)
def make(bug):
    t = torch.from_numpy(W27).double().reshape(1, 6, 6, 12).permute(0, 3, 1, 2)
    big = torch.nn.functional.interpolate(t, size=(12, 12), mode="bilinear", align_corners=bug)
    full = big.permute(0, 2, 3, 1).reshape(144, 12).float().numpy()
    return lambda p: full[np.asarray(p)]
case("i027", make, Learned(resize_table(W27, (6, 6), (12, 12), mode="bilinear")), "table",
     "The position table is resized with align_corners=True instead of False, so the sample points "
     "run from the first to the last source patch.", "align-corners",
     "Pass align_corners=False.")


# ---- i028
def make(bug):
    def rows(seq_len):
        p = np.linspace(0, seq_len, seq_len) if bug else np.arange(seq_len)
        return sincos(p, 40).astype(np.float32)
    return rows
case("i028", make, Sinusoidal(40), "rows",
     "Positions are np.linspace(0, S, S), which ends at S, so position i is i S/(S-1) instead of i.",
     "linspace-endpoint", "Use arange(S).")


# ---- i029
def make(bug):
    om = 10000.0 ** (-np.arange(16) / (16 if bug else 15))
    def table(positions):
        y, x = np.asarray(positions, np.float64)
        ay, ax = y[..., None] * om, x[..., None] * om
        return np.concatenate([np.sin(ax), np.cos(ax), np.sin(ay), np.cos(ay)], -1).astype(np.float32)
    return table
case("i029", make, Sinusoidal2D(64, axis_order="wh", denominator="half-1"), "table",
     "The exponents are k / (dim/4) where the checkpoint has k / (dim/4 - 1) (MoCo v3), so the last "
     "frequency is not 1/10000.", "denominator-2d", "Divide by dim/4 - 1.")


# ---- i030
B30 = rand(30, 32, 2, scale=2.0).astype(float)
def make(bug):
    def sam_pe(coords):
        c = np.stack([np.asarray(v, np.float64) for v in coords], axis=-1)
        c = c - 0.5 if bug else 2 * c - 1
        c = 2 * np.pi * (c @ B30.T)
        return np.concatenate([np.sin(c), np.cos(c)], axis=-1).astype(np.float32)
    return sam_pe
case("i030", make, FourierFeatures(B30, unit="turn", position_scale=2.0, offset=-0.5), "table",
     "The coordinates are centred, c - 1/2, but not doubled: SAM maps 0 .. 1 to -1 .. 1 by 2 c - 1.",
     "coordinates-not-doubled", "Use 2 c - 1.")

# =============================== right ones

# ---- i101
def make(bug):
    """two-level tables of complex numbers: exp(i p w) = exp(i hi w) exp(i lo w)"""
    w = np.array([float(10000.0 ** (-k / 32)) for k in range(32)])
    lo = np.exp(1j * np.outer(np.arange(256), w))
    def table(positions):
        p = np.asarray(positions)
        if p.dtype.kind not in "iu":
            z = np.exp(1j * np.multiply.outer(p.astype(float), w))
        else:
            p = p.astype(np.int64)
            z = np.exp(1j * np.multiply.outer(((p >> 8) << 8).astype(float), w)) * lo[p & 255]
        return np.stack([z.imag, z.real], -1).reshape(*p.shape, 64).astype(np.float32)
    return table
case("i101", make, Sinusoidal(64), "table", "right: high and low part of the position are turned "
     "separately by complex tables and multiplied", "right")


# ---- i102
def make(bug):
    def grid(h, w):
        mask = torch.ones((h, w), dtype=torch.bool)
        not_mask = mask.double()
        y, x = not_mask.cumsum(0), not_mask.cumsum(1)
        y = y / (y[-1:] + 1e-6) * (2 * math.pi)
        x = x / (x[:, -1:] + 1e-6) * (2 * math.pi)
        inv = torch.exp(-math.log(10000) * torch.arange(0, 64, 2, dtype=torch.float64) / 64)
        z = torch.stack([torch.polar(torch.ones(()).double(), c[..., None] * inv) for c in (y, x)], 2)
        out = torch.view_as_real(z).flip(-1)  # (h, w, 2, 32, 2): imag, real
        return out.reshape(h * w, 128).float().numpy()
    return grid
case("i102", make, DETRSine(128), "grid", "right: polar complex numbers, flipped to sine and cosine",
     "right")


# ---- i103
W103 = rand(103, 300, 10)
def make(bug):
    def table(positions):
        p = np.asarray(positions)
        flat = p.reshape(-1)
        hot = np.zeros((flat.size, 300), np.float32)
        hot[np.arange(flat.size), flat + 3] = 1
        return (hot @ W103).reshape(*p.shape, 10)
    return table
case("i103", make, Learned(W103, offset=3), "table", "right: one-hot matrix times the weight, which "
     "is exact", "right")


# ---- i104
T104 = (rand(104, 4, 6), rand(1041, 6, 8), rand(1042, 5, 10))
def make(bug):
    def table(p):
        idx = np.unravel_index(np.asarray(p), (4, 6, 5))
        return np.concatenate([np.take(t, i, axis=0) for t, i in zip(T104, idx)], -1)
    return table
case("i104", make, AxialLearned(T104, flat=True), "table", "right: unravel_index over three tables",
     "right")


# ---- i105
def make(bug):
    """double-angle recurrence in float64"""
    def nerf(v):
        v = np.asarray(v, np.float64)
        s, c = np.sin(v), np.cos(v)
        cols = [v]
        for level in range(5):
            cols += [s, c]
            s, c = 2 * s * c, (c - s) * (c + s)
        return np.moveaxis(np.concatenate(cols), 0, -1).astype(np.float32)
    return nerf
case("i105", make, FourierFeatures.nerf(5, unit="radian", include_input=True), "table",
     "right: frequencies doubled by the double-angle formula in float64", "right")


# ---- i106
def make(bug):
    def rows(seq_len):
        w = 10000.0 ** (-np.arange(24) / 24)
        step = np.exp(1j * w)
        z = np.ones(24, complex)
        out = np.empty((seq_len, 48), np.float32)
        for n in range(seq_len):
            if n % 64 == 0:
                z = np.exp(1j * w * n)
            out[n, :24], out[n, 24:] = z.imag, z.real
            z = z * step
        return out
    return rows
case("i106", make, Sinusoidal(48, layout="concat"), "rows", "right: rotated from row to row in "
     "float64 and restarted every 64 rows", "right")


# ---- i107
def make(bug):
    class Lazy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = None

        def forward(self, x):
            n = x.shape[1]
            if self.w is None or self.w.shape[0] < n:
                size = 1 << max(4, (n - 1).bit_length())
                p = torch.arange(size, dtype=torch.float64)[:, None]
                f = torch.pow(torch.tensor(10000.0, dtype=torch.float64),
                              -torch.arange(0, 80, 2, dtype=torch.float64) / 80)
                w = torch.empty(size, 80, dtype=torch.float64)
                torch.sin(p * f, out=w[:, 0::2]) if False else w[:, 0::2].copy_(torch.sin(p * f))
                w[:, 1::2] = torch.cos(p * f)
                self.w = w.float()
            return x + self.w[:n].to(x.dtype)
    m = Lazy()
    return lambda x: m(x)
case("i107", make, Sinusoidal(80), "add", "right: a float32 table, enlarged to powers of two when "
     "needed", "right", backend="torch")


# ---- i108
def make(bug):
    def box(pos):
        k = np.arange(6)
        f = 2 * np.pi * 10000.0 ** (-2 * k / 12)
        pos = np.asarray(pos, np.float64)[[1, 0, 2, 3]]
        a = pos[..., None] * f
        both = np.stack([np.sin(a), np.sin(a + np.pi / 2)], axis=-1)
        both = np.moveaxis(both, 0, -3)
        return both.reshape(*pos.shape[1:], 48).astype(np.float32)
    return box
case("i108", make, BoxSine(48), "table", "right: cosines as shifted sines, all boxes at once", "right")


# ---- i109
W109 = rand(109, 600, 4)
def make(bug):
    def ids(input_ids):
        out = []
        for row in np.asarray(input_ids):
            n, one = 1, []
            for token in row.tolist():
                if token == 1:
                    one.append(1)
                else:
                    n += 1
                    one.append(n)
            out.append(one)
        return np.array(out, dtype=np.int32).reshape(np.asarray(input_ids).shape)
    return ids
case("i109", make, Learned(W109, padding_idx=1), "ids_from_tokens", "right: a counter for every row, "
     "int32", "right")
