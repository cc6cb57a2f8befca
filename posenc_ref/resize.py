"""Resize a learned table of image positions to another grid, as models do at new resolutions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers
from ._namespace import Array, astype, device_of, namespace, send, working_dtype
from ._text import shown

MODES = ("bicubic", "bilinear", "nearest")
Kernel = Callable[[Fraction], Fraction]


def resize_matrix(
    size: int,
    new_size: int,
    *,
    mode: str = "bicubic",
    antialias: bool = False,
    align_corners: bool = False,
    scale: float | None = None,
) -> np.ndarray:
    """Return the interpolation matrix of one axis: the weight of each old point at each new point.

    Formula
        New point i lies at ``c = (i + 1/2) r - 1/2``, with ``r = size/new_size`` or ``1/scale``;
        with ``align_corners`` at ``c = i (size - 1)/(new_size - 1)``.
        "bicubic": ``w_j = k(c - j)`` for the four nearest j.  An index j outside the old points is
        clamped to the first or last one.  ``k(t)`` is Keys' kernel with a = -3/4: ``(a+2)|t|^3 -
        (a+3)t^2 + 1`` for |t| <= 1, and ``a|t|^3 - 5a t^2 + 8a|t| - 4a`` for 1 < |t| < 2.
        "bilinear": the same with ``k(t) = 1 - |t|``, the two nearest j, and c clamped to at least
        0.  "nearest": the only weight is at ``j = floor(i r)``.
        ``antialias``: ``w_j`` is proportional to ``k((c - j)/max(r, 1))`` for all old points j, and
        the weights of a new point sum to 1.  In the bicubic kernel a is then -1/2.
    Source
        Keys 1981, *Cubic convolution interpolation for digital image processing*; PyTorch,
        ``UpSampleKernel.cpp`` (a = -3/4, and with antialiasing a = -1/2 as in PIL).

    Parameters
    ----------
    size, new_size : int
        Number of old and new points, at least 1.
    mode : {"bicubic", "bilinear", "nearest"}
    antialias, align_corners : bool
        Not both, and neither with "nearest".
    scale : float, optional
        PyTorch's ``scale_factor``; None means ``new_size/size``.  DINO passes
        ``(new_size + 0.1)/size``.

    Returns
    -------
    float64 array, shape (new_size, size)
        Every weight is computed in rational numbers, then rounded once.  Rows sum to 1.

    Raises
    ------
    TypeError, ValueError
        A size is below 1, the mode is unknown, or options are combined that exclude each other:
        ``align_corners`` with ``antialias`` or ``scale``, or "nearest" with ``align_corners`` or
        ``antialias``.
    """
    size = validate.integer("size", size, minimum=1)
    new_size = validate.integer("new_size", new_size, minimum=1)
    validate.choice("mode", mode, MODES, {"linear": "bilinear", "cubic": "bicubic"})
    antialias = validate.boolean("antialias", antialias)
    if validate.boolean("align_corners", align_corners) and (antialias or scale is not None):
        raise ValueError("align_corners must be False with antialias=True or scale=")
    if mode == "nearest" and (antialias or align_corners):
        raise ValueError("antialias and align_corners must be False with mode 'nearest'")
    validate.elements("the matrix", (new_size, size))
    ratio = Fraction(size, new_size)
    if scale is not None:
        ratio = 1 / Fraction(validate.real("scale", scale, above=0.0))
    weights = np.zeros((new_size, size), dtype=object)
    for i in range(new_size):
        if align_corners:
            centre = Fraction(i * (size - 1), new_size - 1) if new_size > 1 else Fraction(0)
        else:
            centre = (i + Fraction(1, 2)) * ratio - Fraction(1, 2)
        if mode == "nearest":
            taps = {min(math.floor(i * ratio), size - 1): Fraction(1)}
        elif antialias:
            taps = _smoothed(centre, max(ratio, Fraction(1)), size, mode)
        else:
            taps = _interpolated(centre, size, mode)
        for j, weight in taps.items():
            weights[i, j] += weight
    return weights.astype(np.float64)


def resize_table(
    weight: Array,
    grid: Sequence[int],
    new_grid: Sequence[int],
    *,
    kept: int = 0,
    mode: str = "bicubic",
    antialias: bool = False,
    align_corners: bool = False,
    scale: Sequence[float] | None = None,
) -> Array:
    """Return a learned table of patch positions, interpolated to another grid.

    Formula
        ``new[y', x'] = sum over y, x of H[y', y] W[x', x] old[y, x]``, where H and W are the
        matrices of :func:`resize_matrix`.
    Source
        transformers, ``interpolate_pos_encoding`` of ViT, DeiT, CLIP, DINOv2 (bicubic), DINOv2 with
        registers (antialiased), DPT (bilinear).  Computed in float64 and rounded once.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = the sum of the absolute values of the terms, B = ``(|c_y| + 1) + (|c_x| + 1)`` times the
        sum of ``|old|`` over the points that the kernel covers.  c is the coordinate of the new
        point, as in :func:`resize_matrix`; B allows for float32 coordinates, which change the
        weights.

    Parameters
    ----------
    weight : array, shape (kept + product of grid, dim)
    grid, new_grid : (int,) or (int, int)
        Length, or height and width, in patches.
    kept : int
        The number of leading rows that belong to no patch (CLS, registers); they are not changed.
    mode, antialias, align_corners
        As for :func:`resize_matrix`.
    scale : sequence of float, optional
        One for each axis.

    Returns
    -------
    array like weight, shape (kept + product of new_grid, dim)

    Raises
    ------
    TypeError, ValueError
        ``weight`` does not have ``kept`` + product of ``grid`` rows, or an argument is out of
        range.
    """
    check_numbers("weight", weight, "rows", "dim")
    old, new = _grid("grid", grid), _grid("new_grid", new_grid)
    kept = validate.integer("kept", kept, minimum=0)
    if len(old) != len(new) or (scale is not None and len(scale) != len(old)):
        raise ValueError(
            f"grid, new_grid and scale must have the same number of axes, got {old}, {new} and "
            f"{scale}"
        )
    rows, dim = weight.shape
    if rows != kept + math.prod(old):
        raise ValueError(
            f"weight must have kept + {' * '.join(map(str, old))} = {kept + math.prod(old)} rows, "
            f"got {rows}"
        )
    xp: Any = namespace(weight)
    factors = [None] * len(old) if scale is None else list(scale)
    table = astype(weight[kept:, :], working_dtype(weight))
    table = xp.reshape(table, (*old, dim))
    for axis, (n, m, factor) in enumerate(zip(old, new, factors, strict=True)):
        matrix = resize_matrix(
            n, m, mode=mode, antialias=antialias, align_corners=align_corners, scale=factor
        )
        here = astype(send(matrix, xp, device_of(weight)), table.dtype)
        table = xp.moveaxis(xp.tensordot(here, table, axes=((1,), (axis,))), 0, axis)
    table = astype(xp.reshape(table, (math.prod(new), dim)), weight.dtype)
    return xp.concat([weight[:kept, :], table], axis=0)


def _grid(name: str, sizes: Any) -> tuple[int, ...]:
    if not isinstance(sizes, tuple | list) or len(sizes) not in (1, 2):
        raise TypeError(f"{name} must be (length,) or (height, width), got {shown(sizes)}")
    return tuple(validate.integer(name, size, minimum=1) for size in sizes)


def _kernel(mode: str, a: Fraction) -> tuple[Kernel, int]:
    """Return the kernel of the mode, and the largest distance at which it is not 0."""

    def linear(t: Fraction) -> Fraction:
        return max(1 - abs(t), Fraction(0))

    def cubic(t: Fraction) -> Fraction:
        t = abs(t)
        if t <= 1:
            return (a + 2) * t**3 - (a + 3) * t**2 + 1
        return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else Fraction(0)

    return (linear, 1) if mode == "bilinear" else (cubic, 2)


def _interpolated(centre: Fraction, size: int, mode: str) -> dict[int, Fraction]:
    kernel, reach = _kernel(mode, Fraction(-3, 4))
    if mode == "bilinear":
        centre = max(centre, Fraction(0))
    taps: dict[int, Fraction] = {}
    for j in range(math.floor(centre) - reach + 1, math.floor(centre) + reach + 1):
        inside = min(max(j, 0), size - 1)
        taps[inside] = taps.get(inside, Fraction(0)) + kernel(centre - j)
    return taps


def _smoothed(centre: Fraction, stretch: Fraction, size: int, mode: str) -> dict[int, Fraction]:
    kernel, reach = _kernel(mode, Fraction(-1, 2))
    first = max(math.floor(centre - reach * stretch) + 1, 0)
    last = min(math.ceil(centre + reach * stretch) - 1, size - 1)
    taps = {j: kernel((centre - j) / stretch) for j in range(first, last + 1)}
    total = sum(taps.values())
    return {j: weight / total for j, weight in taps.items()}
