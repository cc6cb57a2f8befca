import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

RNG = np.random.default_rng(1404)


# ---------------------------------------------------------------- resized tables
def axis_weights(n, m, kernel, reach):
    """Weights (m, n) of half-pixel interpolation with clamped ends."""
    out = np.zeros((m, n))
    for i in range(m):
        c = (i + 0.5) * n / m - 0.5
        if reach == 1:
            c = max(c, 0.0)
        f = math.floor(c)
        for j in range(f - reach + 1, f + reach + 1):
            out[i, min(max(j, 0), n - 1)] += kernel(abs(c - j))
    return out


def cubic(a):
    def k(t):
        if t <= 1:
            return (a + 2) * t ** 3 - (a + 3) * t ** 2 + 1
        return a * t ** 3 - 5 * a * t ** 2 + 8 * a * t - 4 * a if t < 2 else 0.0
    return k


VIT = RNG.standard_normal((1 + 16, 12)).astype(np.float32)


def make(bug):
    k = cubic(-0.5 if bug else -0.75)
    H, W = axis_weights(4, 6, k, 2), axis_weights(4, 7, k, 2)
    patches = np.einsum("ia,jb,abd->ijd", H, W, VIT[1:].astype(np.float64).reshape(4, 4, 12)).reshape(42, 12)
    full = np.concatenate([VIT[:1], patches.astype(np.float32)])

    def rows(seq_len):
        return full[:seq_len]
    return rows
case("t049", make, P.Learned(P.resize_table(VIT, (4, 4), (6, 7), kept=1)), "rows",
     "The bicubic kernel has the coefficient -1/2 of Pillow; the model's interpolation without antialiasing has -3/4.",
     "bicubic-coefficient", "Use a = -0.75.")

DEIT = RNG.standard_normal((2 + 15, 8)).astype(np.float32)


def make(bug):
    kept, grid = DEIT[:2], DEIT[2:].reshape(3, 5, 8).astype(np.float64)
    tent = lambda t: max(1 - t, 0.0)
    H, W = axis_weights(3, 6, tent, 1), axis_weights(5, 4, tent, 1)
    new = np.tensordot(H, np.tensordot(W, grid, (1, 1)), (1, 1)).reshape(24, 8).astype(np.float32)
    full = np.concatenate([new, kept] if bug else [kept, new], axis=0)

    def table(positions):
        return full[np.asarray(positions)]
    return table
case("t050", make, P.Learned(P.resize_table(DEIT, (3, 5), (6, 4), kept=2, mode="bilinear")), "table",
     "After the resize, the rows of the class and distillation tokens are appended behind the patches instead of put in front.",
     "class-token-rows-behind", "Concatenate the kept rows first.")

ROW, COL = RNG.standard_normal((2, 50, 16)).astype(np.float32)


def make(bug):
    def grid(height, width):
        x = np.broadcast_to(COL[:width][None], (height, width, 16))
        y = np.broadcast_to(ROW[:height][:, None], (height, width, 16))
        return np.concatenate([y, x] if bug else [x, y], -1).reshape(-1, 32)
    return grid
case("t051", make, P.AxialLearned((ROW, COL), order=(1, 0)), "grid",
     "The row embedding comes first, as in DETR's sinusoids; in its learned table the column embedding does.",
     "learned-axis-order", "Concatenate the column embedding, then the row embedding.")


# ---------------------------------------------------------------- slopes
def make(bug):
    def slopes(num_heads):
        n = 2 ** math.floor(math.log2(num_heads))
        base = 2 ** (-(2 ** -(math.log2(n) - 3)))
        out = base ** np.arange(1, n + 1)
        if n < num_heads:
            extra = 2 ** (-(2 ** -(math.log2(2 * n) - 3)))
            left = num_heads - n
            out = np.concatenate([out, extra ** (np.arange(1, 1 + left) if bug else np.arange(1, 1 + 2 * left, 2))])
        return out
    return slopes
case("t052", make, P.ALiBi(12), "slopes",
     "The extra slopes of a head count that is no power of two are powers 1, 2, 3, ... of the finer ratio instead of 1, 3, 5, ...",
     "extra-slopes-step", "Step through the exponents by two.")


def all_slopes(n, most=8.0):
    c = 2 ** int(math.log2(n))
    first = [2.0 ** (-most * h / c) for h in range(1, c + 1)]
    return np.array(first + [2.0 ** (-most * h / (2 * c)) for h in range(1, 2 * (n - c), 2)])


def make(bug):
    def rank_slopes(num_heads, tp_size, tp_rank):
        local = num_heads // tp_size
        if bug:
            return all_slopes(local)
        return all_slopes(num_heads)[tp_rank * local:(tp_rank + 1) * local]
    return rank_slopes
case("t053", make, P.ALiBi(16), "rank_slopes",
     "Every tensor-parallel rank computes slopes for its local number of heads, as if the model had no others.",
     "slopes-of-local-heads", "Compute the slopes of all heads and take the rank's part.")


def make(bug):
    attn_config = {"alibi": True, "alibi_bias_max": 16, "n_heads": 8}
    most = attn_config.get("bias_max", 8) if bug else attn_config["alibi_bias_max"]
    m = 1.0 / 2 ** (np.arange(1, 9) * most / 8)

    def bias(q_len, k_len):
        return m[:, None, None] * np.arange(1 - k_len, 1)[None, None, :]
    return bias
case("t054", make, P.ALiBi(8, max_bias=16.0), "bias",
     "alibi_bias_max of the configuration is not read; the slopes are those of the default 8.",
     "alibi-bias-max-default", "Pass alibi_bias_max = 16.")


# ---------------------------------------------------------------- Swin v2
CPB = [RNG.standard_normal(s).astype(np.float32) for s in ((16, 2), (16,), (4, 16))]


def make(bug):
    h, w = 6, 8
    pre = (0, 0) if bug else (4, 4)

    def bias(q_len, k_len):
        t = np.arange(h * w)
        dy, dx = (np.subtract.outer(a, a).astype(np.float64) for a in (t // w, t % w))
        dy /= (pre[0] if pre[0] > 0 else h) - 1
        dx /= (pre[1] if pre[1] > 0 else w) - 1
        z = 8 * np.stack([dy, dx], -1)
        z = np.sign(z) * np.log2(np.abs(z) + 1) / np.log2(8)
        y = np.maximum(z @ CPB[0].T.astype(np.float64) + CPB[1], 0) @ CPB[2].T
        full = np.moveaxis(16 / (1 + np.exp(-y)), -1, 0)
        return full[:, k_len - q_len:k_len, :k_len]
    return bias
case("t055", make, P.LogCPB(*CPB, window=(6, 8), pretrained_window=(4, 4)), "bias",
     "pretrained_window_sizes is left at its default 0, so the offsets are divided by the new window instead of the pretrained one.",
     "pretrained-window-ignored", "Pass the pretrained window of the stage.")


# ---------------------------------------------------------------- T5
T5B = RNG.standard_normal((32, 4)).astype(np.float32)
T5C = RNG.standard_normal((32, 6)).astype(np.float32)


def make(bug):
    def bucket(relative_position, num_buckets=32, max_distance=128):
        r = np.asarray(relative_position)
        max_exact = num_buckets // 2
        num_buckets //= 2
        if not bug:
            max_exact = num_buckets // 2
        ret = (r > 0) * num_buckets
        n = np.abs(r)
        big = np.log(np.maximum(n, 1) / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)
        big = np.minimum(max_exact + big.astype(np.int64), num_buckets - 1)
        return ret + np.where(n < max_exact, n, big)
    return bucket
case("t056", make, P.T5Bias(T5B), "bucket",
     "max_exact is taken before the number of buckets is halved for the two directions, so all distances count one by one up to 15.",
     "max-exact-before-halving", "Halve num_buckets first, then take max_exact = num_buckets // 2.")


def make(bug):
    def bucket(relative_position):
        r = np.asarray(relative_position)
        n = np.abs(r) if bug else np.maximum(-r, 0)
        log = 16 + (np.log(np.maximum(n, 16) / 16) / np.log(8) * 16 + 1e-9).astype(np.int64)
        return np.where(n < 16, n, np.minimum(log, 31))
    return bucket
case("t057", make, P.T5Bias(T5C, bidirectional=False), "bucket",
     "The decoder takes the absolute value of the offset; keys after the query belong to bucket 0.",
     "causal-bucket-abs", "Use -min(relative_position, 0).")


def make(bug):
    def bias(q_len, k_len):
        i = np.arange(k_len)
        r = i[None, :] - i[:, None]
        n = np.maximum(-r, 0)
        log = 16 + (np.log(np.maximum(n, 16) / 16) / np.log(8) * 16 + 1e-9).astype(np.int64)
        values = T5C[np.where(n < 16, n, np.minimum(log, 31))].transpose(2, 0, 1)
        return values[:, :q_len] if bug else values[:, k_len - q_len:]
    return bias
case("t058", make, P.T5Bias(T5C, bidirectional=False), "bias",
     "With a cache, the bias of the whole square is cut to its first q_len rows instead of the last ones.",
     "first-rows-with-cache", "Take the rows from k_len - q_len on.")


# ---------------------------------------------------------------- FIRE
FW = [RNG.standard_normal(s).astype(np.float64) for s in ((8, 1), (8,), (4, 8))]


def make(bug):
    def bias(q_len, k_len):
        i = np.arange(k_len - q_len, k_len, dtype=np.float64)[:, None]
        d = np.maximum(i - np.arange(k_len), 0)
        top = np.full_like(i, k_len - 1) if bug else i
        x = np.log(1 + 0.1 * d) / (np.log(1 + 0.1 * np.maximum(top, 16.0)) + 1e-6)
        return np.einsum("hw,wqk->hqk", FW[2], np.maximum(FW[0][:, 0, None, None] * x + FW[1][:, None, None], 0))
    return bias
case("t059", make, P.FIRE(*FW, c=0.1, length=16.0), "bias",
     "The distances are normalised by the length of the sequence instead of each query's own position.",
     "normalised-by-length", "Divide by psi(max(i, L)) of the query's position i.")


# ---------------------------------------------------------------- BEiT
BEIT = RNG.standard_normal((5 * 7 + 3, 3)).astype(np.float32)


def make(bug):
    h, w = 3, 4
    y, x = np.divmod(np.arange(h * w), w)
    index = np.zeros((h * w + 1,) * 2, dtype=int)
    index[1:, 1:] = (y[:, None] - y + h - 1) * (2 * w - 1) + x[:, None] - x + w - 1
    n = len(BEIT)
    index[0, :], index[:, 0], index[0, 0] = (n - 2, n - 3, n - 1) if bug else (n - 3, n - 2, n - 1)

    def bias(q_len, k_len):
        return BEIT[index[k_len - q_len:k_len, :k_len]].transpose(2, 0, 1)
    return bias
case("t060", make, P.BEiTBias(BEIT, window=(3, 4)), "bias",
     "The rows for class-to-patch and patch-to-class are exchanged.",
     "cls-rows-exchanged", "Row 0 of the index is n - 3, column 0 is n - 2.")


# ---------------------------------------------------------------- right: tables
def make(bug):
    def table(positions):
        p = np.asarray(positions, np.float64)
        out = np.zeros((p.size, 13), np.float32)
        for c in range(12):
            f = math.sin if c < 6 else math.cos
            w = 10000.0 ** (-(c % 6) / 5)
            out[:, c] = [f((t + 2) * w) for t in p]
        return out
    return table
case("t086", make, P.Sinusoidal(13, layout="concat", denominator="half-1", offset=2, odd="zero-pad"), "table",
     "Scalar math column by column, with a last column of zeros for the odd width.", "right")


def make(bug):
    def grid(height, width):
        g = np.mgrid[:height, :width].reshape(2, -1).astype(np.float64)
        y, x = g[0] * 16 / height, g[1] * 16 / width
        w = 1 / 10000 ** (np.arange(8) / 8.0)
        z = np.exp(1j * np.stack([np.outer(x, w), np.outer(y, w)], 1))       # (N, 2, 8)
        return np.concatenate([z.imag, z.real], -1).reshape(height * width, 32)
    return grid
case("t087", make, P.Sinusoidal2D(32, axis_order="wh", extent=16.0), "grid",
     "Positions are scaled to the base size, columns of the width come first, and sine and cosine are parts of one exponential.", "right")

OPT = RNG.standard_normal((66, 10)).astype(np.float32)


def make(bug):
    def table(positions):
        hot = (np.asarray(positions)[:, None] + 2 == np.arange(66)).astype(np.float32)
        return hot @ OPT
    return table
case("t088", make, P.Learned(OPT, offset=2), "table",
     "The lookup is a product with a one-hot matrix, which is exact.", "right")

TW, TB = RNG.normal(0, 0.5, 9), RNG.normal(0, 1, 9)


def make(bug):
    def table(positions):
        v = np.asarray(positions, np.float64)[:, None] * TW + TB
        return np.roll(np.where(np.arange(9) == 0, v, np.sin(v)), -1, axis=1)
    return table
case("t089", make, P.Time2Vec(TW, TB, linear="last"), "table",
     "All columns are computed with the linear one first and then rolled to the end.", "right")


def make(bug):
    def table(positions):
        p = np.asarray(positions, np.float64)[[1, 0, 2, 3]].T * 2 * np.pi         # y, x, w, h
        t = 10000.0 ** (np.arange(8) // 2 * 2 / 8)
        a = p[..., None] / t
        even = np.arange(8) % 2 == 0
        return np.where(even, np.sin(a), np.cos(a)).reshape(len(p), 32)
    return table
case("t090", make, P.BoxSine(32), "table",
     "Each channel has its own copy of the temperature, and a mask chooses sine or cosine.", "right")


# ---------------------------------------------------------------- right: biases
def make(bug):
    m = all_slopes(12)

    def bias(q_len, k_len):
        return (m[:, None] * np.arange(k_len))[:, None, :]
    return bias
case("t091", make, P.ALiBi(12), "bias",
     "BLOOM's form: slope times key position, one row for all queries, equal up to a constant for each query.", "right")


def make(bug):
    starts = list(range(1, 9))
    for t in range(1, 8):
        starts.append(next(n for n in range(8, 129) if n ** 8 >= 8 ** 8 * 16 ** t))

    def bucket(relative_position):
        r = np.asarray(relative_position, np.int64)
        return np.searchsorted(starts, np.abs(r), side="right") + 16 * (r > 0)
    return bucket
case("t092", make, P.T5Bias(T5B), "bucket",
     "A binary search in the first distances of the buckets, which are found in integers.", "right")

SWIN = RNG.standard_normal((5 * 9, 3)).astype(np.float32)


def make(bug):
    h, w = 3, 5
    table = SWIN.T.reshape(3, 2 * h - 1, 2 * w - 1)[:, ::-1, ::-1]
    full = np.empty((3, h, w, h, w), np.float32)
    for y in range(h):
        for x in range(w):
            full[:, y, x] = table[:, h - 1 - y:2 * h - 1 - y, w - 1 - x:2 * w - 1 - x]
    full = full.reshape(3, h * w, h * w)
    return lambda q_len, k_len: full[:, k_len - q_len:k_len, :k_len]
case("t093", make, P.SwinBias(SWIN, window=(3, 5)), "bias",
     "No index: for every query, a window is cut out of the flipped table.", "right")


def make(bug):
    r1, r2 = np.array([0.5, 1.0, 2.0]), np.array([0.1, 1.0, 3.0])

    def bias(q_len, k_len):
        d = np.abs(np.arange(1 - k_len, q_len))                    # key minus query, ascending
        line = -r1[:, None] * np.log1p(r2[:, None] * d)
        s = line.strides
        return np.lib.stride_tricks.as_strided(line[:, q_len - 1:], (3, q_len, k_len), (s[0], -s[1], s[1])).copy()
    return bias
case("t094", make, P.Kerple((0.5, 1.0, 2.0), (0.1, 1.0, 3.0)), "bias",
     "A Toeplitz matrix as a strided view of one line with a negative stride.", "right")


def make(bug):
    def slopes(num_heads):
        if num_heads & (num_heads - 1) == 0:
            start = 2.0 ** (-8.0 / num_heads)
            return np.cumprod(np.full(num_heads, start))
        c = 1 << (num_heads.bit_length() - 1)
        return np.concatenate([slopes(c), slopes(2 * c)[::2][:num_heads - c]])
    return slopes
case("t095", make, P.ALiBi(20), "slopes",
     "Recursive, with a cumulative product instead of powers.", "right")
