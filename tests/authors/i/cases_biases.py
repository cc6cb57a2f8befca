"""Biases: ALiBi, T5, Kerple, FIRE, Sandwich, windows, chains, gates."""
import bisect
import math

import numpy as np
import torch

from posenc_ref import (
    FIRE, ALiBi, BEiTBias, ChainBias, ConViTBias, DynamicBias, DynamicWindowBias, ForgettingBias,
    Kerple, LeViTBias, LogCPB, ResidueBias, Sandwich, SwinBias, T5Bias,
)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface,
                      settings=settings, right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def rand(seed, *shape, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def alibi_slopes(n, top=8.0):
    c = 2 ** int(math.floor(math.log2(n)))
    a = [2 ** (-top * (i + 1) / c) for i in range(c)]
    b = [2 ** (-top * (i + 1) / (2 * c)) for i in range(0, 2 * c, 2)]
    return np.array((a + b)[:n])


def where(q_len, k_len):
    return np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)[None, :]


# ---- i031
def make(bug):
    def get_slopes(n):
        c = 2 ** math.floor(math.log2(n))
        first = [2 ** (-8 * (i + 1) / c) for i in range(c)]
        more = [2 ** (-8 * (i + 0.5) / c) for i in range(n - c)]
        out = first + more
        return np.array(sorted(out, reverse=True) if bug else out)
    return get_slopes
case("i031", make, ALiBi(12), "slopes",
     "The slopes are sorted from large to small, so with 12 heads the interpolated slopes stand "
     "between the others and not at the end: heads get the slopes of other heads.", "slopes-sorted",
     "Append the extra slopes after those of the power of two.")


# ---- i032
def make(bug):
    def rank_slopes(num_heads, tp_size, tp_rank):
        s = alibi_slopes(num_heads)
        n = num_heads // tp_size
        return s[tp_rank::tp_size] if bug else s[tp_rank * n:(tp_rank + 1) * n]
    return rank_slopes
case("i032", make, ALiBi(16), "rank_slopes",
     "A rank takes every tp_size-th slope (strided) instead of the contiguous block of its own "
     "heads.", "rank-strided", "slopes[rank * n : (rank + 1) * n].")


# ---- i033
def make(bug):
    def bias(q_len, k_len):
        q = torch.arange(q_len) if bug else torch.arange(k_len - q_len, k_len)
        k = torch.arange(k_len)
        d = (q[:, None] - k[None, :]).abs().double()
        return (-torch.from_numpy(alibi_slopes(8))[:, None, None] * d).float().numpy()
    return bias
case("i033", make, ALiBi(8, causal=False), "bias",
     "Query positions start at 0 although the queries are the last q_len of the k_len tokens, so the "
     "distances are wrong whenever there are fewer queries than keys (decoding).",
     "query-positions-from-0", "Query i is at k_len - q_len + i.")


# ---- i034
def make(bug):
    def build_alibi(q_len, k_len):
        kind = torch.bfloat16 if bug else torch.float32
        k = torch.arange(k_len, dtype=kind)
        slopes = torch.tensor(alibi_slopes(16), dtype=torch.float64)
        return (slopes[:, None, None] * k.double()[None, None, :]).float().numpy()
    return build_alibi
case("i034", make, ALiBi(16), "bias",
     "The key positions are made in bfloat16, so keys beyond 256 share positions.", "keys-bf16",
     "Make positions in float32 or integers.")


# ---- i035
def make(bug):
    def gen_slopes(n, alibi_bias_max=16.0):
        c = 2 ** int(math.log2(n))
        m = np.arange(1, c + 1) * (alibi_bias_max / c)
        base = 1.0 / np.power(2.0, m)
        top = 8.0 if bug else alibi_bias_max
        extra = 2.0 ** (-(np.arange(n - c) + 0.5) * top / c)
        return np.concatenate([base, extra])
    def bias(q_len, k_len):
        i, j = where(q_len, k_len)
        return (-gen_slopes(12)[:, None, None] * np.abs(i - j)).astype(np.float32)
    return bias
case("i035", make, ALiBi(12, max_bias=16.0), "bias",
     "The slopes of the heads beyond the power of two (heads 8 to 11) use the default max_bias 8 "
     "instead of the declared 16.", "max-bias-extra-heads",
     "Pass alibi_bias_max to both branches.")


# ---- i036
def make(bug):
    def scores(q, k):
        d = q.shape[-1]
        i, j = where(q.shape[-2], k.shape[-2])
        b = -alibi_slopes(q.shape[1])[:, None, None] * np.abs(i - j)
        s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2)
        s = s / math.sqrt(d) + b if bug else (s + b) / math.sqrt(d)
        return s.astype(q.dtype)
    return scores
case("i036", make, ALiBi(4, bias_inside_scale=True), "scores",
     "The bias is added after the division by sqrt(d); in this model (Falcon-RW) it is divided with "
     "the product.", "bias-outside-scale", "(q . k + bias) / sqrt(d).")


# ---- i037
def make(bug):
    class Alibi(torch.nn.Module):
        """keeps the largest bias"""
        def __init__(self):
            super().__init__()
            self.cache = torch.zeros(6, 0, 0)

        def forward(self, q_len, k_len):
            n = self.cache.shape[-1]
            if n < k_len:
                n = k_len
                r = torch.arange(n)
                s = torch.from_numpy(alibi_slopes(6))
                self.cache = (-s[:, None, None] * (r[:, None] - r[None]).abs()).float()
            if bug:
                return self.cache[:, -q_len:, :k_len].numpy()
            return self.cache[:, k_len - q_len:k_len, :k_len].numpy()
    return Alibi()
case("i037", make, ALiBi(6, causal=False), "bias",
     "The bias is cut from the largest one computed so far by its last q_len rows, so a call with "
     "fewer keys than an earlier call gets rows of later queries.", "cache-last-rows",
     "Take the rows k_len - q_len .. k_len - 1 of the cached square.")


# ---- i038
T38 = rand(38, 32, 6)
def make(bug):
    def bucket(relative_position):
        n = np.asarray(relative_position)
        ret = np.where((n >= 0) if bug else (n > 0), 16, 0)
        n = np.abs(n)
        t = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
        return ret + np.searchsorted(t, n, side="right")
    return bucket
case("i038", make, T5Bias(T38), "bucket",
     "The half of later keys includes offset 0 (>= 0 instead of > 0): the query's own key gets bucket "
     "16 instead of 0.", "own-key-bucket", "Add num_buckets/2 for relative_position > 0 only.")


# ---- i039
T39 = rand(39, 32, 2)
def make(bug):
    def bucket(r):
        n = np.maximum(-np.asarray(r, dtype=np.int64), 0)
        me = 16
        with np.errstate(divide="ignore"):
            big = np.log(n / me) / np.log(128 / me) * (32 - me)
        big = np.where(n < me, 0, big)
        # exact integers: nudge, or round
        big = np.rint(big) if bug else np.floor(big + 1e-9)
        return np.where(n < me, n, np.minimum(me + big.astype(int), 31))
    return bucket
case("i039", make, T5Bias(T39, bidirectional=False), "bucket",
     "The logarithm is rounded to the nearest integer instead of down, so each of the wide buckets "
     "starts half a bucket too early.", "bucket-rounded", "Truncate: floor.")


# ---- i040
T40 = rand(40, 32, 8)
def make(bug):
    weight = T40.reshape(8, 32) if bug else T40.T
    t = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    def bias(q_len, k_len):
        i, j = where(q_len, k_len)
        r = j - i
        b = np.searchsorted(t, np.abs(r), side="right") + 16 * (r > 0)
        return weight[:, b]
    return bias
case("i040", make, T5Bias(T40), "bias",
     "The table (buckets, heads) is reshaped to (heads, buckets) instead of transposed, so heads and "
     "buckets are mixed.", "table-reshaped", "Transpose the table.")


# ---- i041
T41 = rand(41, 32, 4)
def make(bug):
    class RelativeBias:
        def __init__(self):
            self.seen = {}

        def __call__(self, q_len, k_len):
            key = q_len if bug else (q_len, k_len)
            if key not in self.seen or self.seen[key].shape[-1] < k_len:
                i, j = where(q_len, k_len)
                n = np.maximum(i - j, 0)
                big = np.floor(np.log(np.maximum(n, 1) / 16) / np.log(8) * 16 + 1e-9).astype(int)
                b = np.where(n < 16, n, np.minimum(16 + big, 31))
                self.seen[key] = np.moveaxis(T41[b], -1, 0)
            return self.seen[key][..., :k_len]
    return RelativeBias()
case("i041", make, T5Bias(T41, bidirectional=False), "bias",
     "The bias is cached by the number of queries only; a call with as many queries and fewer keys "
     "gets the first columns of the bias of a longer call, whose queries stand later.",
     "cache-without-key-length", "Cache by (q_len, k_len).")


# ---- i042
r1, r2 = (0.5, 1.0, 1.5, 0.3), (0.02, 0.2, 2.0, 0.7)
def make(bug):
    a, b = (r2, r1) if bug else (r1, r2)
    def bias(q_len, k_len):
        i, j = where(q_len, k_len)
        d = np.abs(i - j).astype(np.float64)
        return np.stack([-x * np.log1p(y * d) for x, y in zip(a, b)]).astype(np.float32)
    return bias
case("i042", make, Kerple(r1, r2), "bias",
     "The two parameters of each head are exchanged: r2 multiplies the logarithm, r1 the distance.",
     "kerple-exchanged", "-r1 log(1 + r2 d).")


# ---- i043
p1, p2 = (0.1, 0.4, 1.0), (0.005, 0.5, 1.8)
def make(bug):
    a = torch.tensor(p1, dtype=torch.float64).view(-1, 1, 1)
    b = torch.tensor(p2, dtype=torch.float64).view(-1, 1, 1)
    if bug:
        b = b.clamp(min=0.01, max=1.0)
    def bias(q_len, k_len):
        q, k = torch.arange(k_len - q_len, k_len)[:, None], torch.arange(k_len)[None]
        return (-a * (q - k).abs().double().pow(b)).float().numpy()
    return bias
case("i043", make, Kerple(p1, p2, form="power"), "bias",
     "The exponents r2 are clamped to 0.01 .. 1, so head 0 (0.005) and head 2 (1.8) have other "
     "exponents; r2 may be up to 2.", "kerple-clamp", "Do not clamp the trained exponent.")


# ---- i044
hid, hb, outw, ob = rand(44, 16, 1), rand(441, 16), rand(442, 4, 16), rand(443, 4)
def make(bug):
    W1, b1, W2, b2 = (a.astype(np.float64) for a in (hid, hb, outw, ob))
    psi = lambda v: np.log1p(0.1 * v)
    def fire(q_len, k_len):
        i, j = where(q_len, k_len)
        rel = np.maximum(i - j, 0)
        norm = max(k_len - 1, 32) if bug else np.maximum(i, 32)
        x = (psi(rel) / (psi(norm) + 1e-6))[..., None]
        y = np.maximum(x @ W1.T + b1, 0) @ W2.T + b2
        return y.transpose(2, 0, 1).astype(np.float32)
    return fire
case("i044", make, FIRE(hid, hb, outw, ob, length=32.0), "bias",
     "The normaliser uses the position of the last query for all queries, max(k_len - 1, length), "
     "instead of each query's own position.", "fire-normaliser-last",
     "psi(max(i, length)) with the position i of the query.")


# ---- i045
def make(bug):
    W1, b1, W2 = (torch.from_numpy(a).double() for a in (hid, hb, outw))
    def fire(q_len, k_len):
        i = torch.arange(k_len - q_len, k_len, dtype=torch.float64)[:, None]
        j = torch.arange(k_len, dtype=torch.float64)[None]
        c, L = 0.3, 16.0
        num = torch.log1p(c * (i - j).clamp(min=0))
        den = torch.log1p(c * torch.where(i > L, i, torch.full_like(i, L)))
        if bug:
            den = torch.log1p(c * i).clamp(min=L)
        x = num / (den + 1e-6)
        h = torch.relu(x[..., None] * W1[:, 0] + b1)
        return (h @ W2.T).permute(2, 0, 1).float().numpy()
    return fire
case("i045", make, FIRE(hid, hb, outw, c=0.3, length=16.0), "bias",
     "The threshold is applied after the logarithm, max(psi(i), length), instead of inside it, "
     "psi(max(i, length)), so the denominator is the constant 16.", "fire-clamp-after-log",
     "Clamp the position before the logarithm.")


# ---- i046
def make(bug):
    H, D = 6, 32
    w = 10000.0 ** (-2 * np.arange(1, D // 2 + 1) / D)
    def sandwich(q_len, k_len):
        i, j = where(q_len, k_len)
        base = np.cos((i - j)[..., None] * w).sum(-1) - D / 2
        h = np.arange(1, H + 1)[:, None, None]
        if bug:
            h = h[::-1]
        return (base / (8 * h / H)).astype(np.float32)
    return sandwich
case("i046", make, Sandwich(6, 32), "bias",
     "The divisors 8h/H are given to the heads in the reverse order, so the first head has the "
     "smallest bias.", "sandwich-head-order", "h = 1 .. H in the order of the heads.")


# ---- i047
S47 = rand(47, 5 * 13, 3)
def make(bug):
    h, w = 3, 7
    ys, xs = np.meshgrid(np.arange(h), np.arange(w), indexing="xy" if bug else "ij")
    c = np.stack([ys.ravel(), xs.ravel()])
    rel = c[:, :, None] - c[:, None, :]
    idx = (rel[0] + h - 1) * (2 * w - 1) + rel[1] + w - 1
    full = S47[idx.ravel()].reshape(h * w, h * w, 3).transpose(2, 0, 1)
    def bias(q_len, k_len):
        return full[:, k_len - q_len:k_len, :k_len]
    return bias
case("i047", make, SwinBias(S47, window=(3, 7)), "bias",
     "The token coordinates come from meshgrid with indexing='xy', so tokens are numbered column by "
     "column and get the offsets of other tokens.", "window-meshgrid",
     "Use indexing='ij'.")


# ---- i048
B48 = rand(48, 5 * 7 + 3, 4)
def make(bug):
    h, w = 3, 4
    n = (2 * h - 1) * (2 * w - 1) + 3
    idx = np.zeros((h * w + 1,) * 2, int)
    c = np.array([(y, x) for y in range(h) for x in range(w)])
    d = c[:, None] - c[None] + [h - 1, w - 1]
    idx[1:, 1:] = d[..., 0] * (2 * w - 1) + d[..., 1]
    idx[0, 0:] = n - 3
    idx[0:, 0] = n - 2
    if not bug:
        idx[0, 0] = n - 1
    def bias(q_len, k_len):
        return np.moveaxis(B48[idx], -1, 0)[:, k_len - q_len:k_len, :k_len]
    return bias
case("i048", make, BEiTBias(B48, window=(3, 4)), "bias",
     "The pair ([CLS], [CLS]) is not set to the last row n - 1 of the table; it keeps n - 2, the row of "
     "the column of [CLS].", "cls-cls-row", "index[0, 0] = n - 1, after row and column.")


# ---- i049
L49 = rand(49, 4 * 6, 5)
def make(bug):
    h, w = 4, 6
    y, x = np.divmod(np.arange(h * w), w)
    dy, dx = y[:, None] - y, x[:, None] - x
    if not bug:
        dy, dx = np.abs(dy), np.abs(dx)
    ab = L49.T[:, dy * w + dx]
    return lambda q_len, k_len: ab[:, k_len - q_len:k_len, :k_len]
case("i049", make, LeViTBias(L49, window=(4, 6)), "bias",
     "The offsets keep their sign, dy w + dx; a negative index wraps to the end of the table without "
     "an error, so the bias of most pairs is that of another offset.", "levit-signed",
     "|dy| * w + |dx|.")


# ---- i050
cw, cb, cg = rand(50, 4, 3), rand(501, 4), rand(502, 4)
def make(bug):
    def rel(q_len, k_len):
        h, w = 5, 5
        ind = np.arange(w)[None] - np.arange(w)[:, None]
        dx = np.tile(ind, (h, h))
        dy = np.repeat(np.repeat(ind, w, 0), w, 1)
        dd = dx ** 2 + dy ** 2
        if bug:
            dd = np.sqrt(dd)
        f = np.stack([dx, dy, dd], -1).astype(np.float64)
        out = f @ cw.T.astype(np.float64) + cb
        return out.transpose(2, 0, 1)[:, k_len - q_len:k_len, :k_len].astype(np.float32)
    return rel
case("i050", make, ConViTBias(cw, cb, cg, window=(5, 5)), "bias",
     "The third feature is the distance, sqrt(dx**2 + dy**2), instead of the squared distance.",
     "distance-not-squared", "dx**2 + dy**2.")


# ---- i051
dw = (rand(51, 8, 1), rand(511, 8, 8), rand(512, 3, 8))
db = (rand(513, 8), rand(514, 8), rand(515, 3))
def make(bug):
    layers = []
    for n, (w, b) in enumerate(zip(dw, db)):
        lin = torch.nn.Linear(w.shape[1], w.shape[0]).double()
        lin.weight.data, lin.bias.data = torch.from_numpy(w).double(), torch.from_numpy(b).double()
        layers += [lin] + ([torch.nn.SiLU()] if n < 2 or bug else [])
    net = torch.nn.Sequential(*layers)
    @torch.no_grad()
    def bias(q_len, k_len):
        off = torch.arange(k_len - 1, -k_len, -1, dtype=torch.float64)  # i - j
        off = torch.sign(off) * torch.log(off.abs() + 1)
        table = net(off[:, None])
        i, j = where(q_len, k_len)
        return table[torch.from_numpy(k_len - 1 - (i - j))].permute(2, 0, 1).float().numpy()
    return bias
case("i051", make, DynamicBias(dw, db, log_distance=True), "bias",
     "The activation (SiLU) is applied after the last linear layer too.", "activation-after-last",
     "No activation after the output layer.")


# ---- i052
ww = (rand(52, 6, 2), rand(521, 6, 6), rand(522, 2, 6))
wb = (rand(523, 6), rand(524, 6), rand(525, 2))
wg, ws = (1 + 0.3 * rand(526, 6), 1 + 0.3 * rand(527, 6)), (rand(528, 6), rand(529, 6))
def make(bug):
    def ln(x, g, s):
        m = x.mean(-1, keepdims=True)
        return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * g + s
    def bias(q_len, k_len):
        h, w = 4, 3
        t = np.arange(h * w)
        dy = t[:, None] // w - t[None] // w
        dx = t[:, None] % w - t[None] % w
        x = np.stack([dy, dx], -1).astype(np.float64)
        for n in range(2):
            x = x @ ww[n].T.astype(np.float64) + wb[n]
            x = ln(np.maximum(x, 0), wg[n], ws[n]) if bug else np.maximum(ln(x, wg[n], ws[n]), 0)
        x = x @ ww[2].T.astype(np.float64) + wb[2]
        return x.transpose(2, 0, 1)[:, k_len - q_len:k_len, :k_len].astype(np.float32)
    return bias
case("i052", make, DynamicWindowBias(ww, wb, wg, ws, window=(4, 3)), "bias",
     "ReLU stands before the LayerNorm instead of after it.", "relu-before-norm",
     "LayerNorm, then ReLU, then the linear layer.")


# ---- i053
lh, lb, lo = rand(53, 24, 2), rand(531, 24), rand(532, 3, 24)
def make(bug):
    H, W = 6, 8
    ry, rx = np.arange(-(H - 1), H), np.arange(-(W - 1), W)
    t = np.stack(np.meshgrid(ry / (H - 1), rx / (W - 1), indexing="ij"), -1) * 8
    t = np.sign(t) * (np.log(np.abs(t) + 1) if bug else np.log2(np.abs(t) + 1)) / np.log2(8)
    y = np.maximum(t @ lh.T.astype(np.float64) + lb, 0) @ lo.T.astype(np.float64)
    table = (16 / (1 + np.exp(-y))).reshape(-1, 3)
    c = np.stack(np.unravel_index(np.arange(H * W), (H, W)))
    r = c[:, :, None] - c[:, None]
    idx = (r[0] + H - 1) * (2 * W - 1) + r[1] + W - 1
    full = table[idx].transpose(2, 0, 1).astype(np.float32)
    return lambda q_len, k_len: full[:, k_len - q_len:k_len, :k_len]
case("i053", make, LogCPB(lh, lb, lo, window=(6, 8)), "bias",
     "The offsets are transformed by the natural logarithm but divided by log2(8), so the inputs of "
     "the network are multiplied by ln(2) = 0.69.", "log-base", "log2(1 + |x|) / log2(8).")


# ---- i054
def make(bug):
    def scores(q, k):
        win, pre = (8, 8), (4, 4)
        n = win if bug else pre
        t = np.arange(64)
        dy, dx = t[:, None] // 8 - t // 8, t[:, None] % 8 - t % 8
        f = [np.sign(d) * np.log2(1 + 8 * np.abs(d) / (m - 1)) / 3 for d, m in ((dy, n[0]), (dx, n[1]))]
        y = np.maximum(np.stack(f, -1) @ lh.T.astype(float) + lb, 0) @ lo.T.astype(float)
        b = (16 / (1 + np.exp(-y))).transpose(2, 0, 1)
        Q, K = q.shape[-2], k.shape[-2]
        s = np.einsum("bhqd,bhkd->bhqk", q.astype(float), k.astype(float))
        return (s + b[:, K - Q:K, :K]).astype(q.dtype)
    return scores
case("i054", make, LogCPB(lh, lb, lo, window=(8, 8), pretrained_window=(4, 4)), "scores",
     "Offsets are normalised by the window of this model (8) instead of the pretrained window (4).",
     "pretrained-window", "Divide by pretrained_window - 1.")


# ---- i055
R55 = rand(55, 17, 4)
def make(bug):
    P, r = 24, 8
    def relpos(q_len, k_len):
        i, j = where(q_len, k_len)
        d = i - j
        if bug:
            d = np.clip(d, -r, r)
        m = np.abs(d) % P
        m = np.where(2 * m > P, m - P, m)
        d = np.sign(d) * m
        d = np.clip(d, -r, r)
        return R55[d + r].transpose(2, 0, 1)
    return relpos
case("i055", make, ResidueBias(R55, period=24), "bias",
     "The offset is clipped to -r .. r before it is taken the shorter way round the ring, so residues "
     "that are near across the closure count as far.", "clip-before-wrap",
     "Wrap first, then clip.")


# ---- i056
N56 = 26
cf = dict(residue_index=[*range(10), *range(10), *range(4), 4, 4], asym_id=[0] * 10 + [1] * 10 + [2] * 6,
          entity_id=[0] * 20 + [1] * 6, sym_id=[0] * 10 + [1] * 10 + [0] * 6,
          token_index=list(range(26)))
C56 = rand(56, 5, 2 * (2 * 6 + 2) + 1 + 6)
def make(bug):
    r, s = 6, 2
    f = {n: np.array(v) for n, v in cf.items()}
    def pair(x):
        return x[:, None], x[None, :]
    def bias(q_len, k_len):
        same = np.equal(*pair(f["asym_id"]))
        ent = np.equal(*pair(f["entity_id"]))
        res = np.equal(*pair(f["residue_index"]))
        sub = lambda n: np.subtract(*pair(f[n]))
        d = np.where(same, np.clip(sub("residue_index") + r, 0, 2 * r), 2 * r + 1)
        near = res if bug else res & same
        t = np.where(near, np.clip(sub("token_index") + r, 0, 2 * r), 2 * r + 1)
        c = np.where(ent, np.clip(sub("sym_id") + s, 0, 2 * s), 2 * s + 1)
        hot = np.concatenate([np.eye(2 * r + 2)[d], np.eye(2 * r + 2)[t], ent[..., None] * 1.0,
                              np.eye(2 * s + 2)[c]], -1)
        out = (hot @ C56.T.astype(np.float64)).transpose(2, 0, 1)
        return out[:, k_len - q_len:k_len, :k_len].astype(np.float32)
    return bias
case("i056", make, ChainBias(C56, max_offset=6, **cf), "bias",
     "The token block asks only for equal residue numbers, not for the same chain, so residues with "
     "the same number in different chains get a token offset instead of the bin 2r + 1.",
     "token-block-chain", "Require same asym_id and same residue_index.")


# ---- i057
def make(bug):
    r, s = 6, 2
    def bias(q_len, k_len):
        out = np.zeros((q_len, k_len, 5))
        W = C57.astype(np.float64)
        for a, i in enumerate(range(k_len - q_len, k_len)):
            for j in range(k_len):
                g = {n: (v[i], v[j]) for n, v in cf57.items()}
                one = g["asym_id"][0] == g["asym_id"][1]
                ent = g["entity_id"][0] == g["entity_id"][1]
                d = min(max(g["residue_index"][0] - g["residue_index"][1] + r, 0), 2 * r) if one else 2 * r + 1
                no = not ent
                c = min(max(g["sym_id"][0] - g["sym_id"][1] + s, 0), 2 * s)
                if bug:
                    c = min(max(g["asym_id"][0] - g["asym_id"][1] + s, 0), 2 * s)
                c = 2 * s + 1 if no else c
                out[a, j] = W[:, d] + W[:, 2 * r + 3 + c] + (W[:, 2 * r + 2] if ent else 0)
        return out.transpose(2, 0, 1).astype(np.float32)
    return bias
# a heterodimer of dimers: A, B, A, B
cf57 = dict(residue_index=[*range(5)] * 4, asym_id=[n for n in range(4) for _ in range(5)],
            entity_id=[n % 2 for n in range(4) for _ in range(5)],
            sym_id=[n // 2 for n in range(4) for _ in range(5)])
C57 = rand(57, 5, 14 + 1 + 6)
case("i057", make, ChainBias(C57, max_offset=6, **cf57), "bias",
     "The last block takes the difference of asym_id (the number of the chain) instead of sym_id (the "
     "number of the copy of one sequence).", "chain-block-asym", "Use sym_id_i - sym_id_j.")


# ---- i058
G58 = -np.abs(rand(58, 3, 70))
def make(bug):
    def fox(q_len, k_len):
        c = np.cumsum(G58.astype(np.float64), axis=1)
        if bug:
            c = np.concatenate([np.zeros((3, 1)), c[:, :-1]], 1)
        return (c[:, k_len - q_len:k_len, None] - c[:, None, :k_len]).astype(np.float32)
    return fox
case("i058", make, ForgettingBias(G58), "bias",
     "The cumulative sum is exclusive, so the sum includes the key's gate and excludes the query's: "
     "t = j .. i - 1 instead of j + 1 .. i.", "gates-exclusive", "Use the inclusive cumulative sum.")


# ---- i059
G59 = -np.abs(rand(59, 2, 120)) - 0.5
def make(bug):
    def fox(q_len, k_len):
        g = torch.from_numpy(G59)
        c = torch.cumsum(g.to(torch.bfloat16) if bug else g.double(), -1).double()
        return (c[:, k_len - q_len:k_len, None] - c[:, None, :k_len]).float().numpy()
    return fox
case("i059", make, ForgettingBias(G59), "bias",
     "The log gates are summed in bfloat16, so the cumulative sums, and the bias between near tokens, "
     "have errors of up to a whole unit late in the sequence.", "cumsum-bf16",
     "Sum the log gates in float32 or better.")


# ---- i060
def make(bug):
    H = 8
    def slopes(n):
        s = np.power(2.0, -8.0 * np.arange(1, n + 1) / n) if bug else alibi_slopes(n)
        return s
    def bias(q_len, k_len):
        k = np.arange(k_len)
        return (slopes(10)[:, None, None] * (k - (k_len - 1))[None, None]).astype(np.float32)
    return bias
case("i060", make, ALiBi(10), "bias",
     "The formula for powers of two, 2 ** (-8h/n), is used for 10 heads too.", "slopes-any-n",
     "Use the slopes of 8 heads, then every second of those of 16 heads.")


# ---- i061
T61 = rand(61, 320, 4)
def make(bug):
    """WavLM: 320 buckets, distance 800"""
    nb, me = 160, 80
    def starts(last):
        out = list(range(1, me + 1))
        for t in range(1, nb - me):
            x = me * (last / me) ** (t / (nb - me))
            out.append(round(x) if abs(x - round(x)) < 1e-9 else math.ceil(x))
        return out
    st = starts(128 if bug else 800)
    def bucket(rp):
        rp = np.asarray(rp)
        flat = [bisect.bisect_right(st, abs(int(v))) + (nb if v > 0 else 0) for v in rp.ravel()]
        return np.array(flat, dtype=np.int64).reshape(rp.shape)
    return bucket
case("i061", make, T5Bias(T61, num_buckets=320, max_distance=800, scaled=True), "bucket",
     "max_distance is T5's default 128 where WavLM has 800, so all distances from 128 on are in the "
     "last bucket.", "max-distance-default", "Pass max_distance=800.")


# ---- i062
T62 = rand(62, 32, 2)
def make(bug):
    """a tile kernel: the bias of 32 x 32 tiles"""
    def one(r):
        n, me = abs(r), 8
        b = n if n < me else min(me + int(math.log(n / me) / math.log(128 / me) * 8 + 1e-9), 15)
        return b + (16 if r > 0 else 0)
    def bias(q_len, k_len):
        table = np.array([one(r) for r in range(-2048, 2049)])
        out = np.empty((2, q_len, k_len), np.float32)
        B = 32
        for a in range(0, q_len, B):
            for c in range(0, k_len, B):
                i = k_len - q_len + a + np.arange(min(B, q_len - a))
                j = c + np.arange(min(B, k_len - c))
                r = j[None] - i[:, None]
                if bug and c - (k_len - q_len + a) >= B:
                    r = np.full_like(r, c - (k_len - q_len + a))  # far tile: one bucket
                out[:, a:a + B, c:c + B] = T62[table[np.clip(r, -2048, 2048) + 2048]].transpose(2, 0, 1)
        return out
    return bias
case("i062", make, T5Bias(T62), "bias",
     "For tiles that lie at least one tile after the query's, the kernel takes the bucket of the "
     "tile's first pair for all of its pairs; only keys far after the query are wrong.",
     "far-tile-one-bucket", "Compute the bucket of every pair, or skip only tiles beyond max_distance.")

# =============================== right ones

# ---- i110
def make(bug):
    def bias(q_len, k_len):
        s = alibi_slopes(20).astype(np.float32)
        return s[:, None, None] * np.arange(k_len, dtype=np.float32)
    return bias
case("i110", make, ALiBi(20), "bias", "right: m j without the query, as in BLOOM; softmax ignores the "
     "difference", "right")


# ---- i111
def make(bug):
    def get(n):
        if n & (n - 1) == 0:
            ratio = 2 ** (-(2 ** -(math.log2(n) - 3)))
            return [ratio * ratio ** i for i in range(n)]
        c = 1 << (n.bit_length() - 1)
        return get(c) + get(2 * c)[0::2][: n - c]
    return lambda n: torch.tensor(get(n), dtype=torch.float32).numpy()
case("i111", make, ALiBi(16), "slopes", "right: the authors' recursion", "right")


# ---- i112
T112 = rand(112, 32, 3)
def make(bug):
    """integer thresholds, searchsorted"""
    me, nb, last = 16, 32, 128
    st = list(range(1, me + 1))
    n = me
    for t in range(1, nb - me):
        while not n ** (nb - me) * me ** t >= last ** t * me ** (nb - me):
            n += 1
        st.append(n)
    st = np.array(st)
    return lambda r: np.searchsorted(st, np.maximum(-np.asarray(r), 0), side="right").astype(np.int32)
case("i112", make, T5Bias(T112, bidirectional=False), "bucket", "right: thresholds found with integers",
     "right")


# ---- i113
T113 = rand(113, 16, 4)
def make(bug):
    """Toeplitz view"""
    def bias(q_len, k_len):
        r = np.arange(-(k_len - 1), q_len)
        n = np.abs(r)
        b = np.where(n < 4, n, np.minimum(4 + np.floor(np.log(np.maximum(n, 1) / 4) / np.log(64 / 4) * 4
                                                      + 1e-9), 7)).astype(int) + 8 * (r > 0)
        t = np.ascontiguousarray(T113[b].T)
        v = np.lib.stride_tricks.sliding_window_view(t, k_len, axis=1)
        return v[:, ::-1][:, :q_len]
    return bias
case("i113", make, T5Bias(T113, num_buckets=16, max_distance=64), "bias",
     "right: one value for every offset, and a sliding window over them", "right")


# ---- i114
def make(bug):
    def bias(q_len, k_len):
        i, j = where(q_len, k_len)
        d = np.abs(i - j)
        with np.errstate(divide="ignore"):
            return np.stack([-a * np.exp(b * np.log(d)) for a, b in zip(p1, p2)]).astype(np.float32)
    return bias
case("i114", make, Kerple(p1, p2, form="power"), "bias", "right: the power as exp(r2 log d), log 0 = "
     "-inf gives 0", "right")


# ---- i115
def make(bug):
    """inner products of sinusoids, without the constant"""
    w = 10000.0 ** (-2 * np.arange(1, 33) / 64)
    def bias(q_len, k_len):
        a = np.arange(k_len)[:, None] * w
        e = np.concatenate([np.sin(a), np.cos(a)], 1)
        g = e[k_len - q_len:] @ e.T
        return np.stack([g * 8 / (8 * h) for h in range(1, 9)]).astype(np.float32)
    return bias
case("i115", make, Sandwich(8, 64), "bias", "right: inner product of sinusoids, the constant dim/2 "
     "left out, which softmax ignores", "right")


# ---- i116
S116 = rand(116, 7 * 9, 4)
def make(bug):
    h, w = 4, 5
    rows = {}
    for dy in range(-(h - 1), h):
        for dx in range(-(w - 1), w):
            rows[dy, dx] = len(rows)
    full = np.empty((4, h * w, h * w), np.float32)
    for a in range(h * w):
        for b in range(h * w):
            full[:, a, b] = S116[rows[a // w - b // w, a % w - b % w]]
    return lambda q, k: full[:, k - q:k, :k]
case("i116", make, SwinBias(S116, window=(4, 5)), "bias", "right: offsets in a dictionary, in the order "
     "of the rows", "right")


# ---- i117
L117 = rand(117, 25, 3)
def make(bug):
    import itertools
    points = list(itertools.product(range(5), range(5)))
    offsets, idxs = {}, []
    for a in points:
        for b in points:
            o = (abs(a[0] - b[0]), abs(a[1] - b[1]))
            offsets.setdefault(o, len(offsets))
            idxs.append(offsets[o])
    full = torch.from_numpy(L117.T.copy())[:, torch.tensor(idxs).view(25, 25)].numpy()
    return lambda q, k: full[:, k - q:k, :k]
case("i117", make, LeViTBias(L117, window=(5, 5)), "bias", "right: LeViT's own code, offsets numbered "
     "as they come", "right")


# ---- i118
def make(bug):
    """without proj_bias: a constant of the head, which softmax ignores; |q - k|^2 expanded"""
    t = np.arange(30)
    y, x = (t // 6).astype(float), (t % 6).astype(float)
    def rel(q_len, k_len):
        s = slice(k_len - q_len, k_len)
        w = cw.astype(float)[:, :, None, None]
        d2 = (x ** 2 + y ** 2)[s, None] + (x ** 2 + y ** 2)[None, :k_len] \
            - 2 * (np.outer(x[s], x[:k_len]) + np.outer(y[s], y[:k_len]))
        out = w[:, 0] * (x[None, :k_len] - x[s, None]) + w[:, 1] * (y[None, :k_len] - y[s, None]) + w[:, 2] * d2
        return out.astype(np.float32)
    return rel
case("i118", make, ConViTBias(cw, cb, cg, window=(5, 6)), "bias", "right: squares expanded, the "
     "constant of the head left out", "right")


# ---- i119
def make(bug):
    """from the diagonal outwards, column by column"""
    g = G58.astype(np.float64)
    def fox(q_len, k_len):
        out = np.zeros((3, q_len, k_len))
        for a, i in enumerate(range(k_len - q_len, k_len)):
            total = np.zeros(3)
            for j in range(i - 1, -1, -1):
                total = total + g[:, j + 1]
                out[:, a, j] = total
            total = np.zeros(3)
            for j in range(i + 1, k_len):
                total = total - g[:, j]
                out[:, a, j] = total
        return out.astype(np.float32)
    return fox
case("i119", make, ForgettingBias(G58), "bias", "right: gates summed from the query backwards", "right")


# ---- i120
def make(bug):
    """interpolates nothing: f evaluated once for each distance, FIRE without a K x K network"""
    W1, b1, W2, b2 = (a.astype(np.float64) for a in (hid, hb, outw, ob))
    def fire(q_len, k_len):
        out = np.empty((4, q_len, k_len), np.float32)
        for a in range(q_len):
            i = k_len - q_len + a
            x = np.zeros(k_len)
            x[: i + 1] = np.log1p(0.1 * np.arange(i, -1, -1)) / (np.log1p(0.1 * max(i, 64)) + 1e-6)
            out[:, a] = W2 @ np.maximum(np.outer(W1[:, 0], x) + b1[:, None], 0) + b2[:, None]
        return out
    return fire
case("i120", make, FIRE(hid, hb, outw, ob, length=64.0), "bias", "right: row by row", "right")


# ---- i121
R121 = rand(121, 21, 2)
def make(bug):
    def relpos(q_len, k_len):
        bins = np.arange(-10, 11)
        i, j = where(q_len, k_len)
        near = np.abs((i - j)[..., None] - bins).argmin(-1)
        return np.einsum("qkc->cqk", R121[near])
    return relpos
case("i121", make, ResidueBias(R121), "bias", "right: AlphaFold's nearest bin by argmin", "right")
