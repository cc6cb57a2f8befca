"""Logits: biases added to q . k, and encodings whose terms depend on queries and keys."""

import numpy as np

from posenc_ref import (
    TUPE,
    ALiBi,
    CoPE,
    DeBERTa,
    DecomposedRelative,
    ESPnetLegacy,
    GatedBias,
    PoPE,
    Shaw,
    Sinusoidal,
    SwinBias,
    T5Bias,
    TransformerXL,
    XLNet,
)

CASES = []
RNG = np.random.default_rng(9)


def _case(id, fn, encoding, key, cause, remedy, mended, surface="scores", **settings):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=False,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=mended,
        )
    )


def _right(id, fn, encoding, cause, surface="scores", **settings):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=True,
            cause=cause,
            cause_key="right",
            remedy="",
            mended=None,
        )
    )


def _f32(*shape, size=1.0):
    return RNG.normal(0, size, shape).astype(np.float32)


def _r(q, k):
    """Query minus key (Q, K)."""
    n, m = q.shape[2], k.shape[2]
    return (m - n + np.arange(n))[:, None] - np.arange(m)[None, :]


def _dot(q, k):
    return np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k.astype(np.float64))


# -- biases inside logits -----------------------------------------------------------------------

_T5 = T5Bias(_f32(32, 4), bidirectional=False)


def _t5_bucket(r):
    n = np.maximum(r, 0)
    large = 16 + np.floor(np.log(np.maximum(n, 1) / 16) / np.log(8) * 16 + 1e-9).astype(int)
    return np.where(n < 16, n, np.minimum(large, 31))


def _t5(scale):
    def attention_logits(q, k):
        bias = np.moveaxis(_T5.table[_t5_bucket(_r(q, k))], -1, 0)
        return _dot(q, k) * (q.shape[-1] ** -0.5 if scale else 1.0) + bias

    return attention_logits


_case(
    "c201",
    _t5(True),
    _T5,
    "t5-scaled",
    "q . k is divided by sqrt(d); T5 does not scale the product",
    "no factor on q . k",
    _t5(False),
)

_SL = 2.0 ** -np.arange(1.0, 9.0)


def _falcon(inside):
    def logits(q, k):
        b = -_SL[:, None, None] * np.abs(_r(q, k))
        s = q.shape[-1] ** -0.5
        return (_dot(q, k) + b) * s if inside else _dot(q, k) * s + b

    return logits


_case(
    "c202",
    _falcon(False),
    ALiBi(8, bias_inside_scale=True),
    "bias-outside-scale",
    "the bias is added after the product was scaled; in Falcon both are divided by sqrt(d)",
    "add the bias first",
    _falcon(True),
)


def alibi_by_channels(q, k):
    n, m = q.shape[2], k.shape[2]
    one = np.ones((*q.shape[:3], 1))
    slope = np.broadcast_to(_SL[:, None, None], one.shape)
    at = np.broadcast_to((m - n + np.arange(n, dtype=float))[:, None], one.shape)
    wide_q = np.concatenate([q * q.shape[-1] ** -0.5, slope, -slope * at], -1)
    ones = np.ones((*k.shape[:3], 1))
    wide_k = np.concatenate(
        [k, np.broadcast_to(np.arange(float(m))[:, None], ones.shape), ones], -1
    )
    return wide_q @ wide_k.swapaxes(-1, -2)


_right(
    "c203",
    alibi_by_channels,
    ALiBi(8),
    "the bias comes from two extra channels of q and k; keys after the query "
    "have a positive bias, but they are masked",
)

_SWT = _f32(5 * 7, 2)


def _swin(per_head):
    y, x = np.divmod(np.arange(12), 4)
    row = (y[:, None] - y + 2) * 7 + x[:, None] - x + 3

    def window_attention(q, k):
        n, m = q.shape[2], k.shape[2]
        b = np.moveaxis(_SWT[row[m - n : m, :m]], -1, 0)
        if not per_head:
            b = b[:1]
        return _dot(q, k) * q.shape[-1] ** -0.5 + b

    return window_attention


_case(
    "c204",
    _swin(False),
    SwinBias(_SWT, window=(3, 4)),
    "bias-of-head-0",
    "all heads get the bias of head 0",
    "one bias for each head",
    _swin(True),
)

# -- DeBERTa ------------------------------------------------------------------------------------

_DK, _DQ = _f32(2, 32, 16), _f32(2, 32, 16)


def _deberta(terms=3, rounding=np.ceil, both_tables=True, c2p=_DK, tail=1):
    def disentangled(q, k):
        r = _r(q, k)
        mid = 8
        with np.errstate(divide="ignore"):
            far = mid + rounding(
                np.log(np.maximum(np.abs(r), 1) / mid) / np.log((64 - tail) / mid) * (mid - 1)
                - 1e-9
            )
        b = np.where(np.abs(r) <= mid, r, np.sign(r) * far).astype(int)
        row = np.clip(b + 16, 0, 31)
        a = np.einsum("bhid,hijd->bhij", q.astype(np.float64), c2p[:, row])
        p = np.einsum("bhjd,hijd->bhij", k.astype(np.float64), _DQ[:, row])
        return (_dot(q, k) + a + p) / np.sqrt(terms * 16)

    return disentangled


_DEB = DeBERTa(_DK, _DQ, buckets=16, max_position=64)
_case(
    "c205",
    _deberta(terms=2),
    _DEB,
    "two-terms-in-scale",
    "the scale is 1/sqrt(2 d); with both relative terms it is 1/sqrt(3 d)",
    "count three terms",
    _deberta(),
)
_case(
    "c206",
    _deberta(rounding=np.floor),
    _DEB,
    "log-bucket-floored",
    "the logarithmic buckets of offsets beyond 8 are rounded down instead of up",
    "ceil",
    _deberta(),
)

_V1K = _f32(2, 16, 16)


def deberta_loops(q, k):
    b, h, n, d = q.shape
    m = k.shape[2]
    out = np.zeros((b, h, n, m))
    for i in range(n):
        for j in range(m):
            row = min(max(m - n + i - j + 8, 0), 15)
            out[:, :, i, j] = ((k[:, :, j].astype(np.float64) + _V1K[:, row]) * q[:, :, i]).sum(
                -1
            ) / (2 * d) ** 0.5
    return out


_right(
    "c208",
    deberta_loops,
    DeBERTa(_V1K, None),
    "loops over query and key; keys and relative keys are added before one product",
)

# -- Transformer-XL and kin ---------------------------------------------------------------------

_P, _U, _V = _f32(2, 16, 32, size=0.3), _f32(2, 16), _f32(2, 16)
_F16 = 10000.0 ** (-np.arange(16) / 16)


def _sin(at, interleaved=False):
    a = np.asarray(at, np.float64)[..., None] * _F16
    if interleaved:
        return np.stack([np.sin(a), np.cos(a)], -1).reshape(*a.shape[:-1], 32)
    return np.concatenate([np.sin(a), np.cos(a)], -1)


def _xl(u=_U, v=_V, sign=1, clamp=None, shifted=False, interleaved=False):
    def rel_attention(q, k):
        r = sign * _r(q, k)
        if clamp:
            r = np.clip(r, *clamp)
        rows = np.einsum("ijD,hdD->hijd", _sin(r, interleaved), _P)
        ac = _dot(q + u[:, None], k)
        if shifted:
            n, m = q.shape[2], k.shape[2]
            by = np.einsum(
                "bhid,hcd->bhic",
                q + v[:, None].astype(np.float64),
                np.einsum("cD,hdD->hcd", _sin(np.arange(m)[::-1]), _P),
            )
            bd = np.concatenate([np.zeros((*by.shape[:3], 1)), by], -1).reshape(
                *by.shape[:2], m + 1, n
            )[:, :, 1:]
            return (ac + bd.reshape(by.shape)) / 4.0
        return (ac + np.einsum("bhid,hijd->bhij", q + v[:, None], rows)) / 4.0

    return rel_attention


def espnet_legacy(q, k):
    m = k.shape[2]
    r, length = _r(q, k), max(50, m)
    rows = _sin(np.where(r >= 0, r + length - m, r + length + 1), True)
    rows = np.einsum("ijD,hdD->hijd", rows, _P)
    own = q + _V[:, None].astype(np.float64)
    after = np.concatenate([own[:, :, 1:], np.broadcast_to(_V[:, None], own[:, :, :1].shape)], 2)
    bd = np.where(r >= 0, np.einsum("bhid,hijd->bhij", own, rows), 0)
    bd = np.where(r < -1, np.einsum("bhid,hijd->bhij", after, rows), bd)
    return (_dot(q + _U[:, None], k) + bd) / 4.0


_SC, _SI = Sinusoidal(32, layout="concat"), Sinusoidal(32)
_case(
    "c211",
    _xl(clamp=(-(2**40), 20)),
    XLNet(_P, _U, _V, sinusoid=_SC, clamp=20),
    "clamped-on-one-side",
    "offsets are clamped to at most 20, but not to at least -20: keys far after the query are not clamped",
    "clip to -clamp .. clamp",
    _xl(clamp=(-20, 20)),
)
_case(
    "c212",
    _xl(shifted=True),
    TransformerXL(_P, _U, _V, sinusoid=_SC),
    "shift-without-mask",
    "the relative shift is used without a causal mask: keys after the query get 0 or values from the next "
    "query's row instead of R(i - j)",
    "compute both signs of the offset",
    _xl(),
)
_case(
    "c213",
    _xl(interleaved=True),
    ESPnetLegacy(_P, _U, _V, sinusoid=_SI, max_len=50),
    "new-for-legacy",
    "this is ESPnet's new encoding, R(i - j); the legacy one has R(L - K + i - j), and for later keys the query "
    "of the next row",
    "use the legacy table and shift",
    espnet_legacy,
)

# -- Shaw, decomposed ---------------------------------------------------------------------------

_SH = _f32(13, 16)


def _shaw(high, scale=0.25):
    def shaw(q, k):
        row = np.clip(-_r(q, k), -8, high) + 8
        by = np.einsum("bhid,md->bhim", q.astype(np.float64), _SH)
        b, h, n, m = *q.shape[:3], k.shape[2]
        return (
            _dot(q, k) * 0.25
            + np.take_along_axis(by, np.broadcast_to(row, (b, h, n, m)), -1) * scale
        )

    return shaw


_SHAW = Shaw(_SH, before=8)
_case(
    "c214",
    _shaw(3),
    _SHAW,
    "right-limit-one-short",
    "offsets of later keys are clipped to 3 instead of 4: the last row of the table is never used",
    "rows - 1 - before",
    _shaw(4),
)


def _shaw_tiles(add):
    def tiled(q, k, T=32):
        n, m = q.shape[2], k.shape[2]
        out = np.empty((*q.shape[:3], m))
        for t in range(0, m, T):
            j = np.arange(t, min(t + T, m))
            r = (j if add else j - t) - (m - n + np.arange(n))[:, None]
            a = _SH[np.clip(r, -8, 4) + 8].astype(np.float64)
            out[..., j] = (_dot(q, k[:, :, j]) + np.einsum("bhid,ijd->bhij", q, a)) * 0.25
        return out

    return tiled


_case(
    "c216",
    _shaw_tiles(False),
    _SHAW,
    "key-index-in-tile",
    "in tiles of 32 keys the relative row is computed from the key's index in the tile: wrong from key 32 on",
    "add the start of the tile",
    _shaw_tiles(True),
)

_RH, _RW = _f32(5, 16), _f32(7, 16)


def _vitdet(flip_w=1, scale=1.0):
    y, x = np.divmod(np.arange(12), 4)
    dy, dx = y[:, None] - y + 2, flip_w * (x[:, None] - x) + 3

    def add_decomposed_rel_pos(q, k):
        s = q * scale
        h = np.einsum("bhid,ijd->bhij", s.astype(np.float64), _RH[dy])
        w = np.einsum("bhid,ijd->bhij", s.astype(np.float64), _RW[dx])
        return _dot(q, k) * 0.25 + h + w

    return add_decomposed_rel_pos


_DEC = DecomposedRelative(_RH, _RW, grid=(3, 4))
_case(
    "c217",
    _vitdet(flip_w=-1),
    _DEC,
    "width-table-reversed",
    "the row of the width table is x_j - x_i + w - 1 (key minus query); height is right",
    "x_i - x_j",
    _vitdet(),
)
_case(
    "c218",
    _vitdet(scale=0.25),
    _DEC,
    "scaled-query-in-positions",
    "the position terms use the query after its division by sqrt(d)",
    "use the unscaled query",
    _vitdet(),
)

# -- CoPE, TUPE, gated, PoPE --------------------------------------------------------------------

_CE = _f32(10, 16)


def _cope(mask=True, top=9.0, cross=False):
    def cope(q, k):
        s = _dot(q, k) * 0.25
        g = 1 / (1 + np.exp(-s))
        if mask:
            g = g * (_r(q, k) >= 0)
        p = np.minimum(np.cumsum(g[..., ::-1], -1)[..., ::-1], top)
        lo, hi = np.floor(p).astype(int), np.ceil(p).astype(int)
        by = np.einsum("bhid,pd->bhip", q.astype(np.float64), _CE)
        w = p - lo
        w = 1 - w if cross else w
        return s + np.take_along_axis(by, hi, -1) * w + np.take_along_axis(by, lo, -1) * (1 - w)

    return cope


_COPE = CoPE(_CE)
_case(
    "c219",
    _cope(mask=False),
    _COPE,
    "gates-before-mask",
    "the gates of keys after the query are counted too: the mask is applied after the sigmoid",
    "mask the gates",
    _cope(),
)
_case(
    "c220",
    _cope(top=8.0),
    _COPE,
    "positions-clamped-one-low",
    "positions are clamped to P - 2 = 8 instead of P - 1 = 9, so the last row is never reached",
    "npos_max - 1",
    _cope(),
)
_case(
    "c221",
    _cope(cross=True),
    _COPE,
    "interpolation-exchanged",
    "the weights of the two rows are exchanged: the fraction p - floor(p) multiplies the lower row",
    "fraction times the upper row",
    _cope(),
)

_PQ, _PK, _C1, _C2 = _f32(64, 2, 16), _f32(64, 2, 16), _f32(2), _f32(2)


def _tupe(scale=2, column=True):
    def tupe(q, k):
        n, m = q.shape[2], k.shape[2]
        qi, kj = m - n + np.arange(n), np.arange(m)
        s = (scale * 16) ** -0.5
        v = np.einsum("ihd,jhd->hij", _PQ[qi].astype(np.float64), _PK[kj]) * s
        if column:
            v = np.where((kj == 0)[None, None], _C2[:, None, None], v)
        v = np.where((qi == 0)[None, :, None], _C1[:, None, None], v)
        return _dot(q, k) * s + v

    return tupe


_TUPE = TUPE(_PQ, _PK, cls_to_others=_C1, others_to_cls=_C2)
_case(
    "c223",
    _tupe(column=False),
    _TUPE,
    "column-of-cls-kept",
    "only the row of [CLS] is replaced; the column (other queries to [CLS]) keeps the position product",
    "replace the column by others_to_cls",
    _tupe(),
)

_GT = T5Bias(_f32(16, 2), num_buckets=16, max_distance=40)
_GW, _GB, _GS = _f32(2, 16, size=0.3), _f32(2), _f32(2)


def _gated(two):
    def wavlm(q, k):
        x = q.astype(np.float64)
        a, r = (1 / (1 + np.exp(-(x @ _GW[n] + _GB[n]))) for n in (0, 1))
        gate = two + a * (_GS[:, None] * r - 1.0)
        d = -_r(q, k)
        n = np.abs(d)
        large = np.minimum(
            4 + np.floor(np.log(np.maximum(n, 1) / 4) / np.log(10) * 4 + 1e-9).astype(int), 7
        )
        b = _GT.table[np.where(n < 4, n, large) + 8 * (d > 0)]
        return _dot(q, k) * 0.25 + gate[..., None] * np.moveaxis(b, -1, 0)

    return wavlm


_case(
    "c224",
    _gated(1.0),
    GatedBias(_GT, _GW, _GB, _GS),
    "gate-plus-one",
    "the gate is 1 + a (scale r - 1), which is 1 too small for every query",
    "2.0",
    _gated(2.0),
)

_PH = -np.abs(_f32(2, 16))


def _pope(kind):
    theta = 10000.0 ** (-np.arange(16) / 16)
    if kind == "rope":
        theta = np.repeat(10000.0 ** (-np.arange(8) / 8), 2)

    def polar(q, k):
        n, m = q.shape[2], k.shape[2]
        mq, mk = (np.logaddexp(0, x.astype(np.float64)) for x in (q, k))
        aq = (m - n + np.arange(n, dtype=float))[:, None] * theta
        ak = np.arange(float(m))[:, None] * theta + (-1 if kind == "phase" else 1) * _PH[:, None]
        a = np.concatenate([mq * np.cos(aq), mq * np.sin(aq)], -1)
        b = np.concatenate([mk * np.cos(ak), mk * np.sin(ak)], -1)
        return a @ b.swapaxes(-1, -2) / np.sqrt(32 if kind == "wide" else 16)

    return polar


_POPE = PoPE(16, _PH)
_case(
    "c225",
    _pope("rope"),
    _POPE,
    "rope-frequencies",
    "neighbouring channels share a frequency, base ** (-2k/d) as in RoPE; PoPE has one for every channel",
    "base ** (-c/d)",
    _pope("right"),
)
_case(
    "c227",
    _pope("wide"),
    _POPE,
    "scale-of-2d",
    "the logits are divided by sqrt(2 d), the size of the polar vectors, instead of sqrt(d)",
    "scale = d ** -0.5",
    _pope("right"),
)
