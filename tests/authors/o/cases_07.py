import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

rng = np.random.default_rng(71)
def off(h, w):
    y, x = np.divmod(np.arange(h * w), w)
    return y[:, None] - y, x[:, None] - x

def make(bug):
    def index(window):
        h, w = window
        dy, dx = off(h, w)
        return (dy + h - 1) * (h + w if bug else 2 * w - 1) + (dx + w - 1)
    return index
case("o115", make, None, "relative_index", "the factor of the row offset is h + w, below 2w - 1 for wide windows, so offsets collide", "factor-h-plus-w", "2w - 1")

def make(bug):
    def index(window):
        h, w = window
        t = np.int8 if bug else np.int32
        dy, dx = off(h, w)
        return (dy + h - 1).astype(t) * np.array(2 * w - 1).astype(t) + (dx + w - 1).astype(t)
    return index
case("o116", make, None, "relative_index", "the index is computed in int8 and wraps for windows with more than 128 offsets", "int8-wrap", "a wider integer")

def make(bug):
    def index(window):
        h, w = window
        dy, dx = off(h, w)
        return dy * (2 * w - 1) + np.abs(dx) + h * 2 * w if bug else dy * (2 * w - 1) + dx + h * 2 * w
    return index
case("o117", make, None, "relative_index", "columns enter by their absolute offset, so left and right share an index", "abs-columns", "signed offsets")

def make(bug):
    def index(window):
        h, w = window
        g = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="xy" if bug else "ij")).reshape(2, -1)
        d = g[:, :, None] - g[:, None, :]
        return (d[0] + h - 1) * (2 * w - 1) + d[1] + w - 1
    return index
case("o118", make, None, "relative_index", "meshgrid with 'xy' lists the tokens column by column", "meshgrid-xy-index", "indexing='ij'")

def make(bug):
    def index(window):
        h, w = window
        N = h * w; out = np.empty((N, N), np.int64)
        for s in range(0, N, 32):
            e = min(s + 32, N)
            y, x = np.divmod(np.arange(s, e), w)
            ky, kx = np.divmod(np.arange(N), w)
            if bug and e - s < 32 and s: x = np.arange(e - s) % w
            out[s:e] = (y[:, None] - ky + h - 1) * (2 * w - 1) + x[:, None] - kx + w - 1
        return out
    return index
case("o119", make, None, "relative_index", "in the last partial tile of 32 tokens the columns count from the start of the tile", "tile-columns", "columns from the token number")

def make(bug):
    def index(window):
        h, w = window
        dy, dx = off(h, w)
        z = dy + 1j * dx
        u, inv = np.unique(z.ravel(), return_inverse=True)
        return inv.reshape(z.shape)[::-1, ::-1]
    return index
case("o120", make, None, "relative_index", "ranks of complex offsets, reversed on both axes: offsets change their sign but stay different, so the index is right up to names", "right")

def make(bug):
    def index(window):
        h, w = window
        N = h * w
        base = (np.arange(h)[:, None] * (2 * w - 1) + np.arange(w)).ravel()
        return base[:, None] - base[None, :] - 7
    return index
case("o121", make, None, "relative_index", "differences of one padded number per token; indices are negative too", "right")

# ---- convolutions
erf = np.vectorize(math.erf, otypes=[float])
gelu = lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))) if x.size else x
silu = lambda x: x / (1 + np.exp(-x))
def conv(x, w, b, g, left=None, right=None):
    B, S, C = x.shape; K = w.shape[2]; c = C // g
    left = K // 2 if left is None else left
    p = np.zeros((B, S + K, C)); p[:, left:left + S] = x
    y = np.zeros((B, S, C))
    for k in range(K):
        for n in range(g):
            y[:, :, n * c:(n + 1) * c] += p[:, k:k + S, n * c:(n + 1) * c] @ w[n * c:(n + 1) * c, :, k].T
    return y + b
WA, BA, GA = rng.standard_normal((12, 3, 6)), rng.standard_normal(12), rng.random(6) + 0.5
A = P.ConvPositions((WA,), (BA,), (GA,), groups=4)

def make(bug):
    n = np.sqrt((WA ** 2).sum(axis=(1, 2), keepdims=True)) if bug else np.sqrt((WA ** 2).sum(axis=(0, 1)))
    w = WA / n * GA
    return lambda x: gelu(conv(x.astype(float), w, BA, 4)).astype(x.dtype)
case("o122", make, A, "convolve", "weight norm divides by the norm of every output channel, as of dim 0, though the gains belong to the taps", "norm-of-channels", "norm over the first two axes")

def make(bug):
    w = WA / np.sqrt((WA ** 2).sum(axis=(0, 1))) * GA
    def f(x):
        B, S, C = x.shape; xs = x.astype(float)
        p = np.pad(xs, ((0, 0), (3, 3), (0, 0)))
        win = np.lib.stride_tricks.sliding_window_view(p, 6, axis=1)         # (B, S+1, C, 6)
        win = win[:, 1:] if bug else win[:, :-1]
        y = np.einsum("bsgck,gock->bsgo", win.reshape(B, S, 4, 3, 6), w.reshape(4, 3, 3, 6)).reshape(B, S, C)
        return gelu(y + BA).astype(x.dtype)
    return f
case("o123", make, A, "convolve", "of the S + 1 outputs of the even kernel the first is dropped instead of the last", "drop-first", "drop the last")

def make(bug):
    w = WA / np.sqrt((WA ** 2).sum(axis=(0, 1))) * GA
    def f(x):
        B, S, C = x.shape
        if bug:
            flat = np.concatenate([x.astype(float).reshape(1, B * S, C)], 1)
            return gelu(conv(flat, w, BA, 4).reshape(B, S, C)).astype(x.dtype)
        return gelu(conv(x.astype(float), w, BA, 4)).astype(x.dtype)
    return f
case("o124", make, A, "convolve", "the batch is flattened into one sequence, so the kernel sees the neighbouring rows of the batch instead of zeros", "flat-batch", "pad every row of the batch")

def make(bug):
    w = WA / np.sqrt((WA ** 2).sum(axis=(0, 1))) * GA
    def f(x):
        B, S, C = x.shape; T = 16; parts = []
        for s in range(0, S, T):
            lo, hi = max(s - 3, 0), min(s + T + (0 if bug else 3), S)
            y = conv(x[:, lo:hi].astype(float), w, BA, 4)
            parts.append(y[:, s - lo: s - lo + min(T, S - s)])
        return gelu(np.concatenate(parts, 1)).astype(x.dtype) if parts else x.copy()
    return f
case("o125", make, A, "convolve", "tiles of 16 tokens have a halo on the left only: the last tokens of a tile see zeros after it", "no-right-halo", "a halo on both sides")

def make(bug):
    w = WA / np.sqrt((WA ** 2).sum(axis=(0, 1))) * GA
    perm = np.arange(12).reshape(3, 4).T.ravel() if bug else np.arange(12)
    def f(x):
        y = conv(x.astype(float)[..., perm], w, BA, 4)
        return gelu(y).astype(x.dtype)
    return f
case("o126", make, A, "convolve", "the input channels of a group are taken with stride (channel mod groups) instead of consecutively", "strided-groups", "consecutive channels")

WB = tuple(rng.standard_normal((8, 2, 5)) * .5 for _ in range(3)); BB = tuple(rng.standard_normal(8) for _ in range(3))
D = P.ConvPositions(WB, BB, groups=4, layer_norm=True)
def make(bug):
    def f(x):
        y = x.astype(float)
        for w, b in zip(WB, BB):
            y = conv(y, w, b, 4)
            ax = (1, 2) if bug else -1
            c = y - y.mean(axis=ax, keepdims=True); y = gelu(c / np.sqrt((c * c).mean(axis=ax, keepdims=True) + 1e-5))
        return y.astype(x.dtype)
    return f
case("o127", make, D, "convolve", "the LayerNorm takes mean and variance over tokens and channels together", "norm-over-tokens", "channels only")

def make(bug):
    def f(x):
        y = x.astype(float)
        for n in range(3):
            y = conv(y, WB[n], BB[n], 4)
            c = y - y.mean(axis=-1, keepdims=True); y = c / np.sqrt((c * c).mean(axis=-1, keepdims=True) + 1e-5)
            if not (bug and n == 2): y = gelu(y)
        return y.astype(x.dtype)
    return f
case("o128", make, D, "convolve", "the last layer has no GELU", "no-last-activation", "GELU after every layer")

WS, BS = rng.standard_normal((6, 6, 7)), rng.standard_normal(6)
def make(bug):
    def f(x):
        y = conv(x.astype(float), WS[..., ::-1] if bug else WS, BS, 1)
        return silu(y).astype(x.dtype)
    return f
case("o129", make, P.ConvPositions((WS,), (BS,), activation="silu"), "convolve", "a true convolution (np.convolve) instead of a correlation: the kernel is reversed", "kernel-reversed", "reverse the kernel before np.convolve")

def make(bug):
    def f(x):
        y = silu(conv(x.astype(float), WS, BS, 1))
        return (y[:, 1::2] if bug and x.shape[1] > 1 else y[:, ::2]).astype(x.dtype)
    return f
case("o130", make, P.ConvPositions((WS,), (BS,), activation="silu", stride=2), "convolve", "with stride 2 the odd tokens are kept", "stride-phase", "tokens 0, 2, 4, ...")

def make(bug):
    def f(x):
        B, S, C = x.shape
        idx = np.arange(S)[:, None] + np.arange(7) - 3
        ok = (idx >= 0) & (idx < S)
        g = np.where(ok[None, :, :, None], x.astype(float)[:, np.clip(idx, 0, S - 1)], 0)
        z = g.reshape(B * S, 7 * C) @ WS.transpose(2, 1, 0).reshape(7 * C, C) + BS
        return silu(z).reshape(B, S, C).astype(x.dtype)
    return f
case("o131", make, P.ConvPositions((WS,), (BS,), activation="silu"), "convolve", "im2col: a gather with clipped indices and a mask, then one product of matrices", "right")

# grids
WG, BG = rng.standard_normal((8, 1, 3, 3)), rng.standard_normal(8)
PEG = P.ConvPositions((WG,), (BG,), groups=8, activation="none", residual=True)
def peg(img, w, b):
    B, h, wd, C = img.shape; kh, kw = w.shape[2:]
    p = np.pad(img, ((0, 0), (kh // 2,) * 2, (kw // 2,) * 2, (0, 0))); y = np.zeros_like(img)
    for a in range(kh):
        for c in range(kw): y += p[:, a:a + h, c:c + wd] * w[:, 0, a, c]
    return y + b
def make(bug):
    def f(x, height, width):
        B, N, C = x.shape
        v = x.astype(float)
        img = v.reshape(B, C, height, width).transpose(0, 2, 3, 1) if bug else v.reshape(B, height, width, C)
        y = peg(img, WG, BG)
        y = y.transpose(0, 3, 1, 2).reshape(B, N, C) if bug else y.reshape(B, N, C)
        return (v + y).astype(x.dtype)
    return f
case("o132", make, PEG, "convolve_grid", "tokens are viewed as (B, C, h, w) without the transposition to channels first", "view-channels-first", "transpose before the view")

def make(bug):
    def f(x, height, width):
        B, N, C = x.shape; v = x.astype(float).reshape(B, height, width, C)
        w = WG.swapaxes(2, 3) if bug else WG
        return (v + peg(v, w, BG)).reshape(B, N, C).astype(x.dtype)
    return f
case("o133", make, PEG, "convolve_grid", "the axes of the kernel are exchanged (Kw, Kh)", "kernel-transposed", "kernel as (Kh, Kw)")

def make(bug):
    def f(x, height, width):
        B, N, C = x.shape; v = x.astype(float)
        p = np.pad(v, ((0, 0), (width + 1, width + 1), (0, 0))); y = np.zeros_like(v)
        col = np.arange(N) % width
        for a in range(3):
            for c in range(3):
                s = (a - 1) * width + c - 1 + width + 1
                t = p[:, s:s + N] * WG[:, 0, a, c]
                if not bug: t = t * ((col + c - 1 >= 0) & (col + c - 1 < width))[None, :, None]
                y += t
        return (v + y + BG).astype(x.dtype)
    return f
case("o134", make, PEG, "convolve_grid", "shifts run along the flat tokens without a mask: border columns see the other end of the neighbouring row", "row-wraparound", "mask columns outside the image")

def make(bug):
    def f(x, height, width):
        B, N, C = x.shape; v = x.astype(float).reshape(B, height, width, C)
        p = np.pad(v, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge" if bug else "constant")
        win = np.lib.stride_tricks.sliding_window_view(p, (3, 3), axis=(1, 2))
        y = np.einsum("bhwcij,cij->bhwc", win, WG[:, 0]) + BG + v
        return y.reshape(B, N, C).astype(x.dtype)
    return f
case("o135", make, PEG, "convolve_grid", "the border is padded with its edge values, so the convolution shows no position there", "edge-padding", "zeros")

W2, B2 = tuple(rng.standard_normal((8, 1, 3, 5)) * .4 for _ in range(2)), tuple(rng.standard_normal(8) for _ in range(2))
def make(bug):
    def f(x, height, width):
        B, N, C = x.shape; v = x.astype(float).reshape(B, height, width, C); y = v
        for w, b in zip(W2, B2): y = gelu(peg(y, w, b)) + (v if bug else 0)
        return (y if bug else y + v).reshape(B, N, C).astype(x.dtype)
    return f
case("o136", make, P.ConvPositions(W2, B2, groups=8, residual=True), "convolve_grid", "every layer adds the input, not only the last one", "residual-per-layer", "x + y once")

def make(bug):
    def f(x, height, width):
        B, N, C = x.shape; v = x.astype(float)
        M = np.zeros((N, N, C)); Yy, Xx = np.divmod(np.arange(N), width)
        dy, dx = Yy[None] - Yy[:, None], Xx[None] - Xx[:, None]
        near = (abs(dy) <= 1) & (abs(dx) <= 1); i, j = np.nonzero(near)
        M[i, j] = WG[:, 0].T[dx[i, j] + 1, dy[i, j] + 1]
        return (np.einsum("ijc,bjc->bic", M, v) + BG + v).astype(x.dtype)
    return f
case("o137", make, PEG, "convolve_grid", "the convolution is a sparse (N, N) matrix per channel, and its kernel is indexed (dx, dy) in a transposed array", "right")
