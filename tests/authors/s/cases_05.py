import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# --- s095 right: gradient through the transposed matrices of single pairs
def make(bug):
    def vjp(x, positions, dy):
        d = dy.shape[-1]
        a = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(0, d, 2) / d)
        a = a[:, None] if a.ndim == 3 else a
        R = np.stack([np.stack([np.cos(a), -np.sin(a)], -1), np.stack([np.sin(a), np.cos(a)], -1)], -2)
        g = dy.reshape(*dy.shape[:-1], d // 2, 2)
        return np.einsum("...ji,...j->...i", np.broadcast_to(R, g.shape + (2,)), g).reshape(dy.shape).astype(dy.dtype)
    return vjp
case("s095", make, P.RoPE(48, layout="interleaved"), "apply_vjp",
     "Right: 2 x 2 matrices, contracted over their first index.", "right")


# --- s096 right: incremental phase, re-derived from the count of tokens
def make(bug):
    class Stream:
        def __init__(self, d):
            self.seen, self.w = 0, 10000.0 ** (-np.arange(d // 2) / (d // 2))
        def push(self, x):
            n, h = x.shape[2], x.shape[3] // 2
            z = np.exp(1j * self.seen * self.w) * np.exp(1j * np.arange(n)[:, None] * self.w)
            self.seen += n
            y = (x[..., :h] + 1j * x[..., h:].astype(np.float64)) * z
            return np.concatenate([y.real, y.imag], axis=-1)
    def fn(x, chunks):
        s, it, out = Stream(x.shape[-1]), iter(range(x.shape[2])), []
        for n in chunks:
            out.append(s.push(x[:, :, list(itertools.islice(it, n))]))
        return np.concatenate(out, axis=2).astype(x.dtype)
    return fn
case("s096", make, P.RoPE(64, layout="half"), "decode",
     "Right: the phase of the chunk's start times the phases inside the chunk.", "right")


# --- s097 right: YaRN, pair by pair
def make(bug):
    def fn():
        d, base, s, L0 = 128, 1e6, 4.0, 32768
        pair = lambda turns: d / 2 * math.log(L0 / (2 * math.pi * turns), base)
        low, high = max(math.floor(pair(32.0)), 0), min(math.ceil(pair(1.0)), d - 1)
        out = []
        for k in range(d // 2):
            f = math.exp(-2 * k / d * math.log(base))
            w = min(max((k - low) / (high - low), 0.0), 1.0)
            out.append(f * (1 - w + w / s))
        return np.array(out), 1 + math.log(s) / 10
    return fn
case("s097", make, P.RoPE(128, layout="half", base=1e6, scaling=P.YaRN(4.0, 32768)), "frequencies",
     "Right: a loop over pairs with logarithms to the base; returns the attention factor as well.", "right")


# --- s098 right: BLOOM's bias m * j
def make(bug):
    def build_alibi(q_len, k_len):
        slopes = np.array([2.0 ** (-(h + 1) / 2) for h in range(16)])
        return (slopes[:, None] * np.arange(k_len)[None, :])[:, None, :]
    return build_alibi
case("s098", make, P.ALiBi(16), "bias",
     "Right: BLOOM's form, slope times key position, which differs by a constant for each query only.", "right")


# --- s099 right: T5 by a table of all distances
_T99 = np.random.default_rng(99).standard_normal((32, 3)).astype(np.float32)
def make(bug):
    starts = [math.ceil(round(8 * 16 ** (t / 8), 9)) for t in range(1, 8)]
    def bias(q_len, k_len):
        r = np.arange(k_len)[None, :] - np.arange(k_len - q_len, k_len)[:, None]
        n = np.abs(r)
        small = np.minimum(n, 8)
        b = small + np.searchsorted(starts, n, side="right") + 16 * (r > 0)
        return np.transpose(_T99[b], (2, 0, 1))
    return bias
case("s099", make, P.T5Bias(_T99), "bias",
     "Right: buckets by a binary search in their first distances, no logarithm at run time.", "right")


# --- s100 right: recursive slopes
def make(bug):
    def get_slopes(n):
        def power_of_2(n):
            start = 2 ** (-(2 ** -(math.log2(n) - 3)))
            return [start * start ** i for i in range(n)]
        if math.log2(n).is_integer():
            return power_of_2(n)
        c = 2 ** math.floor(math.log2(n))
        return power_of_2(c) + list(get_slopes(2 * c))[0::2][: n - c]
    return lambda n: np.asarray(get_slopes(n))
case("s100", make, P.ALiBi(20), "slopes",
     "Right: the recursive function of the paper's code.", "right")


# --- s101 right: another numbering of the offsets
def make(bug):
    def index(window):
        h, w = window
        t = np.arange(h * w)
        dy = t[:, None] // w - t[None, :] // w
        dx = t[:, None] % w - t[None, :] % w
        return (dx + w - 1) * (2 * h - 1) + (h - 1 - dy)
    return index
case("s101", make, None, "relative_index",
     "Right: columns count first and rows downwards, another numbering that is one-to-one.", "right")


# --- s102 right: flash style online softmax
def make(bug):
    w = 500000.0 ** (-np.arange(0, 32, 2) / 32)
    def rot(x, p):
        a = np.asarray(p, np.float64)[..., None, :, None] * w
        y = np.empty(x.shape)
        y[..., 0::2] = x[..., 0::2] * np.cos(a) - x[..., 1::2] * np.sin(a)
        y[..., 1::2] = x[..., 0::2] * np.sin(a) + x[..., 1::2] * np.cos(a)
        return y
    def attention(q, k, v, qp, kp, block=16):
        B, H, Q, D = q.shape
        G, K = k.shape[1], k.shape[2]
        qr = rot(q, qp).reshape(B, G, H // G, Q, D) / math.sqrt(D)
        kr = rot(k, kp)
        m = np.full((B, G, H // G, Q, 1), -np.inf)
        l = np.zeros_like(m)
        acc = np.zeros((B, G, H // G, Q, v.shape[-1]))
        last = K - Q + np.arange(Q)[:, None]
        for lo in range(0, K, block):
            hi = min(K, lo + block)
            s = np.einsum("bgrqd,bgkd->bgrqk", qr, kr[:, :, lo:hi])
            s = np.where(np.arange(lo, hi) <= last, s, -np.inf)
            new = np.maximum(m, s.max(-1, keepdims=True))
            safe = np.where(np.isfinite(new), new, 0)
            p, fix = np.exp(s - safe), np.exp(np.where(np.isfinite(m), m - safe, -np.inf))
            l = l * fix + p.sum(-1, keepdims=True)
            acc = acc * fix + np.einsum("bgrqk,bgkd->bgrqd", p, v[:, :, lo:hi])
            m = new
        return (acc / l).reshape(B, H, Q, -1).astype(v.dtype)
    return attention
case("s102", make, P.RoPE(32, layout="interleaved", base=500000.0), "attention",
     "Right: tiles of keys with an online softmax, and grouped heads by a reshape of the queries.", "right")


# --- s103 right: Music Transformer's table by gather, clipped
_R103 = np.random.default_rng(103).standard_normal((2, 17, 8)).astype(np.float32)
def make(bug):
    def scores(q, k):
        Q, K = q.shape[2], k.shape[2]
        by_row = np.einsum("bhqd,hmd->bhqm", q, _R103)
        out = np.einsum("bhqd,bhkd->bhqk", q, k)
        for i in range(Q):
            row = np.clip(np.arange(K) - (K - Q + i), -16, 0) + 16
            out[:, :, i] += by_row[:, :, i][..., row]
        return out / np.sqrt(np.float32(8))
    return scores
case("s103", make, P.Shaw(_R103, before=16), "scores",
     "Right: products with all rows first, then one gather for each query; a table for each head without rows for later keys.", "right")


# --- s104 right: XLNet-like TransformerXL by explicit pairs in chunks of queries
_W104 = np.random.default_rng(104).standard_normal((3, 6, 12)) * 0.4
_c104, _p104 = np.random.default_rng(105).standard_normal((2, 3, 6))
def make(bug):
    @functools.lru_cache(maxsize=None)
    def row(offset):
        i = np.arange(6)
        a = offset / 10000.0 ** (2 * i / 12)
        return np.einsum("hed,d->he", _W104, np.stack([np.sin(a), np.cos(a)], -1).reshape(-1))
    def scores(q, k):
        Q, K = q.shape[2], k.shape[2]
        table = np.stack([row(o) for o in range(-(K - 1), K)])
        out = np.einsum("bhqe,bhke->bhqk", q + _c104[:, None], k)
        for i in range(Q):
            at = K - Q + i
            r = table[(at - np.arange(K)) + K - 1]
            out[:, :, i] += np.einsum("bhe,khe->bhk", q[:, :, i] + _p104, r)
        return (out / math.sqrt(6)).astype(q.dtype)
    return scores
case("s104", make, P.TransformerXL(_W104, _c104, _p104, sinusoid=P.Sinusoidal(12)), "scores",
     "Right: the projected row of every offset is cached, and gathered query by query.", "right")


# --- s105 right: position ids by a Python loop, padding 1
def make(bug):
    def position_ids(attention_mask):
        rows = []
        for row in np.asarray(attention_mask).tolist():
            count = itertools.count()
            rows.append([next(count) if m else 1 for m in row])
        return np.array(rows, dtype=np.int64)
    return position_ids
case("s105", make, None, "position_ids",
     "Right: counts real tokens in a loop; padding has position 1, as in older transformers.", "right")


# --- s106 right: packed positions by a corrected cumulative sum
def make(bug):
    def packed(lengths):
        lengths = np.asarray(lengths, dtype=np.int64)
        lengths = lengths[lengths > 0]
        step = np.ones(int(lengths.sum()), np.int64)
        if not step.size:
            return step
        step[0] = 0
        step[np.cumsum(lengths)[:-1]] = 1 - lengths[:-1]
        return np.cumsum(step)
    return packed
case("s106", make, None, "packed",
     "Right: a cumulative sum of ones that jumps back at each document; empty documents are removed first.", "right")


# --- s107 right: PEG as nine shifted products
_k107, _b107 = np.random.default_rng(107).standard_normal((6, 1, 3, 3)), np.random.default_rng(108).standard_normal(6)
def make(bug):
    def forward(x, height, width):
        B, N, C = x.shape
        img = x.reshape(B, height, width, C).astype(np.float64)
        y = img + _b107
        for dy, dx in itertools.product((-1, 0, 1), repeat=2):
            src = img[:, max(0, dy):height + min(0, dy), max(0, dx):width + min(0, dx)]
            y[:, max(0, -dy):height + min(0, -dy), max(0, -dx):width + min(0, -dx)] += src * _k107[:, 0, dy + 1, dx + 1]
        return y.reshape(B, N, C).astype(x.dtype)
    return forward
case("s107", make, P.ConvPositions((_k107,), (_b107,), groups=6, activation="none", residual=True), "convolve_grid",
     "Right: a depthwise 3 x 3 convolution as nine shifted slices, without padding the image, plus the input.", "right")
