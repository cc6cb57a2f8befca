import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# --- s051: TF tutorial: i not halved
def make(bug):
    D = 64
    def get_angles(pos, i, d_model):
        rates = 1 / np.power(10000.0, (i if bug else 2 * (i // 2)) / np.float64(d_model))
        return pos * rates
    def table(positions):
        rads = get_angles(np.asarray(positions, np.float64)[:, None], np.arange(D)[None, :], D)
        rads[:, 0::2] = np.sin(rads[:, 0::2])
        rads[:, 1::2] = np.cos(rads[:, 1::2])
        return rads
    return table
case("s051", make, P.Sinusoidal(64), "table",
     "The exponent uses the column number for odd columns too, so the cosine of a pair has a lower frequency than its sine.",
     "column-exponent", "Use 2 * (i // 2) / d.")


# --- s052: downscale_freq_shift ignored
def make(bug):
    def get_timestep_embedding(timesteps, dim=128, flip_sin_to_cos=True, downscale_freq_shift=1, max_period=10000):
        half = dim // 2
        exponent = -math.log(max_period) * np.arange(half, dtype=np.float64)
        exponent = exponent / (half - (0 if bug else downscale_freq_shift))
        emb = np.asarray(timesteps, np.float64)[:, None] * np.exp(exponent)[None]
        emb = np.concatenate([np.sin(emb), np.cos(emb)], axis=-1)
        if flip_sin_to_cos:
            emb = np.concatenate([emb[:, half:], emb[:, :half]], axis=-1)
        return emb
    return lambda positions: get_timestep_embedding(positions)
case("s052", make, P.Sinusoidal(128, layout="concat", first="cos", denominator="half-1"), "table",
     "downscale_freq_shift is accepted but not subtracted: the exponents are divided by half instead of half - 1.",
     "freq-shift-ignored", "Divide by half_dim - downscale_freq_shift.")


# --- s053: batch first input in a sequence first module
def make(bug):
    pe = np.zeros((8192, 32))
    t = np.arange(8192)[:, None]
    div = np.exp(np.arange(0, 32, 2) * (-math.log(10000.0) / 32))
    pe[:, 0::2], pe[:, 1::2] = np.sin(t * div), np.cos(t * div)
    pe = pe[:, None, :]
    def forward(x):
        if bug:
            return (x + pe[: x.shape[0]]).astype(x.dtype)
        return (x + pe[: x.shape[1], 0]).astype(x.dtype)
    return forward
case("s053", make, P.Sinusoidal(32), "add",
     "The module expects (sequence, batch, channels) and gets batch-first input: the row of the table depends on the batch index, and all tokens of a sequence get the same one.",
     "batch-as-sequence", "Slice by x.shape[1] and broadcast over the batch.")


# --- s054: OPT offset
_W54 = np.random.default_rng(54).standard_normal((514, 24)).astype(np.float32)
def make(bug):
    class OPTLearnedPositionalEmbedding:
        offset = 2
        def __call__(self, past, n):
            first = past if bug else past + self.offset
            return _W54[first:first + n]
    emb = OPTLearnedPositionalEmbedding()
    return lambda seq_len: emb(0, seq_len)
case("s054", make, P.Learned(_W54, offset=2), "rows",
     "The converted model drops the offset of 2: position 0 reads row 0, which belongs to padding.",
     "table-offset-lost", "Add 2 to every position.")


# --- s055: MAE grid, columns of height and width exchanged
def make(bug):
    def one(dim, pos):
        omega = 1.0 / 10000 ** (np.arange(dim // 2, dtype=np.float64) / (dim / 2.0))
        out = np.einsum("m,d->md", pos.reshape(-1), omega)
        return np.concatenate([np.sin(out), np.cos(out)], axis=1)
    def grid(height, width):
        grid_h, grid_w = np.arange(height, dtype=np.float64), np.arange(width, dtype=np.float64)
        g = np.stack(np.meshgrid(grid_w, grid_h), axis=0)  # here w goes first
        a, b = one(32, g[0]), one(32, g[1])
        return np.concatenate([b, a] if bug else [a, b], axis=1)
    return grid
case("s055", make, P.Sinusoidal2D(64, axis_order="wh"), "grid",
     "The first half of the columns gets the row; the checkpoint (which calls it emb_h) has the column of the patch there, because meshgrid returns w first.",
     "halves-exchanged", "Put the columns of the width first.")


# --- s056: meshgrid indexing="ij" with (w, h)
def make(bug):
    def build_2d_sincos(h, w, dim=48):
        if bug:
            gw, gh = np.meshgrid(np.arange(w), np.arange(h), indexing="ij")
        else:
            gh, gw = np.meshgrid(np.arange(h), np.arange(w), indexing="ij")
        n = dim // 4
        omega = 1.0 / 10000.0 ** (np.arange(n) / n)
        oh, ow = gh.flatten()[:, None] * omega, gw.flatten()[:, None] * omega
        return np.concatenate([np.sin(oh), np.cos(oh), np.sin(ow), np.cos(ow)], axis=1)
    return build_2d_sincos
case("s056", make, P.Sinusoidal2D(48), "grid",
     "meshgrid(w, h, indexing='ij') and flatten number the patches column by column, while the tokens are row by row.",
     "grid-column-major", "Make the grid with rows as the first axis before flattening.")


# --- s057: extent divided by the height for both axes
def make(bug):
    def grid(height, width, base_size=16, dim=32):
        sizes = (height, height) if bug else (height, width)
        gh = np.arange(height) / (sizes[0] / base_size)
        gw = np.arange(width) / (sizes[1] / base_size)
        k = np.arange(dim // 4)
        om = 10000.0 ** (-k / (dim // 4))
        y = np.repeat(gh, width)[:, None] * om
        x = np.tile(gw, height)[:, None] * om
        return np.hstack([np.sin(x), np.cos(x), np.sin(y), np.cos(y)])
    return grid
case("s057", make, P.Sinusoidal2D(32, axis_order="wh", extent=16.0), "grid",
     "Both axes are normalised by the number of rows, so on an image that is not square the columns are stretched.",
     "extent-height-only", "Divide the column by the width of the grid.")


# --- s058: DETR normalisation from zero-based coordinates
def make(bug):
    def position_embedding_sine(h, w, num_pos_feats=16, temperature=10000, scale=2 * math.pi, eps=1e-6):
        not_mask = np.ones((h, w))
        y, x = not_mask.cumsum(0), not_mask.cumsum(1)
        if bug:
            y, x = y - 1, x - 1
        y = y / ((h if bug else y[-1:, :]) + eps) * scale
        x = x / ((w if bug else x[:, -1:]) + eps) * scale
        dim_t = np.arange(num_pos_feats)
        dim_t = temperature ** (2 * (dim_t // 2) / num_pos_feats)
        px, py = x[..., None] / dim_t, y[..., None] / dim_t
        px = np.stack((np.sin(px[..., 0::2]), np.cos(px[..., 1::2])), axis=3).reshape(h, w, -1)
        py = np.stack((np.sin(py[..., 0::2]), np.cos(py[..., 1::2])), axis=3).reshape(h, w, -1)
        return np.concatenate((py, px), axis=2).reshape(h * w, -1)
    return position_embedding_sine
case("s058", make, P.DETRSine(32), "grid",
     "The export replaces the cumulative sums by arange, which starts at 0 and not at 1, before the normalisation.",
     "cumsum-zero-based", "Count pixels from 1.")


# --- s059: box coordinates in the order of the paper
def make(bug):
    def gen_sineembed_for_position(pos, dim=16):
        x, y, w, h = np.asarray(pos, np.float64)
        dim_t = 10000 ** (2 * (np.arange(dim) // 2) / dim)
        def enc(c):
            a = c[:, None] * (2 * math.pi) / dim_t
            return np.stack((np.sin(a[:, 0::2]), np.cos(a[:, 1::2])), axis=2).reshape(len(a), -1)
        order = (x, y, w, h) if bug else (y, x, w, h)
        return np.concatenate([enc(c) for c in order], axis=1)
    return gen_sineembed_for_position
case("s059", make, P.BoxSine(64), "table",
     "The columns follow the order x, y, w, h of the paper; the released code and its checkpoints have y before x.",
     "box-order", "Concatenate pos_y, pos_x, pos_w, pos_h.")


# --- s060: SAM random features without the move to -1 .. 1
_G60 = np.random.default_rng(60).standard_normal((12, 2))
def make(bug):
    def pe_encoding(coords):
        c = np.moveaxis(np.asarray(coords, np.float64), 0, -1)
        if not bug:
            c = 2 * c - 1
        c = c @ _G60.T
        c = 2 * np.pi * c
        return np.concatenate([np.sin(c), np.cos(c)], axis=-1)
    return pe_encoding
case("s060", make, P.FourierFeatures(_G60, unit="turn", offset=-0.5, position_scale=2.0), "table",
     "Coordinates in 0 .. 1 are multiplied by the Gaussian matrix directly; they have to be moved to -1 .. 1 first.",
     "coords-not-centred", "Use 2 * coords - 1.")


# --- s061: Time2Vec: the linear part goes through the sine too
_w61, _b61 = np.random.default_rng(61).standard_normal((2, 9)) * 0.7
def make(bug):
    def t2v(tau):
        v = np.multiply.outer(np.asarray(tau, np.float64), _w61) + _b61
        if bug:
            return np.sin(v)
        return np.concatenate([v[..., :1], np.sin(v[..., 1:])], axis=-1)
    return t2v
case("s061", make, P.Time2Vec(_w61, _b61), "table",
     "The periodic function is applied to all components, also to the linear one.",
     "linear-part-sine", "Leave component 0 linear.")


# --- s062 right: fairseq table with padding row and odd width
def make(bug):
    def get_embedding(num, dim=33, padding_idx=1):
        half = dim // 2
        e = np.exp(np.arange(half) * -(math.log(10000) / (half - 1)))
        e = np.arange(num)[:, None] * e[None]
        e = np.concatenate([np.sin(e), np.cos(e)], axis=1).reshape(num, -1)
        return np.concatenate([e, np.zeros((num, 1))], axis=1)
    def rows(seq_len):
        return get_embedding(seq_len + 2)[2:]
    return rows
case("s062", make, P.Sinusoidal(33, layout="concat", denominator="half-1", offset=2, odd="zero-pad"), "rows",
     "Right: fairseq's table with an odd width and positions from padding_idx + 1.", "right")


# --- s063 right: DETR learned, x first
_r63, _c63 = np.random.default_rng(63).standard_normal((2, 50, 8)).astype(np.float32)
def make(bug):
    def forward(h, w):
        x_emb, y_emb = _c63[:w], _r63[:h]
        pos = np.concatenate([np.repeat(x_emb[None], h, 0), np.repeat(y_emb[:, None], w, 1)], axis=-1)
        return pos.reshape(h * w, -1)
    return forward
case("s063", make, P.AxialLearned((_r63, _c63), order=(1, 0)), "grid",
     "Right: learned rows and columns, the columns of x first as in DETR.", "right")


# --- s064 right: rotations by the angle addition recurrence in float64 chunks
def make(bug):
    def rows(seq_len, dim=64, chunk=64):
        w = 10000.0 ** (-np.arange(0, dim, 2) / dim)
        base = np.exp(1j * np.arange(chunk)[:, None] * w)
        parts = [base * np.exp(1j * start * w) for start in range(0, seq_len, chunk)]
        z = np.concatenate(parts)[:seq_len] if parts else np.zeros((0, dim // 2), complex)
        return np.stack([z.imag, z.real], axis=-1).reshape(seq_len, dim)
    return rows
case("s064", make, P.Sinusoidal(64), "rows",
     "Right: complex phases of 64 rows, moved on by one factor per chunk.", "right")


# --- s065 right: 3-D table of CogVideoX by nested broadcasting
def make(bug):
    def one(dim, p):
        om = np.arange(dim // 2) / (dim / 2.0)
        a = np.outer(p, 1.0 / 10000 ** om)
        return np.concatenate([np.sin(a), np.cos(a)], 1)
    def table(positions):
        t, y, x = np.asarray(positions, np.float64)
        return np.concatenate([one(16, t), one(24, x), one(24, y)], axis=1)
    return table
case("s065", make, P.Sinusoidal3D((16, 24, 24), axis_order="twh"), "table",
     "Right: frames, then the width, then the height, as in diffusers.", "right")


# --- s066 right: reformer axial table by reshaping the product grid
_a66 = np.random.default_rng(66).standard_normal((16, 6)).astype(np.float32)
_b66 = np.random.default_rng(67).standard_normal((32, 10)).astype(np.float32)
def make(bug):
    full = np.concatenate([np.broadcast_to(_a66[:, None], (16, 32, 6)), np.broadcast_to(_b66[None], (16, 32, 10))], -1).reshape(512, 16)
    return lambda positions: full[np.asarray(positions)]
case("s066", make, P.AxialLearned((_a66, _b66), flat=True), "table",
     "Right: the whole product table is made once and looked up by the flat position.", "right")


# --- s067: slopes of other head counts: no stride
def make(bug):
    def build_slopes(n_heads):
        closest = 2 ** math.floor(math.log2(n_heads))
        base = 2.0 ** (-(2.0 ** -(math.log2(closest) - 3)))
        slopes = np.power(base, np.arange(1, closest + 1))
        if closest != n_heads:
            extra_base = 2.0 ** (-(2.0 ** -(math.log2(2 * closest) - 3)))
            n = min(closest, n_heads - closest)
            powers = np.arange(1, 1 + n) if bug else np.arange(1, 1 + 2 * n, 2)
            slopes = np.concatenate([slopes, np.power(extra_base, powers)])
        return slopes
    return build_slopes
case("s067", make, P.ALiBi(12), "slopes",
     "The additional slopes take the powers 1, 2, 3, ... of the finer base and not the odd ones, so some repeat slopes of the first heads.",
     "slopes-no-stride", "Use arange(1, 1 + 2 * n, 2).")


# --- s068: tensor parallel rank computes slopes of its own head count
def make(bug):
    def slopes(n):
        c = 2 ** int(math.floor(math.log2(n)))
        s = [2 ** (-8 * (h + 1) / c) for h in range(c)]
        return np.array(s + [2 ** (-4 * (2 * h + 1) / c) for h in range(n - c)])
    def get_rank_slopes(num_heads, tp_size, tp_rank):
        per = num_heads // tp_size
        if bug:
            return slopes(per)
        return slopes(num_heads)[tp_rank * per:(tp_rank + 1) * per]
    return get_rank_slopes
case("s068", make, P.ALiBi(16), "rank_slopes",
     "Each tensor-parallel rank computes the slopes for its local number of heads, so all ranks have the same ones.",
     "slopes-local-heads", "Compute all slopes and slice those of the rank.")


# --- s069: alibi bias, query positions from 0 with a cache
def make(bug):
    m = 2.0 ** (-np.arange(1, 9))
    def bias(q_len, k_len):
        i = np.arange(q_len) + (0 if bug else k_len - q_len)
        dist = np.abs(i[:, None] - np.arange(k_len)[None, :])
        return -m[:, None, None] * dist[None]
    return bias
case("s069", make, P.ALiBi(8), "bias",
     "Query positions start at 0 although the keys of the cache are before them, so distances to later cached keys grow instead of falling.",
     "cache-length-ignored", "Add k_len - q_len to the query positions.")


# --- s070: bidirectional flag of T5 decoder ignored when halving
def make(bug):
    num_buckets, max_distance, bidirectional = 32, 128, False
    def relative_position_bucket(relative_position):
        nb, ret = num_buckets, 0
        n = -np.asarray(relative_position)
        if bidirectional:
            nb //= 2
            ret = (n < 0) * nb
            n = np.abs(n)
        else:
            if bug:
                nb //= 2
            n = np.maximum(n, 0)
        max_exact = nb // 2
        large = max_exact + np.floor(np.log(np.maximum(n, 1) / max_exact) / math.log(max_distance / max_exact) * (nb - max_exact) + 1e-9).astype(np.int64)
        return ret + np.where(n < max_exact, n, np.minimum(large, nb - 1))
    return relative_position_bucket
_T70 = np.random.default_rng(70).standard_normal((32, 4)).astype(np.float32)
case("s070", make, P.T5Bias(_T70, bidirectional=False), "bucket",
     "The number of buckets is halved for the decoder too, which uses only buckets 0 to 15.",
     "buckets-halved", "Halve num_buckets only if bidirectional.")


# --- s071: Swin index with the height as factor
def make(bug):
    def get_rel_pos_index(window):
        wh, ww = window
        coords = np.stack(np.meshgrid(np.arange(wh), np.arange(ww), indexing="ij")).reshape(2, -1)
        rel = (coords[:, :, None] - coords[:, None, :]).transpose(1, 2, 0).copy()
        rel[:, :, 0] += wh - 1
        rel[:, :, 1] += ww - 1
        rel[:, :, 0] *= 2 * (wh if bug else ww) - 1
        return rel.sum(-1)
    return get_rel_pos_index
case("s071", make, None, "relative_index",
     "The row offset is multiplied by 2 * height - 1; on windows wider than high, different offsets share an index.",
     "index-factor-height", "Multiply by 2 * width - 1.")


# --- s072: Swin bias viewed without permute
_T72 = np.random.default_rng(72).standard_normal((35, 3)).astype(np.float32)
def make(bug):
    h, w = 3, 4
    y, x = np.divmod(np.arange(h * w), w)
    index = (y[:, None] - y + h - 1) * (2 * w - 1) + (x[:, None] - x + w - 1)
    def bias(q_len, k_len):
        b = _T72[index.reshape(-1)]
        b = b.reshape(-1, h * w, h * w) if bug else b.reshape(h * w, h * w, -1).transpose(2, 0, 1)
        return b[:, k_len - q_len:k_len, :k_len]
    return bias
case("s072", make, P.SwinBias(_T72, window=(3, 4)), "bias",
     "The gathered rows (N * N, heads) are viewed as (heads, N, N) without a permutation, which scatters the biases over heads and pairs.",
     "view-without-permute", "View as (N, N, heads) and permute.")


# --- s073: Swin v2, pretrained window ignored
_h73, _c73, _o73 = (np.random.default_rng(73 + i).standard_normal(s).astype(np.float32) for i, s in enumerate(((24, 2), (24,), (3, 24))))
def make(bug):
    win, pre = (6, 6), (4, 4)
    def bias(q_len, k_len):
        n = win if bug else pre
        c = np.stack(np.meshgrid(*[np.arange(-(s - 1), s, dtype=np.float64) for s in win], indexing="ij"), -1)
        c = c / (np.array(n) - 1) * 8
        c = np.sign(c) * np.log2(np.abs(c) + 1.0) / np.log2(8)
        t = np.maximum(c.reshape(-1, 2) @ _h73.T.astype(float) + _c73, 0) @ _o73.T.astype(float)
        y, x = np.divmod(np.arange(36), 6)
        idx = (y[:, None] - y + 5) * 11 + x[:, None] - x + 5
        b = 16 / (1 + np.exp(-t[idx].transpose(2, 0, 1)))
        return b[:, k_len - q_len:k_len, :k_len]
    return bias
case("s073", make, P.LogCPB(_h73, _c73, _o73, window=(6, 6), pretrained_window=(4, 4)), "bias",
     "The coordinates are normalised by the present window although the model was pretrained with a smaller one.",
     "pretrained-window-ignored", "Divide by pretrained_window_size - 1.")
