import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def arr(seed, *shape, scale=0.5):
    return np.random.default_rng(seed).standard_normal(shape) * scale


def causal(Q, K):
    return np.arange(K)[None, :] <= np.arange(K - Q, K)[:, None]


def soft(s, mask):
    s = np.where(mask, s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def f8(*xs):
    return [np.asarray(x, np.float64) for x in xs]


# ---------------------------------------------------------------- right ones
RB = P.Learned(np.random.default_rng(5).standard_normal((300, 4)).astype(np.float32), padding_idx=2)


def make(bug):
    def ids(input_ids):
        t = np.asarray(input_ids)
        flat = t.reshape(-1, t.shape[-1])
        out = np.full(flat.shape, 2, np.int64)
        for row, line in zip(out, flat):
            real = np.flatnonzero(line - 2)
            row[real] += 1 + np.arange(real.size)
        return out.reshape(t.shape)
    return ids
case("q128", make, RB, "ids_from_tokens", "Every token starts at padding_idx; the places of real tokens, found as nonzero of id - padding_idx, get 1, 2, ... "
     "added.", "right")


def make(bug):
    def decode(prompt_len, n_steps):
        n = np.asarray(prompt_len, np.int64)
        steps = np.ones(n.shape + (n_steps + 1,), np.int64)
        steps[..., 0] = n
        return np.cumsum(steps, -1)[..., :-1]
    return decode
case("q129", make, None, "decode_positions", "A cumulative sum of one length and ones; the last sum is left out.", "right")


def make(bug):
    def rel_scores(q, rel):
        S = len(q)
        q64, r64 = f8(q, rel)
        out = np.zeros((S, S))
        for m in range(2 * S - 1):                                                # one diagonal for each row of rel
            d = S - 1 - m                                                         # i - j
            i = np.arange(max(d, 0), S + min(d, 0))
            out[i, i - d] = q64[i] @ r64[m]
        return out.astype(q.dtype)
    return rel_scores
case("q130", make, None, "relative_scores", "Filled diagonal by diagonal, one for each row of rel.", "right")


DC = P.DualChunk(P.RoPE(16, layout="interleaved"), chunk_size=9, local_size=4)
F8 = 10000.0 ** (-np.arange(8) / 8.0)


def make(bug):
    C, size = 5, 9
    place = np.exp(1j * np.arange(size + 1)[:, None] * F8)                         # no other position occurs
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        z = q[..., 0::2].astype(float) + 1j * q[..., 1::2]
        y = (k[..., 0::2].astype(float) + 1j * k[..., 1::2]) * place[np.arange(K) % C]
        out = np.zeros(q.shape[:-1] + (K,))
        for c in range(-(-K // C)):
            keys = np.conj(y[:, :, c * C : (c + 1) * C])
            for a in range(Q):
                i = K - Q + a
                gap = i // C - c
                p = i - i // C * C if gap <= 0 else min(i - c * C, size) if gap == 1 else min(2 * C - 1, size)
                out[:, :, a, c * C : (c + 1) * C] = ((z[:, :, a] * place[p])[:, :, None] * keys).real.sum(-1)
        return (out / 4.0).astype(q.dtype)
    return scores
case("q131", make, DC, "scores", "A table of chunk_size + 1 rotations serves all positions; the query of the next chunk has its distance from the start of the "
     "key's chunk, capped.", "right")


FG = P.ForgettingBias(-np.abs(np.random.default_rng(6).standard_normal((4, 24))))
LG = np.asarray(FG.log_gates)


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        i, t, j = np.arange(K - Q, K)[:, None], np.arange(K), np.arange(K)[:, None]
        upto, after = (t <= i).astype(float), (t > j).astype(float)                # Q T and K T
        bias = np.matmul(upto * LG[:, None, :K], after.T)                          # sum over j < t <= i
        return (np.matmul(*f8(q, np.swapaxes(k, -1, -2))) / math.sqrt(q.shape[-1]) + bias).astype(q.dtype)
    return scores
case("q132", make, FG, "scores", "Gates are summed by a product of two triangular masks, without differences of prefix sums; keys after the query get 0, "
     "an empty sum.", "right")


RP = P.RoPE(16, layout="half", base=500000.0)
FR = 500000.0 ** (-np.arange(8) / 8.0)


def make(bug):
    fine = np.exp(1j * np.arange(1024)[:, None] * FR)
    coarse = {}
    def turn(x, p):
        hi, rest = np.divmod(np.asarray(p, np.float64), 1024.0)                    # floor for negative ones too
        lo = rest.astype(int)
        for n in np.unique(hi).tolist():
            if n not in coarse:
                coarse[n] = np.exp(1j * (1024.0 * n) * FR)
        z = x[..., :8] + 1j * x[..., 8:]
        z = z * fine[lo] * np.stack([coarse[n] for n in hi.tolist()]) * np.exp(1j * (rest - lo)[:, None] * FR)
        return np.concatenate([z.real, z.imag], -1)
    def attention(q, k, v, q_positions, k_positions):
        B, H, Q, d = q.shape
        q64, k64, v64 = f8(q, k, v)
        n, K = k.shape[1], k.shape[2]
        g = turn(q64, q_positions).reshape(B, n, H // n * Q, d)                    # a group's heads are rows of one product
        s = (g @ turn(k64, k_positions).swapaxes(-1, -2) / 4).reshape(B, n, H // n, Q, K)
        w = soft(s, causal(Q, K)).reshape(B, n, H // n * Q, K)
        return (w @ v64).reshape(B, H, Q, -1).astype(q.dtype)
    return attention
case("q133", make, RP, "attention", "Rotations are products of two tables, of the position's low ten bits and of the rest; the heads of a group are rows of one "
     "product.", "right")


# ---------------------------------------------------------------- wrong ones
def make(bug):
    cum = np.cumsum(LG, axis=1)
    def attention(q, k, v, q_positions, k_positions):
        B, H, Q, d = q.shape
        n, K = k.shape[1], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        c = np.repeat(cum[:n], H // n, axis=0) if bug else cum
        bias = c[:, np.asarray(q_positions)][:, :, None] - c[:, np.asarray(k_positions)][:, None]
        s = q64 @ np.repeat(k64, H // n, 1).swapaxes(-1, -2) / math.sqrt(d) + bias
        return (soft(s, causal(Q, K)) @ np.repeat(v64, H // n, 1)).astype(q.dtype)
    return attention
case("q134", make, FG, "attention", "The gates are repeated for groups like the keys: each query head gets the gate with the number of its key head; gates have a row for "
     "every query head.", "gates-of-key-heads", "gates are not grouped")


BE = P.BEiTBias(np.random.default_rng(8).standard_normal((5 * 7 + 3, 3)), window=(3, 4))


def make(bug):
    h, w = 3, 4
    y, x = np.divmod(np.arange(h * w), w)
    idx = np.zeros((h * w + 1, h * w + 1), int)
    idx[1:, 1:] = (y[:, None] - y + h - 1) * (2 * w - 1) + (x[:, None] - x + w - 1)
    n = (2 * h - 1) * (2 * w - 1) + 3
    if bug:
        idx[0:, 0], idx[0, 0:] = n - 3, n - 2
    else:
        idx[0, 0:], idx[0:, 0] = n - 3, n - 2
    idx[0, 0] = n - 1
    bias = np.asarray(BE.table)[idx].transpose(2, 0, 1)
    def scores(q, k):
        return (np.einsum("bhqd,bhkd->bhqk", *f8(q, k)) / math.sqrt(q.shape[-1]) + bias).astype(q.dtype)
    return scores
case("q135", make, BE, "scores", "The two rows of [CLS] are exchanged: the query [CLS] has row n - 2 and the key [CLS] row n - 3.", "cls-rows-exchanged",
     "[CLS] to token is row n - 3, token to [CLS] row n - 2")


_g = np.random.default_rng(9)
CPB = P.LogCPB(_g.standard_normal((8, 2)), _g.standard_normal(8), _g.standard_normal((2, 8)) * 0.5, window=(3, 4), pretrained_window=(5, 7))


def make(bug):
    W1, b1, W2 = (np.asarray(a) for a in (CPB.hidden, CPB.hidden_bias, CPB.output))
    y, x = np.divmod(np.arange(12), 4)
    off = np.stack([(y[:, None] - y) / (3 - 1 if bug else 5 - 1), (x[:, None] - x) / (4 - 1 if bug else 7 - 1)], -1) * 8
    off = np.sign(off) * np.log2(np.abs(off) + 1) / np.log2(8)
    bias = 16 / (1 + np.exp(-(np.maximum(off @ W1.T + b1, 0) @ W2.T)))
    bias = np.moveaxis(bias, -1, 0)
    def scores(q, k):
        q64, k64 = f8(q, k)
        return (q64 @ k64.swapaxes(-1, -2) + bias).astype(q.dtype)
    return scores
case("q136", make, CPB, "scores", "Offsets are divided by the size of the present window; the model was trained with another (pretrained_window), whose size "
     "counts.", "pretrained-window-ignored", "divide by the pretrained window")


INC = np.random.default_rng(10).standard_normal((3, 32, 6)) * 0.7
SEL = P.SelectiveRoPE(16, INC, layout="half")


def make(bug):
    angle = np.cumsum(INC, axis=1)
    if bug:
        angle = angle - INC
    rot = np.exp(1j * angle)
    def turned(x, at):
        z = (x[..., :6] + 1j * x[..., 6:12]) * rot[:, at]
        return np.concatenate([z.real, z.imag, x[..., 12:]], -1)
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        q64, k64 = f8(q, k)
        return (turned(q64, slice(K - Q, K)) @ turned(k64, slice(0, K)).swapaxes(-1, -2) * 0.25).astype(q.dtype)
    return scores
case("q137", make, SEL, "scores", "The angle is the sum of the increments before the token (an exclusive sum), so a pair has the sum from j to i - 1 instead of "
     "j + 1 to i.", "exclusive-angle-sum", "include the token's own increment")


PH = -np.abs(np.random.default_rng(11).standard_normal((2, 8)))
PO = P.PoPE(8, PH)


def make(bug):
    th = 10000.0 ** (-np.arange(8) / 8.0)
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        a, b = (np.logaddexp(0.0, x) for x in f8(q, k))
        i = np.arange(K - Q, K)[:, None] * th
        j = np.arange(K)[:, None] * th
        if bug:
            i = i + PH[:, None]                                                    # Q's angle gets the phase
        else:
            j = j + PH[:, None]
        left = np.concatenate([a * np.cos(i), a * np.sin(i)], -1)
        right = np.concatenate([b * np.cos(j), b * np.sin(j)], -1)
        return (left @ right.swapaxes(-1, -2) / math.sqrt(8)).astype(q.dtype)
    return scores
case("q138", make, PO, "scores", "The phases are added to the angles of the queries instead of the keys, which turns their sign in the logits.", "phase-on-queries",
     "add them to the keys")


FAL = P.ALiBi(6, bias_inside_scale=True)


def make(bug):
    m = np.array([2.0 ** -2, 2.0 ** -4, 2.0 ** -6, 2.0 ** -8, 2.0 ** -1, 2.0 ** -3])
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        inv = 1 / math.sqrt(q.shape[-1])
        d = np.arange(K) - np.arange(K - Q, K)[:, None]
        bias = -m[:, None, None] * np.abs(d)
        s = np.einsum("bhqd,bhkd->bhqk", *f8(q, k)) * inv
        return (s + (bias if bug else bias * inv)).astype(q.dtype)
    return scores
case("q139", make, FAL, "scores", "The bias is added after the product was divided by sqrt(d); Falcon-RW divides the bias as well.", "bias-outside-scale",
     "divide the sum")


def make(bug):
    def index(window):
        h, w = window
        t = np.arange(h * w)
        y, x = np.divmod(t, h if bug else w)
        dy, dx = np.subtract.outer(y, y), np.subtract.outer(x, x)
        big = 2 * max(h, w) * h * w + 1
        return dy * big + dx
    return index
case("q140", make, None, "relative_index", "Rows and columns of a token are quotient and remainder by the height; tokens are row-major, so it should be the width.",
     "divided-by-height", "divmod by the width")


TX = P.TransformerXL(np.random.default_rng(12).standard_normal((4, 16, 16)) * 0.4, sinusoid=P.Sinusoidal(16, layout="concat"))


def make(bug):
    proj = np.asarray(TX.projection)
    om = 10000.0 ** (-np.arange(8) / 8.0)
    def attention(q, k, v, q_positions, k_positions):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        d = np.asarray(q_positions, float)[:, None] - np.asarray(k_positions, float)
        ang = d[..., None] * om
        r = np.concatenate([np.sin(ang), np.cos(ang)], -1)
        wide = np.einsum("bhqd,hdw->bhqw", q64, proj.swapaxes(1, 2) if bug else proj)
        s = (q64 @ np.repeat(k64, H // k.shape[1], 1).swapaxes(-1, -2) + np.einsum("bhqw,qkw->bhqk", wide, r)) / 4
        return (soft(s, causal(Q, K)) @ np.repeat(v64, H // v.shape[1], 1)).astype(q.dtype)
    return attention
case("q141", make, TX, "attention", "The query is multiplied by the transposed projection W^T (as many rows as columns, so nothing complains).", "projection-transposed",
     "q W")


DG = P.Attention(P.DeBERTa(None, np.random.default_rng(13).standard_normal((4, 10, 16))), causal=False)


def make(bug):
    qr = np.asarray(DG.encoding.relative_queries)
    def attention(q, k, v, q_positions, k_positions):
        H = q.shape[1]
        q64, k64, v64 = f8(q, k, v)
        k64, v64 = (np.repeat(t, H // t.shape[1], 1) for t in (k64, v64))
        row = np.clip(np.asarray(q_positions)[:, None] - np.asarray(k_positions) + 5, 0, 9)
        by = np.einsum("bhkd,hrd->bhkr", k64, qr)
        if bug:
            by = np.einsum("bhkd,hrd->bhkr", k64 / np.sqrt(2 * 16), qr)
        p2c = np.take_along_axis(by, np.broadcast_to(row.T, by.shape[:3] + (len(row),)), -1).swapaxes(-1, -2)
        return (soft((q64 @ k64.swapaxes(-1, -2) + p2c) / np.sqrt(32), True) @ v64).astype(q.dtype)
    return attention
case("q142", make, DG, "attention", "The position term is made from keys that are already divided by sqrt(2 d), and divided again with the whole logits.",
     "p2c-scaled-twice", "divide once")
