"""Rotate a run of pairs of a CUDA tensor in one launch: each element is read and written once.

In half precision, torch operations take six launches and move eight times the bytes.  Imported only
for CUDA tensors, and only if Triton is installed; torch's CUDA wheels depend on it.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

Tensor = Any

#: Pairs that one program rotates; more if one token of one head has more.
_PAIRS = 1024
_HEADS = 4


# Triton evaluates annotations on the device, so only Triton's own types may be used here.
@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _kernel(  # type: ignore[no-untyped-def]
    x, out, factor, sign, heads, rows, pairs, part, xb, xh, xs, xd, ob, oh, os, od, fb, fh, fs,
    HEADS: tl.constexpr, ROWS: tl.constexpr, PAIRS: tl.constexpr, SHARED: tl.constexpr,
    SIDE_BY_SIDE: tl.constexpr,
):  # fmt: skip
    # Offsets of large arrays need 64 bits, those of channels too.
    place = tl.program_id(0).to(tl.int64)
    blocks = tl.cdiv(heads, HEADS)
    h = (place % blocks * HEADS + tl.arange(0, HEADS))[:, None, None]
    place = place // blocks
    blocks = tl.cdiv(rows, ROWS)
    s = (place % blocks * ROWS + tl.arange(0, ROWS))[None, :, None]
    b = place // blocks
    table = factor + (b * fb + s * fs)
    known = s < rows
    inside = known & (h < heads)
    if not SHARED:
        table = table + h * fh
        known = inside
    x_row = x + (b * xb + h * xh + s * xs)
    out_row = out + (b * ob + h * oh + s * os)
    if SIDE_BY_SIDE:
        d = tl.arange(0, 2 * PAIRS).to(tl.int64)[None, None, :]
        some: tl.constexpr = 1 if SHARED else HEADS
        both = tl.load(table + d, mask=known & (d < 2 * pairs), other=0.0)
        c, n = tl.split(tl.reshape(both, [some, ROWS, PAIRS, 2]))
        n = n * sign
        inside = inside & (d < 2 * pairs)
        given = tl.load(x_row + d * xd, mask=inside, other=0.0).to(c.dtype)
        x1, x2 = tl.split(tl.reshape(given, [HEADS, ROWS, PAIRS, 2]))
        y = tl.reshape(tl.join(x1 * c - x2 * n, x2 * c + x1 * n), [HEADS, ROWS, 2 * PAIRS])
        tl.store(out_row + d * od, y.to(out.dtype.element_ty), mask=inside)
    else:
        j = tl.arange(0, PAIRS).to(tl.int64)[None, None, :]
        c = tl.load(table + j, mask=known & (j < pairs), other=0.0)
        n = tl.load(table + (j + part), mask=known & (j < pairs), other=0.0) * sign
        inside = inside & (j < pairs)
        x1 = tl.load(x_row + j * xd, mask=inside, other=0.0).to(c.dtype)
        x2 = tl.load(x_row + (j + pairs) * xd, mask=inside, other=0.0).to(c.dtype)
        tl.store(out_row + j * od, (x1 * c - x2 * n).to(out.dtype.element_ty), mask=inside)
        y2 = (x2 * c + x1 * n).to(out.dtype.element_ty)
        tl.store(out_row + (j + pairs) * od, y2, mask=inside)


def rotate_run(x: Tensor, factor: Tensor, interleaved: bool, inverse: bool, out: Tensor) -> None:
    """Rotate ``x`` (..., S, 2 pairs) into ``out``, which is x itself or does not overlap x.

    ``factor`` holds cos and sin: (..., S, pairs, 2) if ``interleaved``, (2, ..., S, pairs) for
    halves.  Each program reads its part of x before it writes.
    """
    if x.numel() == 0:
        return
    cos = factor[..., 0] if interleaved else factor[0]
    while cos.ndim > 2 and cos.ndim < x.ndim:
        cos = cos[None]
    _launch(
        x, cos.expand(*x.shape[:-1], cos.shape[-1]), factor.stride(0), interleaved, inverse, out
    )


def _launch(
    x: Tensor, cos: Tensor, part: int, interleaved: bool, inverse: bool, out: Tensor
) -> None:
    """Launch the kernel; for halves, each sine lies ``part`` elements after its cosine."""
    if x.ndim > 4:
        for i in range(x.shape[0]):
            _launch(x[i], cos[i], part, interleaved, inverse, out[i])
        return
    while x.ndim < 4:
        x, cos, out = x[None], cos[None], out[None]
    batch, heads, rows, width = x.shape
    pairs = width // 2
    most = triton.next_power_of_2(pairs)
    together = min(_HEADS, triton.next_power_of_2(heads))
    tall = max(1, _PAIRS // (most * together))
    grid = (triton.cdiv(heads, together) * triton.cdiv(rows, tall) * batch,)
    with torch.cuda.device_of(x):
        _kernel[grid](
            x, out, cos, -1.0 if inverse else 1.0, heads, rows, pairs, part,
            *x.stride(), *out.stride(), *cos.stride()[:3],
            HEADS=together, ROWS=tall, PAIRS=most,
            SHARED=cos.stride(1) == 0 or heads == 1, SIDE_BY_SIDE=interleaved,
        )  # fmt: skip
