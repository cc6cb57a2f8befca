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


def spread(x, H):
    return np.repeat(x, H // x.shape[1], axis=1)


RP = P.RoPE(16, layout="half")
FREQ = 10000.0 ** (-np.arange(8) / 8.0)


def rotate(x, p, freq=FREQ):
    """Half-split pairs of x (B, H, S, 16) turned by p (S,)."""
    n = len(freq)
    z = (x[..., :n] + 1j * x[..., n : 2 * n]) * np.exp(1j * np.asarray(p, np.float64)[:, None] * freq)
    return np.concatenate([z.real, z.imag, x[..., 2 * n :]], -1)


# ---------------------------------------------------------------- ALiBi
AL8, AL6 = P.ALiBi(8), P.ALiBi(6)
M8 = 2.0 ** -np.arange(1, 9)
M6 = np.array([2.0 ** -2, 2.0 ** -4, 2.0 ** -6, 2.0 ** -8, 2.0 ** -1, 2.0 ** -3])


def make(bug):
    def attention(q, k, v, q_positions, k_positions):
        q64, k64, v64 = f8(q, k, v)
        H, n = q.shape[1], k.shape[1]
        if n != H:
            k64, v64 = ((np.tile(t, (1, H // n, 1, 1)) if bug else np.repeat(t, H // n, 1)) for t in (k64, v64))
        bias = -M8[:, None, None] * np.abs(np.asarray(q_positions)[:, None] - np.asarray(k_positions)[None])
        s = q64 @ k64.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + bias
        return (soft(s, causal(q.shape[2], k.shape[2])) @ v64).astype(q.dtype)
    return attention
case("q046", make, AL8, "attention", "Key heads are spread over the query heads by tile: query head h reads key head h mod H_kv "
     "instead of h // group.", "groups-tiled", "repeat every key head for its group")


def make(bug):
    T = 8
    def attention(q, k, v, q_positions, k_positions):
        B, H, Q, d = q.shape
        K = k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        k64, v64 = spread(k64, H), spread(v64, H)
        qp, kp = f8(q_positions, k_positions)
        m = np.full((B, H, Q, 1), -np.inf)
        l, acc = np.zeros((B, H, Q, 1)), np.zeros((B, H, Q, v.shape[-1]))
        seen = causal(Q, K)
        for t in range(0, K, T):
            cols = kp[t : t + T]
            if bug:
                cols = kp[: len(cols)]                                           # columns of the tile
            s = q64 @ k64[:, :, t : t + T].swapaxes(-1, -2) / math.sqrt(d) - M6[:, None, None] * np.abs(qp[:, None] - cols)
            s = np.where(seen[:, t : t + T], s, -np.inf)
            new = np.maximum(m, s.max(-1, keepdims=True))
            safe = np.where(np.isfinite(new), new, 0.0)
            w = np.exp(s - safe)
            fix = np.exp(m - safe)
            l, acc, m = l * fix + w.sum(-1, keepdims=True), acc * fix + w @ v64[:, :, t : t + T], new
        return (acc / l).astype(q.dtype)
    return attention
case("q047", make, AL6, "attention", "A kernel with key tiles of 8 computes the distance from the column inside the tile; from the second "
     "tile on the bias is that of the first keys.", "tile-local-column", "add the start of the tile")


def make(bug):
    def attention(q, k, v, q_positions, k_positions):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        if bug:
            dist = np.arange(K - Q, K)[:, None] - np.arange(K)
        else:
            dist = np.asarray(q_positions)[:, None] - np.asarray(k_positions)
        s = np.einsum("bhqd,bhkd->bhqk", q64, spread(k64, H)) * q.shape[-1] ** -0.5 - np.multiply.outer(M8, np.abs(dist))
        return np.einsum("bhqk,bhkd->bhqd", soft(s, causal(Q, K)), spread(v64, H)).astype(q.dtype)
    return attention
case("q048", make, AL8, "attention", "The distances are differences of the tokens' numbers in the call; the given positions (with gaps, "
     "after eviction or out of order) are ignored.", "positions-ignored", "subtract the given positions")


def make(bug):
    def attention(q, k, v, q_positions, k_positions):
        # ALiBi as one more channel: q gets 1, k gets m j; the constant of a row does not matter
        B, H, Q, d = q.shape
        K = k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        top = int(np.max(k_positions))
        plain = np.all((np.asarray(k_positions)[None] <= np.asarray(q_positions)[:, None]) | ~causal(Q, K))
        if not plain:                                                            # some seen key is later: |i - j|
            bias = -M8[:, None, None] * np.abs(np.subtract.outer(np.asarray(q_positions), np.asarray(k_positions)))
            s = q64 @ spread(k64, H).swapaxes(-1, -2) / math.sqrt(d) + bias
        else:
            one = np.concatenate([q64 / math.sqrt(d), np.ones((B, H, Q, 1))], -1)
            col = (M8[:, None] * (np.asarray(k_positions) - top))[None, :, :, None]
            two = np.concatenate([spread(k64, H), np.broadcast_to(col, (B, H, K, 1))], -1)
            s = one @ two.swapaxes(-1, -2)
        return (soft(s, causal(Q, K)) @ spread(v64, H)).astype(q.dtype)
    return attention
case("q049", make, AL8, "attention", "ALiBi as one more channel of q and k: logits have m (j - top) instead of -m (i - j), which differs "
     "by a constant of each row; |i - j| if a seen key has a later position.", "right")


# ---------------------------------------------------------------- sinks
SINK = P.Attention(RP, sinks=True)


def make(bug):
    def attention(q, k, v, q_positions, k_positions, sinks):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        s = rotate(q64, q_positions) @ spread(rotate(k64, k_positions), H).swapaxes(-1, -2) / 4.0
        s = np.where(causal(Q, K), s, -np.inf)
        m = s.max(-1, keepdims=True)
        e = np.exp(s - m)
        sink = np.asarray(sinks, np.float64)[:, None, None]
        total = e.sum(-1, keepdims=True) + (np.exp(sink) if bug else np.exp(sink - m))
        return ((e / total) @ spread(v64, H)).astype(q.dtype)
    return attention
case("q050", make, SINK, "attention", "exp(sink) is added to a sum of exponentials from which the row's maximum was taken.",
     "sink-without-maximum", "add exp(sink - maximum)")


def make(bug):
    def attention(q, k, v, q_positions, k_positions, sinks):
        B, H, Q, d = q.shape
        n, K = k.shape[1], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        g = rotate(q64, q_positions).reshape(B, n, H // n, Q, d)
        s = np.einsum("bngqd,bnkd->bngqk", g, rotate(k64, k_positions)) * 0.25
        z = np.asarray(sinks, np.float64)
        z = z.reshape(H // n, n).T if bug else z.reshape(n, H // n)
        s = np.concatenate([np.where(causal(Q, K), s, -np.inf), np.broadcast_to(z[None, :, :, None, None], (B, n, H // n, Q, 1))], -1)
        w = soft(s, True)[..., :-1]
        return np.einsum("bngqk,bnkd->bngqd", w, v64).reshape(B, H, Q, -1).astype(q.dtype)
    return attention
case("q051", make, SINK, "attention", "The sinks (H,) are reshaped as (group, H_kv) and transposed, so with grouped heads most heads get the "
     "sink of another one.", "sinks-of-other-heads", "reshape to (H_kv, group)")


def make(bug):
    def attention(q, k, v, q_positions, k_positions, sinks):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        qr, kr, vr = rotate(q64, q_positions), spread(rotate(k64, k_positions), H), spread(v64, H)
        first = K - Q
        top = np.broadcast_to(np.asarray(sinks, float)[:, None], q.shape[:3]).copy()   # the sink is the first key
        den, out = np.ones_like(top), np.zeros(q.shape[:3] + (v.shape[-1],))
        for j in range(K):
            s = np.einsum("bhqd,bhd->bhq", qr, kr[:, :, j]) / 4
            s = np.where(j <= first + np.arange(Q), s, -np.inf)
            new = np.maximum(top, s)
            a, b = np.exp(top - new), np.exp(s - new)
            den, out, top = den * a + b, out * a[..., None] + b[..., None] * vr[:, :, None, j], new
        return (out / den[..., None]).astype(q.dtype)
    return attention
case("q052", make, SINK, "attention", "Online softmax, key by key; the sink is the state it starts from (maximum s, sum 1, output 0).", "right")


# ---------------------------------------------------------------- rotated values
ROT = P.Attention(RP, values="rotated")
YR = P.RoPE(16, layout="half", scaling=P.YaRN(8.0, 64))
SHARED = P.Attention(YR, values="shared")
YF, YM = np.asarray(YR.frequencies()), float(YR.attention_factor())


def make(bug):
    def attention(q, k, v, q_positions, k_positions):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        s = rotate(q64, q_positions) @ spread(rotate(k64, k_positions), H).swapaxes(-1, -2) / 4
        o = soft(s, causal(Q, K)) @ spread(rotate(v64, k_positions), H)
        back = np.asarray(k_positions)[:Q] if bug else np.asarray(q_positions)
        return rotate(o, -back).astype(q.dtype)
    return attention
case("q053", make, ROT, "attention", "The output is rotated back by the first Q key positions (the table is cut to the length of the output), "
     "not by the query positions.", "output-position-first-keys", "rotate back by the positions of the queries")


def make(bug):
    def attention(q, k, v, q_positions, k_positions):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        keys = rotate(k64, k_positions, YF) * YM
        s = (rotate(q64, q_positions, YF) * YM) @ spread(keys, H).swapaxes(-1, -2) / 4
        vals = keys if bug else rotate(v64, k_positions, YF)
        return rotate(soft(s, causal(Q, K)) @ spread(vals, H), -np.asarray(q_positions), YF).astype(q.dtype)
    return attention
case("q054", make, SHARED, "attention", "One tensor is key and value: the rotated keys, which contain YaRN's attention factor, are used as "
     "values, so the output is too large by that factor.", "values-with-attention-factor", "rotate the values without the factor")


def make(bug):
    def attention(q, k, v, q_positions, k_positions):
        # in the frame of the query: keys and values are turned by p_j - p_i, nothing is turned back
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        k64, v64 = spread(k64, H), spread(v64, H)
        rows = []
        for a in range(Q):
            n = K - Q + a + 1
            d = np.asarray(k_positions)[:n] - np.asarray(q_positions)[a]
            s = np.einsum("bhd,bhkd->bhk", q64[:, :, a], rotate(k64[:, :, :n], d)) / 4
            rows.append(np.einsum("bhk,bhkd->bhd", soft(s, True), rotate(v64[:, :, :n], d)))
        return np.stack(rows, axis=2).astype(q.dtype)
    return attention
case("q055", make, ROT, "attention", "Everything is computed in the frame of each query: keys and values are turned by the offset, and neither "
     "the query nor the output is turned.", "right")


# ---------------------------------------------------------------- masks, T5, precision
def make(bug):
    def attention(q, k, v, q_positions, k_positions):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        s = rotate(q64, q_positions) @ spread(rotate(k64, k_positions), H).swapaxes(-1, -2) / 4
        mask = np.tril(np.ones((Q, K), bool)) if bug else np.tril(np.ones((Q, K), bool), K - Q)
        return (soft(s, mask) @ spread(v64, H)).astype(q.dtype)
    return attention
case("q056", make, RP, "attention", "The causal mask is aligned to the top left: with cached keys query i sees keys 0 .. i instead of 0 .. K - Q + i.",
     "mask-top-left", "tril with diagonal K - Q")


def make(bug):
    T = 8
    def attention(q, k, v, q_positions, k_positions):
        B, H, Q, d = q.shape
        K = k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        qr, kr, v64 = rotate(q64, q_positions), spread(rotate(k64, k_positions), H), spread(v64, H)
        out = np.zeros((B, H, Q, v.shape[-1]))
        for a in range(Q):
            last = K - Q + a
            tiles = max(1, -(-last // T)) if bug else last // T + 1
            end = min(tiles * T, last + 1)
            s = np.einsum("bhd,bhkd->bhk", qr[:, :, a], kr[:, :, :end]) / 4
            out[:, :, a] = np.einsum("bhk,bhkd->bhd", soft(s, True), v64[:, :, :end])
        return out.astype(q.dtype)
    return attention
case("q057", make, RP, "attention", "The number of key tiles of a query is ceil(last / 8) instead of ceil((last + 1) / 8): a query at a multiple "
     "of 8 does not see its own key.", "last-key-at-tile-border", "last // 8 + 1 tiles")


T5B = P.T5Bias(arr(91, 16, 4), num_buckets=16, max_distance=40, bidirectional=False)
T5E = P.Attention(P.T5Bias(arr(92, 12, 4), num_buckets=12, max_distance=30), causal=False)


def t5_bucket(n, nb, top):
    """Bucket of the distance n >= 0 by integer powers."""
    me = nb // 2
    if n < me:
        return n
    t = 0
    while t < nb - me - 1 and n ** (nb - me) * me ** (t + 1) >= top ** (t + 1) * me ** (nb - me):
        t += 1
    return me + t


def make(bug):
    table = np.asarray(T5B.table)
    look = np.array([t5_bucket(n, 16, 40) for n in range(60)])
    def attention(q, k, v, q_positions, k_positions):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        full = np.asarray(k_positions)
        n = np.maximum(full[:, None] - full[None], 0)                             # K x K, then the rows of the queries
        bias = np.moveaxis(table[look[np.minimum(n, 59)]], -1, 0)
        bias = bias[:, :Q] if bug else bias[:, K - Q :]
        s = q64 @ spread(k64, H).swapaxes(-1, -2) + bias
        return (soft(s, causal(Q, K)) @ spread(v64, H)).astype(q.dtype)
    return attention
case("q058", make, T5B, "attention", "The K x K bias is cut to its first Q rows in decoding; the queries are the last Q tokens.", "bias-rows-first",
     "take the last Q rows")


def make(bug):
    table = np.asarray(T5E.encoding.table)
    def attention(q, k, v, q_positions, k_positions):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        r = np.asarray(k_positions)[None] - np.asarray(q_positions)[:, None]
        top = 30                                                                  # a table of offsets, clipped
        look = np.array([t5_bucket(abs(x), 6, 30) + 6 * (x > 0) for x in range(-top, top + 1)])
        row = look[np.clip(r, -top, top) + top]
        s = np.einsum("bhqd,bhkd->bhqk", q64, spread(k64, H)) * (q.shape[-1] ** -0.5 if bug else 1.0)
        s += np.moveaxis(table[row], -1, 0)
        return np.einsum("bhqk,bhkd->bhqd", soft(s, True), spread(v64, H)).astype(q.dtype)
    return attention
case("q059", make, T5E, "attention", "The logits are divided by sqrt(d) like in a common attention kernel; T5 has the factor in its weights.",
     "t5-scaled", "scale 1")


def make(bug):
    def attention(q, k, v, q_positions, k_positions):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        qp, kp = (np.asarray(p).astype(np.float16) if bug else np.asarray(p) for p in (q_positions, k_positions))
        s = rotate(q64, qp) @ spread(rotate(k64, kp), H).swapaxes(-1, -2) / 4
        return (soft(s, causal(Q, K)) @ spread(v64, H)).astype(q.dtype)
    return attention
case("q060", make, P.Attention(RP, causal=True), "attention", "Positions are cast to float16 with the rest of the inputs: above 2048 neighbours share "
     "a position (above 65504 they are infinite).", "positions-float16", "keep the positions integers or float64")


def bf16(x):
    b = np.asarray(x, np.float32).view(np.uint32)
    b = (b + 0x7FFF + ((b >> 16) & 1)) & np.uint32(0xFFFF0000)
    return b.view(np.float32).astype(np.float64)


def make(bug):
    keep = bf16 if bug else (lambda x: x)
    def attention(q, k, v, q_positions, k_positions):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        cached = keep(rotate(k64, k_positions))                                    # what the key cache holds
        s = rotate(q64, q_positions) @ spread(cached, H).swapaxes(-1, -2) / 4
        return (soft(s, causal(Q, K)) @ spread(v64, H)).astype(q.dtype)
    return attention
case("q061", make, RP, "attention", "Rotated keys pass through a bfloat16 cache although everything else is float32: three digits remain.",
     "keys-bfloat16", "keep the dtype of the keys")


# ---------------------------------------------------------------- query scales, CoPE, NoPE
QT = P.Attention(RP, query_scale=P.QueryTemperature(0.1, 16))
LN = P.Attention(RP, query_scale=P.LogNScale(8))
CPA = P.Attention(P.CoPE(arr(93, 6, 16)))
NOPE = P.Attention(None, query_scale=P.PowerTemperature(0.3, 16), softmax_scale=0.3)


def make(bug):
    def attention(q, k, v, q_positions, k_positions):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        p = np.asarray(q_positions) + (1 if bug else 0)
        t = 1.0 + 0.1 * np.log1p(p // 16)
        s = rotate(q64, q_positions) * t[:, None] @ spread(rotate(k64, k_positions), H).swapaxes(-1, -2) / 4
        return (soft(s, causal(Q, K)) @ spread(v64, H)).astype(q.dtype)
    return attention
case("q062", make, QT, "attention", "Llama 4's temperature, floor((p + 1) / n), in a model that has floor(p / n): each step begins one position "
     "early.", "temperature-offset", "offset 0")


def make(bug):
    def attention(q, k, v, q_positions, k_positions):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        p = np.asarray(q_positions, np.float64)
        if bug:
            p = np.full_like(p, p.max())
        t = np.maximum(1.0, np.log(p + 1) / math.log(8))
        s = rotate(q64, q_positions) @ spread(rotate(k64, k_positions), H).swapaxes(-1, -2) * (t[:, None] / 4)
        return (soft(s, causal(Q, K)) @ spread(v64, H)).astype(q.dtype)
    return attention
case("q063", make, LN, "attention", "log-n: all queries of a call get the factor of the longest one (of the length of the cache) instead of their own "
     "position's.", "logn-of-length", "a factor for each query position")


def make(bug):
    e = np.asarray(CPA.encoding.embedding)
    def attention(q, k, v, q_positions, k_positions):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        k64, v64 = spread(k64, H), spread(v64, H)
        s = q64 @ k64.swapaxes(-1, -2) / 4
        seen = np.asarray(k_positions) <= np.asarray(q_positions)[:, None]
        g = 1 / (1 + np.exp(-s)) * (1.0 if bug else seen)
        after = np.asarray(k_positions)[None, :] >= np.asarray(k_positions)[:, None]   # [j, t]: key t at or after key j
        p = np.minimum(g @ after.T.astype(float), len(e) - 1)
        lo = p.astype(int)
        hi = np.minimum(lo + 1, len(e) - 1)
        li = q64 @ e.T
        s = s + (1 - p + lo) * np.take_along_axis(li, lo, -1) + (p - lo) * np.take_along_axis(li, hi, -1)
        return (soft(s, causal(Q, K)) @ v64).astype(q.dtype)
    return attention
case("q064", make, CPA, "attention", "The causal mask is added after CoPE: the gates of keys after the query are counted in all positions.",
     "gates-of-later-keys", "mask before the gates")


def make(bug):
    def attention(q, k, v, q_positions, k_positions):
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        p = np.asarray(q_positions, np.float64)
        t = (1 + (p if bug else p + 1) / 16) ** 0.3
        s = (q64 * t[:, None]) @ spread(k64, H).swapaxes(-1, -2) * 0.3
        return (soft(s, causal(Q, K)) @ spread(v64, H)).astype(q.dtype)
    return attention
case("q065", make, NOPE, "attention", "The temperature follows the docstring, 1 + p / length, where the model computes 1 + (p + 1) / length.",
     "temperature-position", "use p + 1")


def make(bug):
    look = np.array([t5_bucket(n, 16, 40) for n in range(41)])
    table = np.asarray(T5B.table)
    def attention(q, k, v, q_positions, k_positions):
        # one softmax weight at a time: exponentials of bias and product are multiplied
        H, Q, K = q.shape[1], q.shape[2], k.shape[2]
        q64, k64, v64 = f8(q, k, v)
        n = np.clip(np.asarray(q_positions)[:, None] - np.asarray(k_positions), 0, 40)
        gain = np.exp(np.moveaxis(table[look[n]], -1, 0)) * causal(Q, K)            # 0 where masked
        s = q64 @ spread(k64, H).swapaxes(-1, -2)
        top = np.where(causal(Q, K), s, -np.inf).max(-1, keepdims=True)
        e = np.exp(np.minimum(s - top, 0.0)) * gain
        return (e @ spread(v64, H) / e.sum(-1, keepdims=True)).astype(q.dtype)
    return attention
case("q066", make, T5B, "attention", "No bias is added: exp(bias) is a factor of the weights, 0 for later keys; distances above the last bucket are "
     "clipped before the lookup.", "right")
