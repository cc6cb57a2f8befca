"""Rotary encodings on the surface apply: kernels, partial rotary, several axes, precision."""

import numpy as np

from posenc_ref import (
    LinearScaling,
    MixedRoPE,
    MultiAxisRoPE,
    RoPE,
    YaRN,
)

CASES = []


def _case(id, fn, encoding, key, cause, remedy, mended, surface="apply", **settings):
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


def _right(id, fn, encoding, cause, surface="apply", **settings):
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


def _over(x, positions):
    """Positions in float64 with axes that broadcast to x.shape[:-1]."""
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


def _inter(x, angles):
    z = (x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)) * np.exp(1j * angles)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape).astype(x.dtype)


# c001: a port of a kernel with a tile of 16 tokens


def _tiled(remainder_from_start):
    def rope_tiles(x, positions, BLOCK=16):
        s = x.shape[-2]
        p = np.broadcast_to(_over(x, positions), x.shape[:-1])
        y = np.empty_like(x)
        inv = _inv(64)
        for start in range(0, s, BLOCK):
            stop = min(start + BLOCK, s)
            where = p[..., start:stop]
            if remainder_from_start and stop - start < BLOCK:
                where = p[..., : stop - start]  # pid * BLOCK is not added in the masked branch
            y[..., start:stop, :] = _half(x[..., start:stop, :], where[..., None] * inv)
        return y

    return rope_tiles


_case(
    "c001",
    _tiled(True),
    RoPE(64, layout="half"),
    "tile-remainder",
    "tokens of the last, incomplete tile of 16 (only if S is not a multiple of 16) are rotated by the "
    "positions of the first tokens of the sequence instead of their own",
    "add the tile's start to the index in the remainder branch",
    _tiled(False),
)

# c002: pairs in vectors of four


def _lanes(shift):
    def rope_simd(x, positions):
        p, d = _over(x, positions), x.shape[-1]
        y = np.empty_like(x)
        for v in range(0, d // 2, 4):
            k = np.arange(v, v + 4)
            last = v + 4 == d // 2
            theta = 10000.0 ** (-2.0 * (k + (1 if last and shift else 0)) / d)
            a = p[..., None] * theta
            c, s = np.cos(a), np.sin(a)
            even, odd = x[..., 2 * k].astype(np.float64), x[..., 2 * k + 1].astype(np.float64)
            y[..., 2 * k] = even * c - odd * s
            y[..., 2 * k + 1] = even * s + odd * c
        return y

    return rope_simd


_case(
    "c002",
    _lanes(True),
    RoPE(128, layout="interleaved"),
    "last-vector-frequency",
    "the last vector of four pairs (60..63) has the frequencies of pairs 61..64: the exponent is one "
    "step too far there",
    "use k, not k + 1, in the last vector",
    _lanes(False),
)

# c003, c004: partial rotary


def _partial(dim_of_exponent):
    def apply_rotary_partial(x, positions):
        inv = 10000.0 ** (-np.arange(0, 32, 2) / dim_of_exponent)
        return _half(x, _over(x, positions)[..., None] * inv)

    return apply_rotary_partial


_case(
    "c003",
    _partial(96),
    RoPE(96, layout="half", rotary_dim=32),
    "exponent-of-head",
    "partial rotary: the exponents divide by head_dim = 96 instead of rotary_dim = 32, so all "
    "frequencies but the first are too high",
    "divide by rotary_dim",
    _partial(32),
)


def _trailing(pairs):
    def rotate_tail(x, positions):
        out = x.copy()
        p = _over(x, positions)
        for k in range(pairs):
            a = p * 10000.0 ** (-k / 24)
            i, j = 48 + k, 48 + 24 + k
            u, w = x[..., i].astype(np.float64), x[..., j].astype(np.float64)
            out[..., i] = u * np.cos(a) - w * np.sin(a)
            out[..., j] = w * np.cos(a) + u * np.sin(a)
        return out

    return rotate_tail


_case(
    "c004",
    _trailing(23),
    RoPE(96, layout="half", rotary_dim=48, rotary_start=48),
    "last-pair-skipped",
    "the loop over pairs ends one early: the slowest pair (channels 71 and 95) is not rotated",
    "loop over rotary_dim // 2 pairs",
    _trailing(24),
)

# c005 .. c007: integer and float types of positions


def _typed(cast, base, layout):
    def rope_typed(x, positions):
        p = np.asarray(positions).astype(cast).astype(np.float64)
        p = _over(x, p)
        f = _half if layout == "half" else _inter
        return f(x, p[..., None] * _inv(x.shape[-1], base))

    return rope_typed


_case(
    "c005",
    _typed(np.uint16, 500000.0, "interleaved"),
    RoPE(64, layout="interleaved", base=500000.0),
    "uint16-positions",
    "positions are stored in 16 unsigned bits: from 65536 on they start at 0 again "
    "(and negative ones are wrapped)",
    "keep positions in 32 or 64 bits",
    _typed(np.int64, 500000.0, "interleaved"),
)
_case(
    "c006",
    _typed(np.float32, 10000.0, "half"),
    RoPE(80, layout="half"),
    "float32-positions",
    "with float64 inputs positions go through float32, so odd positions above 2**24 are rounded to "
    "even ones",
    "convert positions to float64",
    _typed(np.int64, 10000.0, "half"),
    dtype="float64",
)
_case(
    "c007",
    _typed(np.int32, 10000.0, "half"),
    RoPE(64, layout="half"),
    "int32-positions",
    "positions are cast to int32: from 2**31 on they become negative",
    "keep int64",
    _typed(np.int64, 10000.0, "half"),
)

# c008: heads


def _heads(most):
    def rope_head_loop(x, positions):
        y = x.copy()
        angles = _over(x, positions)[..., None] * _inv(64)
        count = x.shape[1] if x.ndim == 4 else 1
        if x.ndim < 4:
            return _half(x, angles)
        a = np.broadcast_to(angles, (*x.shape[:3], 32))
        for h in range(min(count, most)):
            y[:, h] = _half(x[:, h], a[:, h])
        return y

    return rope_head_loop


_case(
    "c008",
    _heads(8),
    RoPE(64, layout="half"),
    "heads-from-8-unrotated",
    "the launch covers eight heads only: heads 8, 9, ... keep their unrotated values",
    "loop over all heads",
    _heads(10**9),
)

# c009: rows of the batch, c010: single tokens, c011: memory order


def rope_row_zero(x, positions):
    p = np.asarray(positions, np.float64)
    if p.ndim > 1:
        p = p.reshape(-1, p.shape[-1])[0]
    return _inter(x, p[:, None] * _inv(64))


def rope_every_row(x, positions):
    return _inter(x, _over(x, positions)[..., None] * _inv(64))


_case(
    "c009",
    rope_row_zero,
    RoPE(64, layout="interleaved"),
    "row-0-positions",
    "the positions of batch row 0 are used for every row of the batch",
    "use the positions of each row",
    rope_every_row,
)


def _single(sign):
    def rope_decode_path(x, positions):
        angles = _over(x, positions)[..., None] * _inv(64, 1e6)
        if x.shape[-2] == 1:
            angles = sign * angles
        return _half(x, angles)

    return rope_decode_path


_case(
    "c010",
    _single(-1),
    RoPE(64, layout="half", base=1e6),
    "single-token-sign",
    "the path for a single token (S = 1) rotates in the opposite direction, by -angle",
    "same sign as in the path for several tokens",
    _single(1),
)


def _memory(order):
    def rope_flat_buffer(x, positions):
        flat = x.ravel(order=order).reshape(x.shape)  # the kernel reads the raw buffer
        return _inter(flat, _over(x, positions)[..., None] * _inv(64))

    return rope_flat_buffer


_case(
    "c011",
    _memory("K"),
    RoPE(64, layout="interleaved"),
    "memory-order",
    "a non-contiguous x is read in the order of its memory instead of its axes, so channels and tokens "
    "are mixed up",
    "make x contiguous (ravel order C)",
    _memory("C"),
)

# c012, c013: half precision


def _in_dtype(low):
    def rope_fp16(x, positions):
        if low:
            p = _over(x, positions).astype(x.dtype)
            a = (p[..., None] * _inv(64).astype(x.dtype)).astype(x.dtype).astype(np.float64)
        else:
            a = _over(x, positions)[..., None] * _inv(64)
        return _half(x, a)

    return rope_fp16


_case(
    "c012",
    _in_dtype(True),
    RoPE(64, layout="half"),
    "float16-angles",
    "positions, frequencies and angles are computed in x's float16, whose rounding of an angle grows "
    "with the position",
    "compute angles in float32",
    _in_dtype(False),
    dtype="float16",
)


def _torch_buffer(cast):
    def rope_module_bf16(x, positions):
        import torch

        inv = 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
        if cast:
            inv = inv.to(torch.bfloat16)  # module.to(torch.bfloat16) took the buffer along
        p = torch.as_tensor(positions).to(torch.float64)
        while 1 < p.ndim < x.ndim - 1:
            p = p.unsqueeze(1)
        a = p[..., None] * inv.to(torch.float64)
        cos, sin = torch.cat([a.cos()] * 2, -1), torch.cat([a.sin()] * 2, -1)
        wide = x.to(torch.float64)
        turned = torch.cat([-wide[..., 32:], wide[..., :32]], -1)
        return (wide * cos + turned * sin).to(x.dtype)

    return rope_module_bf16


_case(
    "c013",
    _torch_buffer(True),
    RoPE(64, layout="half"),
    "bfloat16-inv-freq",
    "the frequencies are rounded to bfloat16 (the inv_freq buffer was cast with the module), a relative "
    "error of up to 0.4 % in the angle",
    "keep inv_freq in float32",
    _torch_buffer(False),
    backend="torch",
    dtype="bfloat16",
)

# c014: YaRN, m on cos alone

_YARN = YaRN(4.0, 4096)
_YF = RoPE(64, layout="half", scaling=_YARN).frequencies()
_YM = 0.1 * np.log(4.0) + 1


def _mcos(msin):
    def rope_yarn(x, positions):
        a = _over(x, positions)[..., None] * _YF
        c, s = _YM * np.cos(a), msin * np.sin(a)
        u, w = x[..., :32].astype(np.float64), x[..., 32:].astype(np.float64)
        return np.concatenate([u * c - w * s, w * c + u * s], -1).astype(x.dtype)

    return rope_yarn


_case(
    "c014",
    _mcos(1.0),
    RoPE(64, layout="half", scaling=_YARN),
    "m-on-cos-alone",
    "YaRN's attention factor m = 1.1386 multiplies cos but not sin",
    "multiply sin by m as well",
    _mcos(_YM),
)

# c015: linear scaling by whole numbers


def _interpolated(whole):
    def rope_pi(x, positions):
        p = np.asarray(positions)
        p = p // 8 if whole else p / 8
        return _half(x, _over(x, p)[..., None] * _inv(128, 1e6))

    return rope_pi


_case(
    "c015",
    _interpolated(True),
    RoPE(128, layout="half", base=1e6, scaling=LinearScaling(8.0)),
    "floored-interpolation",
    "position interpolation divides positions by 8 with integer division, so eight neighbouring tokens "
    "have the same angle",
    "divide in floating point",
    _interpolated(False),
)

# c016 .. c020: several axes


def _axes_over(x, positions):
    p = np.asarray(positions, np.float64)
    if p.ndim == 1:
        return p
    if p.ndim == 3:
        p = p[:, :, None] if x.ndim == 4 else p
    return p


def _axial(second):
    def rope_axial(x, positions):
        p = _axes_over(x, positions)
        py, px = (p, p) if p.ndim == 1 else (p[0], p[1])
        first = 100.0 ** (-np.arange(16) / 16)
        other = 100.0 ** (-(np.arange(16) + second) / 16)
        return _inter(x, np.concatenate([py[..., None] * first, px[..., None] * other], -1))

    return rope_axial


_case(
    "c016",
    _axial(8),
    MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart", base=100.0),
    "second-axis-does-not-restart",
    "the exponents of the second axis (columns) start at 8/16 instead of 0, so its frequencies are all "
    "ten times too low",
    "restart the exponents at 0 for each axis",
    _axial(0),
)


def _mrope_hf(numeric):
    def apply_multimodal_rotary_pos_emb(x, positions):
        p = _axes_over(x, positions)
        if p.ndim == 1:
            p = np.stack([p] * 3)
        inv = _inv(128, 1e6)
        emb = np.concatenate([p[..., None] * inv] * 2, -1)  # (3, ..., 128)
        sections = [2 * n for n in (16, 24, 24)] if numeric else [16, 24, 24] * 2
        cut = np.split(emb, np.cumsum(sections)[:-1], axis=-1)
        angle = np.concatenate([part[i % 3] for i, part in enumerate(cut)], -1)
        c, s = np.cos(angle), np.sin(angle)
        turned = np.concatenate([-x[..., 64:], x[..., :64]], -1)
        return (x * c + turned * s).astype(x.dtype)

    return apply_multimodal_rotary_pos_emb


_case(
    "c017",
    _mrope_hf(True),
    MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6),
    "doubled-sections",
    "mrope_section * 2 multiplies the numbers (32, 48, 48) where the list should be repeated (16, 24, 24, "
    "16, 24, 24), so the two channels of a pair follow different axes",
    "repeat the list of sections",
    _mrope_hf(False),
)


def _interleaved_mrope(bounded):
    def rope_qwen3vl(x, positions):
        p = _axes_over(x, positions)
        if p.ndim == 1:
            p = np.stack([p] * 3)
        axis = np.arange(64) % 3
        if bounded:
            axis[60:] = 0
        angles = np.stack([p[a] * 1e4 ** (-k / 64) for k, a in enumerate(axis)], -1)
        return _half(x, angles)

    return rope_qwen3vl


_case(
    "c018",
    _interleaved_mrope(False),
    MultiAxisRoPE(128, sections=(24, 20, 20), layout="half", arrangement="interleaved"),
    "interleave-unbounded",
    "interleaved M-RoPE takes the axis k % 3 for all pairs: pairs 61 and 62 follow height and width, but "
    "the 20 pairs of these axes end at pair 59 and the rest is time",
    "stop after 3 * 20 pairs",
    _interleaved_mrope(True),
)


def _block(order):
    def rope_blocks(x, positions):
        p = _axes_over(x, positions)
        if p.ndim == 1:
            p = np.stack([p, p])
        inv = 100.0 ** (-np.arange(16) / 16)
        parts = []
        for b in range(2):
            parts.append(_half(x[..., 32 * b : 32 * b + 32], p[order[b]][..., None] * inv))
        return np.concatenate(parts, -1)

    return rope_blocks


_case(
    "c019",
    _block((1, 0)),
    MultiAxisRoPE(64, sections=(16, 16), layout="blockwise", spacing="restart", base=100.0),
    "axes-exchanged",
    "the first block of 32 channels is rotated by the column and the second by the row: height and width "
    "are exchanged",
    "rotate block 0 by positions[0]",
    _block((0, 1)),
)

_MIX = np.random.default_rng(11).normal(0, 0.4, (2, 16))


def _mixed(weight):
    def rope_mixed(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p, p])
        a = np.einsum("a...,ap->...p", p, weight)
        if a.ndim == 3 and x.ndim == 4:
            a = a[:, None]
        return _half(x, a)

    return rope_mixed


_case(
    "c020",
    _mixed(_MIX.reshape(16, 2).T),
    MixedRoPE(32, _MIX, layout="half"),
    "reshape-for-transpose",
    "the learned frequencies (2, 16) are read as (16, 2): a reshape and transpose give pair j the entries "
    "2j and 2j + 1 of the flattened array, not weight[:, j]",
    "use weight as it is, axis first",
    _mixed(_MIX),
)

# c021 .. c024: fixed point, range reduction, contiguous positions, tensor layout


def _phase(bits):
    def rope_fixed_point(x, positions):
        turns = _over(x, positions)[..., None] * _inv(64) / (2 * np.pi)
        if bits:
            turns = np.floor(turns * 2.0**bits) / 2.0**bits
        return _inter(x, 2 * np.pi * turns)

    return rope_fixed_point


_case(
    "c021",
    _phase(12),
    RoPE(64, layout="interleaved"),
    "12-bit-phase",
    "angles are truncated to 12 bits of a turn (fixed point): an error of up to 0.0015 radians at every "
    "position",
    "keep the phase in float32",
    _phase(0),
)


def _reduced(two_pi):
    def rope_range_reduced(x, positions):
        a = _over(x, positions)[..., None] * _inv(64)
        return _half(x, a - np.rint(a / two_pi) * two_pi)

    return rope_range_reduced


_case(
    "c022",
    _reduced(2 * 3.1416),
    RoPE(64, layout="half"),
    "pi-five-digits",
    "the range reduction subtracts multiples of 2 * 3.1416: every full turn adds an error of 1.5e-5 to the "
    "angle, so it grows with the position",
    "use full-precision 2 pi",
    _reduced(2 * np.pi),
)


def _gaps(assume):
    def rope_from_first(x, positions):
        p = np.asarray(positions, np.float64)
        if assume:
            p = p[..., :1] + np.arange(p.shape[-1])
        return _half(x, _over(x, p)[..., None] * _inv(64))

    return rope_from_first


_case(
    "c023",
    _gaps(True),
    RoPE(64, layout="half"),
    "contiguous-positions",
    "only the first position of a sequence is read; later tokens are counted on from it, so gaps, repeats "
    "and any other order of positions are ignored",
    "read the position of every token",
    _gaps(False),
)


def _back(transpose):
    def rope_bshd(x, positions):
        t = np.ascontiguousarray(x.transpose(0, 2, 1, 3))
        y = _half(t, _over(t, positions)[..., None] * _inv(64))
        return y.transpose(0, 2, 1, 3) if transpose else y.reshape(x.shape)

    return rope_bshd


_case(
    "c024",
    _back(False),
    RoPE(64, layout="half"),
    "reshape-back",
    "after rotating in (B, H, S, D) the result is brought back to (B, S, H, D) by a reshape instead of a "
    "transpose, so tokens and heads are mixed up",
    "transpose back",
    _back(True),
    tensor_layout="bshd",
)

# right ones


def rope_block_matrix(x, positions):
    p = np.broadcast_to(_over(x, positions), x.shape[:-1])
    inv = _inv(16)
    m = np.zeros((*p.shape, 16, 16))
    for k in range(8):
        c, s = np.cos(p * inv[k]), np.sin(p * inv[k])
        m[..., 2 * k, 2 * k], m[..., 2 * k, 2 * k + 1] = c, -s
        m[..., 2 * k + 1, 2 * k], m[..., 2 * k + 1, 2 * k + 1] = s, c
    return np.einsum("...ij,...j->...i", m, x.astype(np.float64)).astype(x.dtype)


_right(
    "c025",
    rope_block_matrix,
    RoPE(16, layout="interleaved"),
    "block-diagonal matrices, one for every token, multiplied out by einsum",
)


def rope_deepseek(x, positions):
    halves = np.concatenate([x[..., 0::2], x[..., 1::2]], -1)
    return _half(halves, _over(x, positions)[..., None] * _inv(64))


_right(
    "c026",
    rope_deepseek,
    RoPE(64, layout="interleaved"),
    "reads interleaved pairs and writes half-split ones (DeepSeek-V3 in transformers): every logit agrees",
)


def rope_three_shears(x, positions):
    a = _over(x, positions)[..., None] * _inv(64, 1e4)
    a = a - 2 * np.pi * np.rint(a / (2 * np.pi))
    flip = np.where(np.abs(a) > np.pi / 2, -1.0, 1.0)
    a = np.where(flip < 0, a - np.sign(a) * np.pi, a)
    t, s = np.tan(a / 2), np.sin(a)
    u, w = x[..., :32].astype(np.float64), x[..., 32:].astype(np.float64)
    u = u - t * w
    w = w + s * u
    u = u - t * w
    return (np.concatenate([flip * u, flip * w], -1)).astype(x.dtype)


_right(
    "c027",
    rope_three_shears,
    RoPE(64, layout="half"),
    "rotation as three shears (lifting), with a half turn",
)


class TorchRope:
    def __init__(self):
        self.table = None

    def __call__(self, x, positions):
        import torch

        if self.table is None:
            self.table = 10000.0 ** (-torch.arange(0, 32, 2, dtype=torch.float64) / 32)
        p = torch.as_tensor(positions).to(torch.float64)
        while 1 < p.ndim < x.ndim - 1:
            p = p.unsqueeze(1)
        rot = torch.polar(torch.ones((), dtype=torch.float64), p[..., None] * self.table)
        head, rest = x[..., :32].to(torch.float64), x[..., 32:]
        z = torch.view_as_complex(head.unflatten(-1, (-1, 2)).contiguous()) * rot
        return torch.cat([torch.view_as_real(z).flatten(-2).to(x.dtype), rest], -1)


_right(
    "c028",
    TorchRope(),
    RoPE(48, layout="interleaved", rotary_dim=32),
    "torch complex numbers in bfloat16, partial rotary, frequencies kept on self",
    backend="torch",
    dtype="bfloat16",
)
