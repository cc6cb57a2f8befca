import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# ---- r035 the paper's table with tensor2tensor's denominator
def make(bug):
    d = 64

    def table(positions):
        n = d // 2 - 1 if bug else d // 2
        div = np.exp(np.arange(d // 2) * -(math.log(10000.0) / n))
        t = np.asarray(positions, np.float64)[:, None] * div
        pe = np.zeros((t.shape[0], d))
        pe[:, 0::2] = np.sin(t)
        pe[:, 1::2] = np.cos(t)
        return pe
    return table

case("r035", make, P.Sinusoidal(64), "table",
     "The logarithm of the longest timescale is divided by d/2 - 1, as in tensor2tensor, instead of d/2.",
     "sinusoid-half-minus-one", "Divide by d/2: the exponent is 2k/d.")


# ---- r036 fairseq: table begins at padding_idx + 1
def make(bug):
    dim, padding_idx = 32, 1

    def get_embedding(num):
        half = dim // 2
        emb = np.exp(np.arange(half) * -(math.log(10000) / (half - 1)))
        ang = np.arange(num)[:, None] * emb[None]
        return np.concatenate([np.sin(ang), np.cos(ang)], axis=1)

    def rows(seq_len):
        weights = get_embedding(padding_idx + 1 + seq_len)
        start = padding_idx if bug else padding_idx + 1
        return weights[start: start + seq_len]
    return rows

case("r036", make, P.Sinusoidal(32, layout="concat", denominator="half-1", offset=2), "rows",
     "The first token gets the row padding_idx, which belongs to padding, instead of padding_idx + 1.",
     "fairseq-offset-one", "Positions start at padding_idx + 1.")


# ---- r037 odd dim
def make(bug):
    d = 33

    def pe(positions):
        p = np.asarray(positions, np.float64)
        k = np.arange((d + 1) // 2)
        w = 10000.0 ** (-2 * k / d)
        out = np.empty((p.size, d))
        out[:, 0::2] = np.sin(p[:, None] * w)
        c = np.cos(p[:, None] * w)
        out[:, 1::2] = c[:, 1:] if bug else c[:, :-1]
        return out
    return pe

case("r037", make, P.Sinusoidal(33, odd="extra-sin"), "table",
     "With an odd number of columns there is one frequency too many for the cosines, and the first one is dropped instead of the last.",
     "odd-dim-drops-first", "Drop the last column of the cosines.")


# ---- r038 meshgrid
def make(bug):
    d = 32

    def one_axis(pos):
        omega = 1.0 / 10000 ** (np.arange(d // 4) / (d / 4.0))
        out = np.outer(pos.reshape(-1), omega)
        return np.concatenate([np.sin(out), np.cos(out)], axis=1)

    def get_2d_sincos_pos_embed(height, width):
        hs, ws = np.arange(height, dtype=float), np.arange(width, dtype=float)
        if bug:
            y, x = np.meshgrid(hs, ws)
        else:
            y, x = np.meshgrid(hs, ws, indexing="ij")
        return np.concatenate([one_axis(y), one_axis(x)], axis=1)
    return get_2d_sincos_pos_embed

case("r038", make, P.Sinusoidal2D(32), "grid",
     "meshgrid is called without indexing='ij', so patches are listed column by column.",
     "meshgrid-xy", "Pass indexing='ij', or transpose before flattening.")


# ---- r039 DETR: both axes divided by the width
def make(bug):
    dim, T, eps, scale = 32, 10000.0, 1e-6, 2 * math.pi

    def position_embedding_sine(height, width):
        not_mask = np.ones((height, width))
        y, x = not_mask.cumsum(0), not_mask.cumsum(1)
        y = y / ((x[:, -1:] if bug else y[-1:, :]) + eps) * scale
        x = x / (x[:, -1:] + eps) * scale
        n = dim // 2
        dim_t = T ** (2 * (np.arange(n) // 2) / n)
        px, py = x[..., None] / dim_t, y[..., None] / dim_t
        px, py = (np.stack((np.sin(p[..., 0::2]), np.cos(p[..., 1::2])), axis=3).reshape(height, width, -1)
                  for p in (px, py))
        return np.concatenate((py, px), axis=2).reshape(height * width, dim)
    return position_embedding_sine

case("r039", make, P.DETRSine(32), "grid",
     "Rows are normalised by the width of the image instead of its height.",
     "detr-normalised-by-width", "Divide y by the last row of its own cumulative sum.")


# ---- r040 embeddings scaled inside
def make(bug):
    class PositionalEncoding:
        def __init__(self, d_model, max_len=4096):
            pos = np.arange(max_len)[:, None]
            div = np.exp(np.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
            self.pe = np.zeros((1, max_len, d_model))
            self.pe[0, :, 0::2], self.pe[0, :, 1::2] = np.sin(pos * div), np.cos(pos * div)
            self.xscale = math.sqrt(d_model)

        def forward(self, x):
            if bug:
                x = x * np.asarray(self.xscale, x.dtype)
            return (x + self.pe[:, : x.shape[1]]).astype(x.dtype)
    m = PositionalEncoding(48)
    return lambda x: m.forward(x)

case("r040", make, P.Sinusoidal(48), "add",
     "The module multiplies the embeddings by sqrt(d_model) before it adds the table.",
     "add-xscale", "Add the table to the embeddings as they are; scaling belongs to the embedding layer.")


# ---- r041 learned offset twice
W41 = np.random.default_rng(41).normal(size=(70, 12)).astype(np.float32)

def make(bug):
    class OPTLearnedPositionalEmbedding:
        offset = 2

        def __init__(self, weight):
            self.weight = weight

        def __call__(self, positions):
            start = 0 if bug else self.offset
            return self.weight[np.asarray(positions) + start]
    emb = OPTLearnedPositionalEmbedding(W41)
    return lambda seq_len: emb(np.arange(seq_len))

case("r041", make, P.Learned(W41, offset=2), "rows",
     "The table has two rows for padding in front, and they are used for the first two tokens.",
     "learned-offset-ignored", "Add the offset of 2 to every position.")


# ---- r042 Reformer: wrong divisor
E0 = np.random.default_rng(420).normal(size=(6, 4)).astype(np.float32)
E1 = np.random.default_rng(421).normal(size=(11, 8)).astype(np.float32)

def make(bug):
    def axial(positions):
        p = np.asarray(positions)
        if bug:
            q, r = np.divmod(p, len(E0))
            q, r = r, q                                    # first axis fastest
        else:
            q, r = np.divmod(p, len(E1))
        return np.concatenate([E0[q], E1[r]], axis=-1)
    return axial

case("r042", make, P.AxialLearned((E0, E1), flat=True), "table",
     "The first axis runs fastest: a position is divided by the rows of the first table instead of the second.",
     "axial-first-axis-fastest", "The last axis runs fastest: p // rows_1 and p % rows_1.")


# ---- r043 numpy's std
def make(bug):
    d, n = 16, 24

    def coord():
        pe = np.zeros((n, d))
        pos = np.arange(n)[:, None]
        div = np.exp(np.arange(0, d, 2) * -(math.log(10000.0) / d))
        pe[:, 0::2], pe[:, 1::2] = np.sin(pos * div), np.cos(pos * div)
        pe = pe - pe.mean()
        return pe / (pe.std(ddof=0 if bug else 1) * 10)

    def rows(seq_len):
        if seq_len <= n:
            return coord()[:seq_len]
        pos = np.arange(seq_len)[:, None]
        div = np.exp(np.arange(0, d, 2) * -(math.log(10000.0) / d))
        t = np.empty((seq_len, d))
        t[:, 0::2], t[:, 1::2] = np.sin(pos * div), np.cos(pos * div)
        base = t[:n]
        return (t - base.mean()) / (base.std(ddof=0 if bug else 1) * 10)
    return rows

case("r043", make, P.StandardizedSinusoidal(16, 24), "rows",
     "The deviation is np.std, which divides by n; the model was written with torch.std, which divides by n - 1.",
     "std-ddof", "Pass ddof=1.")


# ---- r044 resized table with align_corners
OLD44 = np.random.default_rng(44).normal(size=(20, 6))
NEW44 = P.resize_table(OLD44, (4, 5), (7, 8), mode="bilinear").astype(np.float32)

def make(bug):
    def matrix(n, m):
        M = np.zeros((m, n))
        for i in range(m):
            c = i * (n - 1) / (m - 1) if bug else max((i + 0.5) * n / m - 0.5, 0.0)
            j = min(int(c), n - 1)
            t = c - j
            M[i, j] += 1 - t
            M[i, min(j + 1, n - 1)] += t
        return M

    H, W = matrix(4, 7), matrix(5, 8)
    pos = np.einsum("yi,xj,ijc->yxc", H, W, OLD44.reshape(4, 5, 6)).reshape(56, 6).astype(np.float32)
    return lambda positions: pos[np.asarray(positions)]

case("r044", make, P.Learned(NEW44), "table",
     "The table of a 4 x 5 grid is interpolated to 7 x 8 with align_corners=True, although the model was trained without.",
     "resize-align-corners", "Use the centres of the cells: (i + 0.5) * old / new - 0.5.")


# ---- r045 Time2Vec: phase outside
TW = np.round(np.random.default_rng(45).normal(size=9) * 0.7, 3)
TB = np.round(np.random.default_rng(46).normal(size=9), 3)

def make(bug):
    def t2v(tau):
        tau = np.asarray(tau, np.float64).reshape(-1, 1)
        v1 = tau * TW[:1] + TB[:1]
        v2 = np.sin(tau * TW[1:]) + TB[1:] if bug else np.sin(tau * TW[1:] + TB[1:])
        return np.concatenate([v1, v2], -1)
    return t2v

case("r045", make, P.Time2Vec(TW, TB), "table",
     "The learned phases are added after the sine instead of inside it.",
     "time2vec-phase-outside", "sin(w * t + b)")


# ---- right: rows by doubling
def make(bug):
    d = 32
    w = 10000.0 ** (-2 * np.arange(d // 2) / d)

    def rows(seq_len):
        z = np.ones((1, d // 2), complex)
        while len(z) < seq_len:
            z = np.concatenate([z, z * np.exp(1j * len(z) * w)])
        z = z[:seq_len]
        return np.stack([z.imag, z.real], -1).reshape(seq_len, d)
    return rows

case("r086", make, P.Sinusoidal(32), "rows",
     "Rows n .. 2n-1 are rows 0 .. n-1 turned by n positions.", "right")


# ---- right: a sine with a phase
def make(bug):
    d, base = 24, 10000.0
    n = d // 2
    freq = np.tile(base ** (-np.arange(n) / (n - 1)), 2)
    phase = np.repeat([math.pi / 2, 0.0], n)

    def table(positions):
        return np.sin(np.asarray(positions, np.float64)[:, None] * freq + phase)
    return table

case("r087", make, P.Sinusoidal(24, layout="concat", first="cos", denominator="half-1"), "table",
     "Cosines are sines with a phase of a quarter turn, in one call of sin.", "right")


# ---- right: timm grid by outer sums
def make(bug):
    d = 24
    bands = 10000.0 ** (-np.arange(d // 4) / (d // 4))

    def build(height, width):
        y, x = np.divmod(np.arange(height * width), width)
        pos = np.stack([y, x], -1)[:, :, None] * bands          # (N, 2, d/4)
        flat = pos.reshape(height * width, d // 2)
        return np.concatenate([np.sin(flat), np.cos(flat)], axis=1)
    return build

case("r088", make, P.Sinusoidal2D(24, layout="grouped"), "grid",
     "Row and column come from divmod of the number of the patch; sines of both axes come before the cosines.", "right")


# ---- right: add in tiles
def make(bug):
    d = 40
    div = np.exp(np.arange(0, d, 2) * (-math.log(10000.0) / d))

    def add(x):
        out = np.empty_like(x)
        for s in range(0, x.shape[1], 64):
            block = x[:, s: s + 64]
            a = np.arange(s, s + block.shape[1])[:, None] * div
            out[:, s: s + 64, 0::2] = block[..., 0::2] + np.sin(a)
            out[:, s: s + 64, 1::2] = block[..., 1::2] + np.cos(a)
        return out
    return add

case("r089", make, P.Sinusoidal(40), "add",
     "The table is computed and added in tiles of 64 tokens.", "right")
