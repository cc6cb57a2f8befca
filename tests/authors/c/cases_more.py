"""Rare mistakes of several families, and right functions of unusual form."""

import functools

import numpy as np

from posenc_ref import (
    FIRE,
    ALiBi,
    DynamicNTK,
    FourierFeatures,
    Kerple,
    LinearScaling,
    LongRoPE,
    MultiAxisRoPE,
    Proportional,
    RoPE,
    Shaw,
    Sinusoidal,
    SwinBias,
    T5Bias,
    Time2Vec,
    TransformerXL,
)

CASES = []
RNG = np.random.default_rng(13)


def _case(id, surface, fn, encoding, key, cause, remedy, mended, **settings):
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


def _right(id, surface, fn, encoding, cause, **settings):
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


def _over(x, positions):
    p = np.asarray(positions).astype(np.float64)
    while 1 < p.ndim < x.ndim - 1:
        p = np.expand_dims(p, 1)
    return p


def _inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def _half(x, angles, m=1.0):
    n = angles.shape[-1]
    a, b = x[..., :n].astype(np.float64), x[..., n : 2 * n].astype(np.float64)
    c, s = m * np.cos(angles), m * np.sin(angles)
    out = np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype)
    return np.concatenate([out, x[..., 2 * n :]], axis=-1)


# -- wrong --------------------------------------------------------------------------------------

_LR = LongRoPE([1.0] * 16, [1.0 + 0.5 * k for k in range(16)], 64, factor=8.0)


def _by_token(each):
    m = np.sqrt(1 + np.log(8.0) / np.log(64))
    lam = np.array(_LR.long_factor)

    def phi3_rope(x, positions):
        p = _over(x, positions)
        long = (p >= 64)[..., None] if each else np.max(p) + 1 > 64
        return _half(x, p[..., None] * np.where(long, _inv(32) / lam, _inv(32)), m)

    return phi3_rope


_case(
    "c241",
    "apply",
    _by_token(True),
    RoPE(32, layout="half", scaling=_LR),
    "list-chosen-per-token",
    "short or long factors are chosen for each token by its own position, so early tokens of a long call keep "
    "the short list; the length of the call decides for all tokens",
    "compare the largest position plus one",
    _by_token(False),
)


def _narrow(dtype):
    def rope_single(x, positions):
        a = _over(x, positions)[..., None] * _inv(64)
        c, s = np.cos(a).astype(dtype), np.sin(a).astype(dtype)
        u, w = x[..., :32].astype(dtype), x[..., 32:].astype(dtype)
        return np.concatenate([u * c - w * s, w * c + u * s], -1).astype(x.dtype)

    return rope_single


_case(
    "c242",
    "apply",
    _narrow(np.float32),
    RoPE(64, layout="half"),
    "float64-through-float32",
    "float64 inputs are rotated in float32 and cast back: relative errors of 1e-7 in all channels",
    "compute in the dtype of x",
    _narrow(np.float64),
    dtype="float64",
)


def _overwrite(copy):
    def rope_in_place(x, positions):
        y = x.copy() if copy else x
        a = _over(x, positions)[..., None] * _inv(48)
        c, s = np.cos(a), np.sin(a)
        even = y[..., 0::2].astype(np.float64)
        odd = y[..., 1::2].astype(np.float64)
        y[..., 0::2] = even * c - odd * s
        y[..., 1::2] = odd * c + even * s
        return y

    return rope_in_place


_case(
    "c243",
    "apply",
    _overwrite(False),
    RoPE(48, layout="interleaved"),
    "input-overwritten",
    "the result is right, but it is written into x: the caller's queries or keys are overwritten",
    "copy x first",
    _overwrite(True),
)


def _turned(pairs_apart):
    def partial_for_p_rope(x, positions):
        f = 1e6 ** (-2.0 * np.arange(16) / 128)
        y = x.copy()
        i = np.arange(16)
        both = np.concatenate([i, i + pairs_apart])
        y[..., both] = _half(x[..., both], _over(x, positions)[..., None] * f)
        return y

    return partial_for_p_rope


_case(
    "c244",
    "apply",
    _turned(16),
    RoPE(128, layout="half", base=1e6, scaling=Proportional(0.25)),
    "p-rope-as-partial-block",
    "the rotating pairs are (k, k + 16) in the first 32 channels, as in partial rotary, instead of (k, k + 64)",
    "pair channel k with k + head_dim / 2",
    _turned(64),
)


def _dino(scale):
    def dinov3(x, positions):
        p = np.asarray(positions, np.float64)
        p = np.stack([p, p]) if p.ndim == 1 else p
        f = scale * 100.0 ** (-np.arange(8) / 8)
        a = np.concatenate([p[0][..., None] * f, p[1][..., None] * f], -1)
        return _half(x, a[:, None] if a.ndim == 3 and x.ndim == 4 else a)

    return dinov3


_case(
    "c245",
    "apply",
    _dino(3.14),
    MultiAxisRoPE(
        32, sections=(8, 8), layout="half", spacing="restart", base=100.0, position_scale=np.pi
    ),
    "pi-three-digits",
    "coordinates are multiplied by 3.14 instead of pi: angles are 0.05 % too small",
    "np.pi",
    _dino(np.pi),
)


def _same_length(reuse):
    def run(x, chunks):
        at, last, ys = 0, None, []
        for n in chunks:
            if not (reuse and last is not None and last[0] == n):
                last = (n, (at + np.arange(n, dtype=np.float64))[:, None] * _inv(64))
            ys.append(_half(x[..., at : at + n, :], last[1]))
            at += n
        return np.concatenate(ys, -2)

    return run


_case(
    "c246",
    "decode",
    _same_length(True),
    RoPE(64, layout="half"),
    "table-of-equal-chunk-reused",
    "cos and sin of a chunk are kept for the next chunk if it is as long, so single tokens after the first one "
    "all get its position",
    "recompute for each chunk",
    _same_length(False),
)


def _bf16_positions(cast):
    def add_sinusoid(x):
        import torch

        p = torch.arange(x.shape[1])
        p = p.to(torch.bfloat16 if cast else torch.float64).to(torch.float64)
        a = p[:, None] * 10000.0 ** (-torch.arange(0, 32, 2, dtype=torch.float64) / 32)
        table = torch.stack([a.sin(), a.cos()], -1).flatten(-2)
        return (x.to(torch.float64) + table).to(x.dtype)

    return add_sinusoid


_case(
    "c247",
    "add",
    _bf16_positions(True),
    Sinusoidal(32),
    "bfloat16-counter",
    "positions are counted in bfloat16: from 257 on neighbouring positions are equal",
    "count in int64 or float32",
    _bf16_positions(False),
    backend="torch",
    dtype="bfloat16",
)


def _only_batch_zero(rows):
    def alternate(x, positions):
        y = x.copy()
        p = np.broadcast_to(_over(x, positions), x.shape[:-1])
        if x.ndim < 3:
            return _half(x, p[..., None] * _inv(64, 1e5))
        for b in range(x.shape[0]):
            scale = 1.0 if b == 0 or not rows else 0.5
            y[b] = _half(x[b], p[b][..., None] * (_inv(64) / 2) / scale)
        return y

    return alternate


_case(
    "c248",
    "apply",
    _only_batch_zero(True),
    RoPE(64, layout="half", scaling=LinearScaling(2.0)),
    "later-rows-unscaled",
    "batch rows after the first have the frequencies without linear scaling (twice as high)",
    "scale the frequencies of all rows",
    _only_batch_zero(False),
)

_DYN = RoPE(32, layout="half", scaling=DynamicNTK(2.0, 64))


def _dynamic(extra):
    def rope(x, positions):
        p = _over(x, positions)
        n = max(float(np.max(p)) + extra, 64.0)
        return _half(x, p[..., None] * _inv(32, 10000.0 * (2 * n / 64 - 1) ** (32 / 30)))

    return rope


_case(
    "c249",
    "apply",
    _dynamic(0),
    _DYN,
    "length-is-last-position",
    "the length of the call is taken as the largest position instead of that plus one",
    "max(positions) + 1",
    _dynamic(1),
)

# -- right --------------------------------------------------------------------------------------


def vjp_autograd(x, positions, dy):
    import torch

    leaf = x.detach().to(torch.float64).requires_grad_()
    p = torch.as_tensor(positions).to(torch.float64)
    while 1 < p.ndim < leaf.ndim - 1:
        p = p.unsqueeze(1)
    a = p[..., None] * 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    z = torch.view_as_complex(leaf.unflatten(-1, (-1, 2)).contiguous()) * torch.polar(
        torch.ones_like(a), a
    )
    y = torch.view_as_real(z).flatten(-2)
    return torch.autograd.grad(y, leaf, dy.to(torch.float64))[0].to(x.dtype)


_right(
    "c251",
    "apply_vjp",
    vjp_autograd,
    RoPE(64, layout="interleaved"),
    "torch.autograd of a rotation by complex numbers",
    backend="torch",
)


def mrope_loop(x, positions):
    p = np.asarray(positions, np.float64)
    p = np.stack([p] * 3) if p.ndim == 1 else p
    y = x.copy()
    for j in range(24):
        axis = 0 if j < 8 else 1 if j < 16 else 2
        a = p[axis] * 1e4 ** (-j / 24)
        a = a[:, None] if a.ndim == 2 and x.ndim == 4 else a
        u, w = x[..., j].astype(np.float64), x[..., j + 24].astype(np.float64)
        y[..., j], y[..., j + 24] = u * np.cos(a) - w * np.sin(a), w * np.cos(a) + u * np.sin(a)
    return y


_right(
    "c252",
    "apply",
    mrope_loop,
    MultiAxisRoPE(48, sections=(8, 8, 8), layout="half"),
    "M-RoPE pair by pair",
)


@functools.lru_cache(maxsize=4)
def _angles(start, n):
    return (start + np.arange(n, dtype=np.float64))[:, None] * _inv(64)


_right(
    "c253",
    "calls",
    lambda calls: [_half(x, _angles(int(o), x.shape[-2])) for x, o in calls],
    RoPE(64, layout="half"),
    "functools.lru_cache of four tables, keyed by offset and length",
)


def _dyn_inv(n):
    return _inv(32, 10000.0 * (2 * max(n, 64) / 64 - 1) ** (32 / 30))


def rerotated_cache(k, chunks):
    cache, at, inv = k[..., :0, :].astype(np.float64), 0, _dyn_inv(0)
    for n in chunks:
        new = _dyn_inv(at + n)
        old = np.arange(at, dtype=np.float64)[:, None] * (new - inv)
        part = (at + np.arange(n, dtype=np.float64))[:, None] * new
        cache = np.concatenate(
            [_half(cache, old), _half(k[..., at : at + n, :].astype(np.float64), part)], -2
        )
        at, inv = at + n, new
    return cache.astype(k.dtype)


_right(
    "c254",
    "key_cache",
    rerotated_cache,
    _DYN,
    "keys are stored rotated in float64, and turned on by the change of "
    "the angles whenever the length changes the frequencies",
)

_T5 = T5Bias(_f32(32, 4))


def toeplitz_bias(q_len, k_len):
    line = np.asarray(_T5.table)[
        _T5.bucket(np.arange(1 - k_len, q_len))
    ].T  # (4, q_len + k_len - 1)
    return np.stack([line[:, q_len - 1 - i : q_len - 1 - i + k_len] for i in range(q_len)], 1)


_right(
    "c255",
    "bias",
    toeplitz_bias,
    _T5,
    "one line of values per head, cut at another start for each query",
)

_SW = _f32(7 * 7, 3)


def swin_by_flip(q_len, k_len):
    grid = _SW[::-1].reshape(7, 7, 3)  # reversed: indexed by key minus query
    out = np.empty((3, 16, 16), np.float32)
    for n in range(16):
        y, x = divmod(n, 4)
        out[:, n] = grid[3 - y : 7 - y, 3 - x : 7 - x].reshape(16, 3).T
    return out


_right(
    "c256",
    "bias",
    swin_by_flip,
    SwinBias(_SW, window=(4, 4)),
    "each query's bias is a window cut out of the reversed table",
)


def kerple_tiles(q_len, k_len, T=16):
    out = np.zeros((2, q_len, k_len))
    for a in range(0, q_len, T):
        for b in range(0, k_len, T):
            i = k_len - q_len + np.arange(a, min(a + T, q_len))[:, None]
            j = np.arange(b, min(b + T, k_len))[None]
            d = np.abs(i - j)
            for h, (r1, r2) in enumerate(((0.7, 1.1), (1.9, 0.2))):
                out[h, a : a + T, b : b + T] = -r1 * np.log1p(r2 * d)
    return out.astype(np.float32)


_right(
    "c257",
    "bias",
    kerple_tiles,
    Kerple([0.7, 1.9], [1.1, 0.2]),
    "tiles of 16 x 16 with a remainder, head by head",
)

_H, _HB, _O = _f32(4, 1), _f32(4), _f32(2, 4)


def fire_units(q_len, k_len):
    i = (np.arange(q_len) + k_len - q_len)[:, None].astype(np.float64)
    d = np.maximum(i - np.arange(k_len), 0)
    x = np.log1p(d) / (np.log1p(np.maximum(i, 32.0)) + 1e-6)
    out = np.zeros((2, *x.shape))
    for w, b, o in zip(_H[:, 0].astype(float), _HB.astype(float), _O.T.astype(float)):
        out += np.clip(w * x + b, 0, None) * o[:, None, None]
    return out


_right(
    "c258", "bias", fire_units, FIRE(_H, _HB, _O, c=1.0, length=32.0), "the network unit by unit"
)

_P, _V = _f32(2, 8, 16, size=0.4), _f32(2, 8)


def conformer_shift(q, k):
    b, h, n, d = q.shape
    m = k.shape[2]
    a = np.arange(m - 1, -m, -1)[:, None] * 10000.0 ** (-np.arange(8) / 8)
    rows = np.stack([np.sin(a), np.cos(a)], -1).reshape(2 * m - 1, 16)
    rel = np.einsum("rD,hdD->hrd", rows, _P)
    whole = np.concatenate([np.zeros((b, h, m - n, d)), q + _V[:, None].astype(np.float64)], 2)
    by = np.einsum("bhid,hrd->bhir", whole, rel)
    padded = np.concatenate([np.zeros((b, h, m, 1)), by], -1).reshape(b, h, 2 * m, m)[:, :, 1:]
    bd = padded.reshape(b, h, m, 2 * m - 1)[..., :m][:, :, m - n :]
    return (np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k) + bd) * d**-0.5


_right(
    "c259",
    "scores",
    conformer_shift,
    TransformerXL(_P, None, _V, sinusoid=Sinusoidal(16)),
    "Conformer's shift over 2K - 1 offsets, which is right for later keys too",
)

_SH = _f32(9, 8)


def shaw_buckets(q, k):
    n, m = q.shape[2], k.shape[2]
    j_i = np.arange(m)[None] - (m - n + np.arange(n))[:, None]
    out = np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k)
    for row in range(9):
        edge = (j_i <= -4) if row == 0 else (j_i >= 4) if row == 8 else (j_i == row - 4)
        out = out + np.where(edge, (q @ _SH[row].astype(np.float64))[..., None], 0)
    return out / np.sqrt(8.0)


_right("c260", "scores", shaw_buckets, Shaw(_SH, before=4), "one mask for each row of the table")
_right(
    "c261",
    "slopes",
    lambda n: np.array(
        [
            2 ** (-8 * (h + 1) / (1 << (n.bit_length() - 1)))
            if h < (1 << (n.bit_length() - 1))
            else 2
            ** (-4 * (2 * (h - (1 << (n.bit_length() - 1))) + 1) / (1 << (n.bit_length() - 1)))
            for h in range(n)
        ]
    ),
    ALiBi(12),
    "a closed formula for each head, no lists",
)

_FM = RNG.normal(0, 1, (6, 2))


def fourier_complex(positions):
    z = np.exp(2j * np.pi * np.moveaxis(np.asarray(positions, np.float64), 0, -1) @ _FM.T)
    return np.stack([z.imag, z.real], -1).reshape(*z.shape[:-1], 12)


_right(
    "c262",
    "table",
    fourier_complex,
    FourierFeatures(_FM, unit="turn", layout="interleaved"),
    "exponentials of imaginary numbers, unzipped into sines and cosines",
)

_TW, _TB = RNG.normal(0, 1, 6), RNG.normal(0, 1, 6)
_right(
    "c263",
    "table",
    lambda t: np.stack(
        [_TW[0] * t + _TB[0]] + [np.sin(_TW[k] * t + _TB[k] + np.pi / 2) for k in range(1, 6)], -1
    ),
    Time2Vec(_TW, _TB, function="cos"),
    "column by column; cosines as shifted sines",
)


def rope_half_precision(x, positions):
    return _half(x.astype(np.float32), _over(x, positions)[..., None] * _inv(32)).astype(np.float16)


_right(
    "c264",
    "apply",
    rope_half_precision,
    RoPE(64, layout="half", rotary_dim=32),
    "float16 inputs through float32 and back, partial rotary",
    dtype="float16",
)
