import math
import functools
import itertools

import numpy as np

import posenc_ref as P

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def _slopes(n):
    return P.ALiBi(n).slopes()


def _soft(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _rep(x, h):
    return np.repeat(x, h // x.shape[1], axis=1).astype(float)


def _mask(Q, K):
    return np.arange(K)[None] > np.arange(K - Q, K)[:, None]


def _abias(h, a, b):
    return -_slopes(h)[:, None, None] * np.abs(np.asarray(a)[:, None] - np.asarray(b)[None])


def _rope(x, p, base=10000.0):
    n = x.shape[-1] // 2
    ang = np.asarray(p, float)[:, None] * base ** (-np.arange(n) / n)
    c, s = np.cos(ang), np.sin(ang)
    a, b = x[..., :n].astype(float), x[..., n:].astype(float)
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


_AL = P.Attention(P.ALiBi(8))


# ---- m114 GQA repeat: tile
def make(bug):
    def att(q, k, v, qp, kp):
        B, H, Q, D = q.shape
        g = H // k.shape[1]
        K_, V_ = ((np.tile(x, (1, g, 1, 1)) if bug else np.repeat(x, g, 1)).astype(float) for x in (k, v))
        s = np.matmul(q.astype(float), K_.swapaxes(2, 3)) / math.sqrt(D) + _abias(H, qp, kp)
        s = np.where(_mask(Q, k.shape[2]), -np.inf, s)
        return (_soft(s) @ V_).astype(q.dtype)
    return att
case("m114", make, _AL, "attention",
     "Key and value heads are tiled (h % H_kv) instead of repeated (h // group), so query heads read other key heads.",
     "gqa-tile", "repeat each key head for consecutive query heads")


# ---- m115 causal mask tril without offset
def make(bug):
    def att(q, k, v, qp, kp):
        B, H, Q, D = q.shape
        K = k.shape[2]
        s = np.einsum("bhqd,bhkd->bhqk", q.astype(float), _rep(k, H)) * D ** -0.5 + _abias(H, qp, kp)
        m = np.tri(Q, K, 0 if bug else K - Q, dtype=bool)
        return np.einsum("bhqk,bhkd->bhqd", _soft(np.where(m, s, -1e30)), _rep(v, H)).astype(q.dtype)
    return att
case("m115", make, _AL, "attention",
     "The causal mask is aligned at the top left: with cached keys, query i sees only keys 0 .. i instead of 0 .. K - Q + i.",
     "mask-top-left", "use tril with diagonal K - Q")


# ---- m116 sink added as a plain key with value of first token? sink not subtracted max: included in denominators after norm
def make(bug):
    def att(q, k, v, qp, kp, sinks):
        B, H, Q, D = q.shape
        s = np.matmul(_rope(q, qp), _rope(_rep(k, H), kp).swapaxes(-1, -2)) / math.sqrt(D)
        s = np.where(_mask(Q, k.shape[2]), -np.inf, s)
        top = s.max(-1, keepdims=True)
        e = np.exp(s - top)
        z = sinks.astype(float)[None, :, None, None]
        den = e.sum(-1, keepdims=True) + np.exp(z if bug else z - top)
        return (e / den @ _rep(v, H)).astype(q.dtype)
    return att
case("m116", make, P.Attention(P.RoPE(64, layout="half"), sinks=True), "attention",
     "The sink's exponential is added without subtracting the row's maximum, which was subtracted from all other logits.",
     "sink-max", "add exp(sink - max)")


# ---- m117 sinks for kv heads
def make(bug):
    def att(q, k, v, qp, kp, sinks):
        B, H, Q, D = q.shape
        s = np.matmul(_rope(q, qp), _rope(_rep(k, H), kp).swapaxes(-1, -2)) / math.sqrt(D)
        s = np.where(_mask(Q, k.shape[2]), -np.inf, s)
        z = np.asarray(sinks, float)
        if bug:
            z = z.reshape(-1, k.shape[1]).T.reshape(-1) if k.shape[1] > 1 else z
        z = np.broadcast_to(z[None, :, None, None], (B, H, Q, 1))
        w = _soft(np.concatenate([s, z], -1))[..., :-1]
        return (w @ _rep(v, H)).astype(q.dtype)
    return att
case("m117", make, P.Attention(P.RoPE(64, layout="half"), sinks=True), "attention",
     "The sinks are reordered from (group, key head) to (key head, group), so with grouped keys query heads get the sinks of other heads.",
     "sinks-head-order", "keep the order of query heads")


# ---- m118 sliding window default in tiles: flash attention loop drops last partial tile
def make(bug):
    def att(q, k, v, qp, kp):
        B, H, Q, D = q.shape
        k, v = _rep(k, H), _rep(v, H)
        K, T = k.shape[2], 32
        m = np.full((B, H, Q, 1), -np.inf)
        l = np.zeros((B, H, Q, 1))
        o = np.zeros((B, H, Q, v.shape[-1]))
        for a in range(0, K, T):
            kk, vv = k[:, :, a:a + T], v[:, :, a:a + T]
            s = q.astype(float) @ kk.swapaxes(-1, -2) / math.sqrt(D) + _abias(H, qp, np.asarray(kp)[a:a + T])
            s = np.where(np.arange(a, min(a + T, K))[None] > np.arange(K - Q, K)[:, None], -np.inf, s)
            new = np.maximum(m, s.max(-1, keepdims=True))
            safe = np.where(np.isfinite(new), new, 0)
            p = np.exp(s - safe)
            c = np.exp(m - safe)
            l = l * c + p.sum(-1, keepdims=True)
            o = (o if bug else o * c) + p @ vv
            m = new
        return (o / l).astype(q.dtype)
    return att
case("m118", make, _AL, "attention",
     "The online softmax rescales the running sum but not the running output when a later tile of 32 keys has a larger maximum.",
     "online-softmax-rescale", "multiply the accumulated output by exp(m_old - m_new)")


# ---- m119 ALiBi distance from first tile: tile-relative
def make(bug):
    def att(q, k, v, qp, kp):
        B, H, Q, D = q.shape
        k, v = _rep(k, H), _rep(v, H)
        K, T = k.shape[2], 64
        rows = []
        m = _slopes(H)[:, None, None]
        for a in range(0, K, T):
            n = min(T, K - a)
            j = np.asarray(kp)[:n] if bug else np.asarray(kp)[a:a + n]
            d = np.asarray(qp)[:, None] - j
            rows.append(np.matmul(q.astype(float), k[:, :, a:a + T].swapaxes(-1, -2)) / math.sqrt(D) - m * np.abs(d))
        s = np.where(_mask(Q, K), -np.inf, np.concatenate(rows, -1))
        return (_soft(s) @ v).astype(q.dtype)
    return att
case("m119", make, _AL, "attention",
     "From the second tile of 64 keys on, the key positions of the first tile are loaded again (the tile's start is not added), so the distances of all later tiles are those of the first 64 keys.",
     "tile-local-key-index", "add the tile's start to the key index")


# ---- m120 softmax in float16 probabilities
def make(bug):
    def att(q, k, v, qp, kp):
        B, H, Q, D = q.shape
        s = np.matmul(q.astype(float), _rep(k, H).swapaxes(-1, -2)) / math.sqrt(D) + _abias(H, qp, kp)
        w = _soft(np.where(_mask(Q, k.shape[2]), -np.inf, s))
        if bug:
            w = w.astype(np.float16).astype(float)
        return (w @ _rep(v, H)).astype(q.dtype)
    return att
case("m120", make, _AL, "attention",
     "The attention weights are rounded to float16 before they are multiplied by the values, though the inputs are float32.",
     "weights-float16", "keep the weights in float32")


# ---- m121 T5 attention scaled
_T = np.random.default_rng(61).standard_normal((32, 4)).astype(np.float32)
_TB = P.T5Bias(_T)
def make(bug):
    def att(q, k, v, qp, kp):
        B, H, Q, D = q.shape
        r = np.asarray(kp)[None] - np.asarray(qp)[:, None]
        s = np.matmul(q.astype(float), _rep(k, H).swapaxes(-1, -2))
        s = s * (D ** -0.5 if bug else 1.0) + _T.T[:, _TB.bucket(r)]
        return (_soft(s) @ _rep(v, H)).astype(q.dtype)
    return att
case("m121", make, P.Attention(_TB, causal=False), "attention",
     "scaled_dot_product_attention is called with its default scale 1/sqrt(d), but T5's scores are not scaled.", "sdpa-default-scale", "pass scale=1.0")


# ---- m122 mask in encoder
def make(bug):
    def att(q, k, v, qp, kp):
        B, H, Q, D = q.shape
        r = np.asarray(kp)[None] - np.asarray(qp)[:, None]
        s = np.matmul(q.astype(float), _rep(k, H).swapaxes(-1, -2)) + _T.T[:, _TB.bucket(r)]
        if bug:
            s = np.where(r > 0, -1e9, s)
        return (_soft(s) @ _rep(v, H)).astype(q.dtype)
    return att
case("m122", make, P.Attention(_TB, causal=False), "attention",
     "A causal mask is applied although the encoder is bidirectional.", "encoder-masked", "do not mask later keys")


# ---- m123 sink value: sink key not removed -> weights renormalised
def make(bug):
    def att(q, k, v, qp, kp, sinks):
        B, H, Q, D = q.shape
        s = np.matmul(q.astype(float), _rep(k, H).swapaxes(-1, -2)) / math.sqrt(D)
        s = np.where(_mask(Q, k.shape[2]), -np.inf, s) + _abias(H, qp, kp)
        z = np.broadcast_to(sinks.astype(float)[:, None, None], (B, H, Q, 1))
        w = _soft(np.concatenate([z, s], -1))[..., 1:]
        if bug:
            w = w / w.sum(-1, keepdims=True)
        return (w @ _rep(v, H)).astype(q.dtype)
    return att
case("m123", make, P.Attention(P.ALiBi(4), sinks=True), "attention",
     "The weights are normalised again after the sink's column is dropped, so the sink has no effect.", "sink-renormalised", "keep the sink in the denominator")


# ---- m124 ALiBi slopes of kv heads
def make(bug):
    def att(q, k, v, qp, kp):
        B, H, Q, D = q.shape
        hk = k.shape[1]
        g = H // hk
        m = np.repeat(_slopes(hk), g) if bug else _slopes(H)
        d = np.abs(np.asarray(qp)[:, None] - np.asarray(kp))
        qg = q.reshape(B, hk, g, Q, D).astype(float)
        s = np.einsum("bngqd,bnkd->bngqk", qg, k.astype(float)) / math.sqrt(D) - m.reshape(hk, g)[:, :, None, None] * d
        s = np.where(_mask(Q, k.shape[2]), -np.inf, s)
        return np.einsum("bngqk,bnkd->bngqd", _soft(s), v.astype(float)).reshape(B, H, Q, -1).astype(q.dtype)
    return att
case("m124", make, _AL, "attention",
     "With grouped keys the slopes are those of H_kv heads, each shared by a group, instead of one slope for each query head.",
     "slopes-of-kv-heads", "use the slopes of the query heads")


# ---- m125 NoPE with rope applied to long? scale softmax_scale ignored
def make(bug):
    def att(q, k, v, qp, kp):
        B, H, Q, D = q.shape
        s = np.matmul(q.astype(float), _rep(k, H).swapaxes(-1, -2)) * (D ** -0.5 if bug else 0.0625)
        return (_soft(np.where(_mask(Q, k.shape[2]), -np.inf, s)) @ _rep(v, H)).astype(q.dtype)
    return att
case("m125", make, P.Attention(None, softmax_scale=0.0625), "attention",
     "The factor on q . k is 1/sqrt(head_dim) instead of the declared attention multiplier 0.0625.", "multiplier-ignored", "use the declared scale")


# ---- m126 right: online softmax in base 2, tiles
def make(bug):
    L2 = math.log2(math.e)
    def att(q, k, v, qp, kp):
        B, H, Q, D = q.shape
        k, v, K = _rep(k, H), _rep(v, H), k.shape[2]
        m, l, o = np.full((B, H, Q, 1), -1e300), 0.0, 0.0
        for a in reversed(range(0, K, 16)):
            e = min(a + 16, K)
            s = (q.astype(float) * (L2 / math.sqrt(D))) @ k[:, :, a:e].swapaxes(-1, -2) + L2 * _abias(H, qp, np.asarray(kp)[a:e])
            s = np.where(np.arange(a, e)[None] > np.arange(K - Q, K)[:, None], -1e300, s)
            n = np.maximum(m, s.max(-1, keepdims=True))
            p = np.where(s > -1e299, np.exp2(s - n), 0)
            c = np.exp2(m - n)
            l, o, m = l * c + p.sum(-1, keepdims=True), o * c + p @ v[:, :, a:e], n
        return (o / l).astype(q.dtype)
    return att
case("m126", make, _AL, "attention", "Right: online softmax over tiles from the last to the first, in base 2.", "right")


# ---- m127 right: torch sdpa
def make(bug):
    import torch
    def att(q, k, v, qp, kp):
        B, H, Q, D = q.shape
        K = k.shape[2]
        qp, kp = (torch.as_tensor(np.asarray(p)) for p in (qp, kp))
        b = -torch.from_numpy(_slopes(H).copy())[:, None, None] * (qp[:, None] - kp[None]).abs()
        m = torch.ones(Q, K, dtype=torch.bool).tril(K - Q)
        b = b.masked_fill(~m, float("-inf"))
        kk, vv = (x.double().repeat_interleave(H // x.shape[1], 1) for x in (k, v))
        return torch.nn.functional.scaled_dot_product_attention(q.double(), kk, vv, attn_mask=b[None].expand(B, -1, -1, -1)).to(q.dtype)
    return att
case("m127", make, _AL, "attention", "Right: torch's scaled_dot_product_attention with an additive mask in float64.", "right", backend="torch")
