"""Scores, attention, layers, scales, weights and shifts."""

import math

import numpy as np

from posenc_ref import (
    TUPE,
    ALiBi,
    Attention,
    CoPE,
    DeBERTa,
    DecomposedRelative,
    DualChunk,
    GatedBias,
    ModelEncoding,
    PoPE,
    RoPE,
    SelfExtend,
    Shaw,
    Sinusoidal,
    T5Bias,
    TransformerXL,
    YaRN,
)

_rng = np.random.default_rng(55)


def _wide(*xs):
    return [np.asarray(x, np.float64) for x in xs]


def _at(q, k):
    n, m = q.shape[-2], k.shape[-2]
    return np.arange(m - n, m), np.arange(m)


# --- DeBERTa v2 -------------------------------------------------------------------------------------
_KR, _QR = _rng.standard_normal((2, 3, 32, 16)).astype(np.float32)
DEB = DeBERTa(_KR, _QR, buckets=16, max_position=64)


def _deberta(way):
    def b(x):
        if abs(x) <= 8:
            return x
        far = math.log(abs(x) / 8) / math.log(63 / 8) * 7
        return (1 if x > 0 else -1) * min(8 + (math.floor(far) if way == "floor" else math.ceil(far - 1e-12)), 16)

    rows = {x: min(max(b(x) + 16, 0), 31) for x in range(-4200, 4201)}

    def scores(q, k):
        dtype = q.dtype
        q, k = _wide(q, k)
        qi, kj = _at(q, k)
        at = np.array([[rows[int(i - j)] for j in kj] for i in qi])
        c2p = np.take_along_axis(q @ _KR.swapaxes(-1, -2), np.broadcast_to(at, (*q.shape[:2], *at.shape)), -1)
        back = k @ _QR.swapaxes(-1, -2)
        p2c = np.take_along_axis(back, np.broadcast_to(at.T, (*k.shape[:2], *at.T.shape)), -1).swapaxes(-1, -2)
        return ((q @ k.swapaxes(-1, -2) + c2p + p2c) / math.sqrt(48)).astype(dtype)

    return scores


# --- Transformer-XL ---------------------------------------------------------------------------------
_W = _rng.standard_normal((2, 8, 12)) * 0.3
_U, _V = _rng.standard_normal((2, 2, 8))
XL = TransformerXL(_W, _U, _V, sinusoid=Sinusoidal(12, layout="concat"))


def _xl(memory):
    """Causal, by the shift of rows; memory: whether the queries follow cached keys."""
    w = 10000.0 ** (-np.arange(6) / 6)

    def scores(q, k):
        dtype = q.dtype
        q, k = _wide(q, k)
        n, m = q.shape[-2], k.shape[-2]
        distance = (np.arange(n) + (m - n if memory else 0))[:, None] - np.arange(m)
        e = distance[..., None] * w
        r = np.einsum("hde,ije->hijd", _W, np.concatenate([np.sin(e), np.cos(e)], -1))
        ac = np.einsum("bhid,bhjd->bhij", q + _U[:, None], k)
        bd = np.einsum("bhid,hijd->bhij", q + _V[:, None], r)
        return ((ac + bd) / math.sqrt(8)).astype(dtype)

    return scores


# --- Shaw -----------------------------------------------------------------------------------------------
_SH = _rng.standard_normal((13, 16)).astype(np.float32)
SHAW = Shaw(_SH, before=8)


def _shaw(first):
    def scores(q, k):
        n, m = q.shape[-2], k.shape[-2]
        by_row = q @ _SH.T
        out = q @ np.swapaxes(k, -1, -2)
        for i in range(n):
            for j in range(m):
                r = j - (m - n + i)
                out[..., i, j] += by_row[..., i, max(first, min(4, r)) + 8]
        return out / np.float32(4.0)

    return scores


def shaw_one_hot(q, k):
    qi, kj = _at(q, k)
    hot = np.eye(13)[np.clip(kj - qi[:, None], -8, 4) + 8]  # (Q, K, 13)
    a = hot @ _SH
    q64, k64 = _wide(q, k)
    return (np.einsum("bhid,bhijd->bhij", q64, k64[:, :, None] + a) * 0.25).astype(q.dtype)


# --- CoPE -----------------------------------------------------------------------------------------------
_CE = _rng.standard_normal((7, 16)) * 0.5


def _cope(own):
    def scores(q, k):
        dtype = q.dtype
        q, k = _wide(q, k)
        qi, kj = _at(q, k)
        logits = q @ k.swapaxes(-1, -2) / 4.0
        seen = kj <= qi[:, None]
        gates = seen / (1 + np.exp(-logits))
        p = np.cumsum(gates[..., ::-1], -1)[..., ::-1]
        if not own:
            p = p - gates
        p = np.minimum(p, 6.0)
        low = np.floor(p).astype(int)
        rows = q @ _CE.T
        a = np.take_along_axis(rows, low, -1)
        b = np.take_along_axis(rows, np.minimum(low + 1, 6), -1)
        return (logits + a * (1 - (p - low)) + b * (p - low)).astype(dtype)

    return scores


# --- TUPE -----------------------------------------------------------------------------------------------
_PQ, _PK = _rng.standard_normal((2, 48, 2, 16))
_TT = _rng.standard_normal((32, 2))
TUPE_R = TUPE(_PQ, _PK, bias=T5Bias(_TT))


def _tupe(late):
    """late: the bias is added before the scale."""

    def scores(q, k):
        dtype = q.dtype
        q, k = _wide(q, k)
        qi, kj = _at(q, k)
        pos = np.einsum("ihd,jhd->hij", _PQ[qi], _PK[kj])
        b = _TT[T5Bias(_TT).bucket(kj - qi[:, None])].transpose(2, 0, 1)
        s = 1 / math.sqrt(32)
        content = q @ k.swapaxes(-1, -2)
        out = (content + pos + b) * s if late else (content + pos) * s + b
        return out.astype(dtype)

    return scores


# --- PoPE -----------------------------------------------------------------------------------------------
_PH = -_rng.random((4, 16)) * 3


def _pope(on_queries):
    theta = 10000.0 ** (-np.arange(16) / 16)

    def scores(q, k):
        dtype = q.dtype
        q, k = _wide(q, k)
        qi, kj = _at(q, k)
        eq = qi[:, None] * theta + (_PH[:, None, :] if on_queries else 0.0)
        ek = kj[:, None] * theta + (0.0 if on_queries else _PH[:, None, :])
        a, b = np.logaddexp(0, q), np.logaddexp(0, k)
        left = np.concatenate([a * np.cos(eq), a * np.sin(eq)], -1)
        right = np.concatenate([b * np.cos(ek), b * np.sin(ek)], -1)
        return (left @ right.swapaxes(-1, -2) / 4.0).astype(dtype)

    return scores


# --- decomposed ------------------------------------------------------------------------------------------
_RH, _RW = _rng.standard_normal((7, 16)), _rng.standard_normal((11, 16))


def _decomposed(width_backward):
    def scores(q, k):
        dtype = q.dtype
        q, k = _wide(q, k)
        qi, kj = _at(q, k)
        (yi, xi), (yj, xj) = np.divmod(qi, 6), np.divmod(kj, 6)
        dx = xj - xi[:, None] if width_backward else xi[:, None] - xj
        by_height, by_width = q @ _RH.T, q @ _RW.T
        rows, shape = np.arange(len(qi))[:, None], (*q.shape[:3], len(kj))
        rh = by_height[..., rows, yi[:, None] - yj + 3]
        rw = by_width[..., rows, dx + 5]
        return (q @ k.swapaxes(-1, -2) / 4.0 + (rh + rw).reshape(shape)).astype(dtype)

    return scores


# --- far keys --------------------------------------------------------------------------------------------
_R16 = RoPE(16, layout="half")
_TH = 10000.0 ** (-np.arange(8) / 8)


def _rotated_logits(q, k, i, j):
    """Places i (Q, K) and j (Q, K)."""
    q, k = _wide(q, k)
    e = (i - j)[..., None] * _TH
    zq, zk = q[..., :8] + 1j * q[..., 8:], k[..., :8] + 1j * k[..., 8:]
    return np.einsum("bhid,bhjd,ijd->bhij", zq, zk.conj(), np.exp(1j * e)).real / 4.0


def _self_extend(up):
    def scores(q, k):
        qi, kj = _at(q, k)
        i, j = np.broadcast_arrays(qi[:, None], kj)
        gi = -(-i // 4) if up else i // 4
        far = i - j >= 12
        place_i = np.where(far, gi + 12 - 12 // 4, i)
        return _rotated_logits(q, k, place_i, np.where(far, j // 4, j)).astype(q.dtype)

    return scores


def _dual_chunk(both):
    c, size = 14, 20  # chunk_size 20, local_size 6

    def scores(q, k):
        qi, kj = _at(q, k)
        i, j = np.broadcast_arrays(qi[:, None], kj)
        apart = i // c - j // c
        near = np.minimum(i % c + c, size) if both else i % c + c
        place = np.where(apart == 0, i % c, np.where(apart == 1, near, min(2 * c - 1, size)))
        return _rotated_logits(q, k, place, j % c).astype(q.dtype)

    return scores


# --- ALiBi in the scale, WavLM's gates ------------------------------------------------------------------------
def _falcon(inside):
    m = ALiBi(6).slopes()[:, None, None]

    def scores(q, k):
        dtype, d = q.dtype, q.shape[-1]
        q, k = _wide(q, k)
        qi, kj = _at(q, k)
        b = -m * np.abs(qi[:, None] - kj)
        s = q @ k.swapaxes(-1, -2)
        return ((s + b) / math.sqrt(d) if inside else s / math.sqrt(d) + b).astype(dtype)

    return scores


_GT = T5Bias(_rng.standard_normal((32, 4)), scaled=True)
_GW, _GB, _GC = _rng.standard_normal((2, 16)), _rng.standard_normal(2), _rng.random(4) + 0.5
GATED = GatedBias(_GT, _GW, _GB, _GC)


def _gated(swapped):
    def scores(q, k):
        dtype = q.dtype
        q, k = _wide(q, k)
        qi, kj = _at(q, k)
        b = np.asarray(_GT.table)[_GT.bucket(kj - qi[:, None])].transpose(2, 0, 1)
        s = 1 / (1 + np.exp(-(q @ _GW.T + _GB)))
        a, r = (s[..., 1], s[..., 0]) if swapped else (s[..., 0], s[..., 1])
        gate = 2 + a * (_GC[:, None] * r - 1)
        return (q @ k.swapaxes(-1, -2) / 4.0 + gate[..., None] * b).astype(dtype)

    return scores


# --- shift and relative scores ------------------------------------------------------------------------------
def _shift(front):
    def relative_shift(x):
        n, m = x.shape
        zero = np.zeros((n, 1), x.dtype)
        y = np.concatenate([zero, x] if front else [x, zero], 1).reshape(m + 1, n)
        return (y[1:] if front else y[:-1]).reshape(n, m)

    return relative_shift


def _blocks(slip):
    def relative_scores(q, rel):
        s = q.shape[0]
        out = np.empty((s, s), q.dtype)
        for start in range(0, s, 32):
            rows = np.arange(start, min(start + 32, s))
            index = s - 1 - (rows[:, None] - np.arange(s)) + (slip if start else 0)
            out[rows] = np.einsum("id,ijd->ij", q[rows], rel[np.clip(index, 0, 2 * s - 2)])
        return out

    return relative_scores


# --- attention --------------------------------------------------------------------------------------------
ATTEND = Attention(RoPE(32, layout="half"))


def _grouped(modulo):
    inv = 10000.0 ** (-np.arange(16) / 16)

    def attention(q, k, v, q_positions, k_positions):
        dtype = q.dtype
        q, k, v = _wide(q, k, v)

        def turn(x, p):
            e = np.asarray(p, np.float64)[..., None] * inv
            e = e[:, None] if e.ndim == 3 else e
            z = (x[..., :16] + 1j * x[..., 16:]) * np.exp(1j * e)
            return np.concatenate([z.real, z.imag], -1)

        q, k = turn(q, q_positions), turn(k, k_positions)
        h, g = q.shape[1], k.shape[1]
        own = np.arange(h) % g if modulo else np.arange(h) // (h // g)
        k, v = k[:, own], v[:, own]
        n, m = q.shape[2], k.shape[2]
        s = q @ k.swapaxes(-1, -2) / math.sqrt(32)
        s = np.where(np.arange(m) <= np.arange(m - n, m)[:, None], s, -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        return (s / s.sum(-1, keepdims=True) @ v).astype(dtype)

    return attention


# --- layers, scale, weights, norm -----------------------------------------------------------------------------
_TYPES = tuple("nope" if (n + 1) % 4 == 0 else "rope" for n in range(12))
SMOL = ModelEncoding("smol", encodings={"rope": RoPE(64, layout="half"), "nope": None}, layer_types=_TYPES)
DEEP = ModelEncoding("deep", encodings={"full": RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128,
                     scaling=YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0))}, layer_types=("full",) * 3,
                     softmax_scale=192**-0.5 * (0.1 * math.log(40) + 1) ** 2)


def _layers(shift):
    return lambda n_layers: [(n + shift) % 4 != 0 for n in range(n_layers)]


def _scale(power):
    return lambda: 192**-0.5 * (0.1 * math.log(40.0) + 1.0) ** power


def _permute(forward):
    def permute_weights(w, n_heads):
        rows, hidden = w.shape
        d = rows // n_heads
        if forward:
            return w.reshape(n_heads, 2, d // 2, hidden).swapaxes(1, 2).reshape(rows, hidden)
        return w.reshape(n_heads, d // 2, 2, hidden).swapaxes(1, 2).reshape(rows, hidden)

    return permute_weights


def _normed(over):
    inv = 10000.0 ** (-np.arange(16) / 16)

    def normed_apply(x, weight, positions):
        dtype = x.dtype
        x, weight = _wide(x, weight)
        square = np.mean(x[..., :over] ** 2, -1, keepdims=True)
        x = weight * x / np.sqrt(square + 1e-6)
        e = np.asarray(positions, np.float64)[..., None] * inv
        e = e[:, None] if e.ndim == 3 else e
        a, b = x[..., :16], x[..., 16:32]
        y = np.concatenate([a * np.cos(e) - b * np.sin(e), b * np.cos(e) + a * np.sin(e), x[..., 32:]], -1)
        return y.astype(dtype)

    return normed_apply


_RIGHT = dict(right=True, remedy="", mended=None, settings={})
_WRONG = dict(right=False, settings={})
CASES = [
    dict(id="e092", fn=_deberta("floor"), encoding=DEB, surface="scores", **_WRONG, cause="The logarithmic buckets of DeBERTa v2 are rounded down instead of up: offsets beyond mid = 8 are one row nearer to the middle (except at exact borders).", cause_key="deberta-floor", remedy="use ceil", mended=_deberta("ceil")),
    dict(id="e093", fn=_xl(False), encoding=XL, surface="scores", **_WRONG, cause="With memory (more keys than queries) query i is taken to be at position i instead of K - Q + i, so all distances are too small by the length of the memory.", cause_key="xl-memory-offset", remedy="add K - Q to the query's position", mended=_xl(True)),
    dict(id="e094", fn=_shaw(-7), encoding=SHAW, surface="scores", **_WRONG, cause="Offsets are clipped at -7 instead of -8 = -before: row 0 of the table is never used, and keys 8 or more before the query get row 1.", cause_key="shaw-clip-short", remedy="clip at -before", mended=_shaw(-8)),
    dict(id="e095", fn=shaw_one_hot, encoding=SHAW, surface="scores", **_RIGHT, cause="Adds one-hot(offset) @ table to every key before the product, as equation (3) is written.", cause_key="right-one-hot"),
    dict(id="e096", fn=_cope(False), encoding=CoPE(_CE), surface="scores", **_WRONG, cause="The sum of gates runs from the key after j to the query (exclusive): the key's own gate is missing, so every position is too small by g_ij.", cause_key="cope-exclusive-sum", remedy="use the inclusive reversed cumulative sum", mended=_cope(True)),
    dict(id="e097", fn=_tupe(True), encoding=TUPE_R, surface="scores", **_WRONG, cause="The relative bias b is added before the scale, so it is divided by sqrt(2d) with the products; the products are right.", cause_key="tupe-bias-scaled", remedy="add b after the scale", mended=_tupe(False)),
    dict(id="e098", fn=_pope(True), encoding=PoPE(16, _PH), surface="scores", **_WRONG, cause="The learned phases delta are added to the angles of the queries instead of to those of the keys: they enter the logits with the wrong sign.", cause_key="pope-phase-on-query", remedy="add delta to the keys' angles", mended=_pope(False)),
    dict(id="e099", fn=_decomposed(True), encoding=DecomposedRelative(_RH, _RW, grid=(4, 6)), surface="scores", **_WRONG, cause="The width table is indexed with key minus query, x_j - x_i + w - 1; the height table is right.", cause_key="decomposed-width-sign", remedy="index the width table with x_i - x_j + w - 1", mended=_decomposed(False)),
    dict(id="e100", fn=_self_extend(True), encoding=SelfExtend(_R16, group=4, window=12), surface="scores", **_WRONG, cause="The query's grouped position is rounded up, ceil(i / 4), instead of down: for far keys, queries whose position is no multiple of 4 are one place too far.", cause_key="self-extend-ceil", remedy="use i // group", mended=_self_extend(False)),
    dict(id="e101", fn=_dual_chunk(False), encoding=DualChunk(_R16, chunk_size=20, local_size=6), surface="scores", **_WRONG, cause="For keys of the chunk before, the query's place i mod C + C is not capped at chunk_size = 20: queries from place 7 of their chunk on are rotated too far.", cause_key="dual-chunk-no-cap", remedy="min(i mod C + C, chunk_size)", mended=_dual_chunk(True)),
    dict(id="e102", fn=_falcon(False), encoding=ALiBi(6, bias_inside_scale=True), surface="scores", **_WRONG, cause="The bias is added after the product was divided by sqrt(d); Falcon's convention, declared here, divides the bias too.", cause_key="alibi-outside-scale", remedy="add the bias before dividing by sqrt(d)", mended=_falcon(True)),
    dict(id="e103", fn=_gated(True), encoding=GATED, surface="scores", **_WRONG, cause="The two sigmoids of the gate are exchanged: row 1 of the linear map is used as a and row 0 as r in 2 + a (scale r - 1).", cause_key="gates-exchanged", remedy="a from row 0, r from row 1", mended=_gated(False)),
    dict(id="e104", fn=_shift(False), encoding=None, surface="relative_shift", **_WRONG, cause="The column of zeros is appended at the end and the last row dropped, instead of put in front and the first row dropped: query i and key j get column j - i of x instead of column Q - 1 - i + j (a single query is right).", cause_key="shift-pad-end", remedy="pad in front, drop the first row", mended=_shift(True)),
    dict(id="e105", fn=_shift(True), encoding=None, surface="relative_shift", **_RIGHT, cause="Transformer-XL's pad, reshape and drop; keys after the query hold values of the next row.", cause_key="right-rel-shift"),
    dict(id="e106", fn=_blocks(1), encoding=None, surface="relative_scores", **_WRONG, cause="Queries are processed in blocks of 32; in every block but the first, the row of rel is one too high (the distance is one too small), clamped at the last row.", cause_key="relative-scores-block-off-by-one", remedy="use S - 1 - (i - j) in all blocks", mended=_blocks(0)),
    dict(id="e107", fn=_grouped(True), encoding=ATTEND, surface="attention", **_WRONG, cause="Query head h reads key and value head h mod H_kv (tile) instead of h // (H / H_kv) (repeat_interleave).", cause_key="gqa-head-modulo", remedy="repeat each key head H / H_kv times in place", mended=_grouped(False)),
    dict(id="e108", fn=_layers(0), encoding=SMOL, surface="layers", **_WRONG, cause="Layers 0, 4, 8 are left without RoPE (n % 4 == 0) instead of layers 3, 7, 11 ((n + 1) % 4 == 0).", cause_key="nope-interval-phase", remedy="test (n + 1) % 4", mended=_layers(1)),
    dict(id="e109", fn=_scale(1), encoding=DEEP, surface="softmax_scale", **_WRONG, cause="The softmax scale is multiplied by mscale = 0.1 ln 40 + 1 once instead of by its square.", cause_key="mscale-not-squared", remedy="square mscale", mended=_scale(2)),
    dict(id="e110", fn=_permute(False), encoding=None, surface="permute_weights", **_WRONG, cause="The rows are permuted in the opposite direction, from interleaved to half-split.", cause_key="permute-inverse", remedy="reshape to (n_heads, 2, d/2, hidden)", mended=_permute(True)),
    dict(id="e111", fn=_normed(32), encoding=RoPE(64, layout="half", rotary_dim=32), surface="normed_apply", **_WRONG, cause="The mean square of the norm is taken over the 32 rotated channels only instead of over all 64 channels of the head.", cause_key="norm-rotary-part-only", remedy="take the mean over the whole head", mended=_normed(64)),
]
