"""DETR's sinusoidal table over the valid pixels of a padded image."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._namespace import Array, cumulative_sum, is_array, is_lazy, namespace, to_host, widen
from .axis_sinusoids import AxisSinusoids

TWO_PI = 6.283185307179586


@dataclass(frozen=True, eq=False, repr=False)
class DETRSine(AxisSinusoids):
    """Sinusoidal position encoding of the valid part of an image, normalised by its size.

    Formula
        y and x of a pixel are the cumulative sums of ``mask`` down its column and along its row, so
        the first valid pixel has 1.  ``normalize`` replaces y by
        ``scale (y + shift) / (y_last + eps)`` and x by ``scale (x + shift) / (x_last + eps)``;
        y_last is the sum over the whole column, x_last the sum over the whole row.
        ``PE = [s(y), s(x)]`` with ``s(c)[2k] = sin(c / T**(2k/F))``,
        ``s(c)[2k + 1] = cos(c / T**(2k/F))``, F = dim/2, k < F/2.
    Source
        Carion et al. 2020, *End-to-End Object Detection with Transformers*, arXiv:2005.12872;
        facebookresearch/detr, models/position_encoding.py.  Deformable DETR has shift -0.5.
        DAB-DETR and Grounding DINO have base 20; DAB-DETR has two settings, ``temperatureH`` for y
        and ``temperatureW`` for x.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = |value|, B = ``|angle|``, which also covers the roundings of the normalised position.

    Parameters
    ----------
    dim : int
        The number of columns, a multiple of 4.
    base : float
        The temperature T.
    width_base : float, optional
        The temperature of x, if it differs.
    normalize : bool
        False is the default of DETR's class; its models pass True.
    scale : float
        The normalised position of the last valid pixel, without ``shift`` and ``eps``.  With 2 pi,
        the sine of frequency 1 runs through one whole period.
    shift, eps : float
        ``shift`` is added to the sums, ``eps`` to the denominator.
    axis_order : {"hw", "wh"}
        "hw": columns of y first (in DETR's *learned* table, x comes first).
    """

    dim: int
    _: KW_ONLY
    base: float = 10000.0
    width_base: float | None = None
    normalize: bool = True
    scale: float = TWO_PI
    shift: float = 0.0
    eps: float = 1e-6
    axis_order: str = "hw"

    axes = "hw"
    layout = "interleaved"
    first = "sin"
    denominator = "dim"

    def __post_init__(self) -> None:
        dim = validate.size("dim", self.dim, minimum=4)
        if dim % 4:
            raise ValueError(
                "dim must be a multiple of 4, because each of the 2 axes has pairs of a sine and a "
                f"cosine; got {dim}"
            )
        self._set(
            dim=dim,
            normalize=validate.boolean("normalize", self.normalize),
            scale=validate.real("scale", self.scale, above=0.0),
            shift=validate.real("shift", self.shift),
            eps=validate.real("eps", self.eps, minimum=0.0),
        )
        if self.width_base is not None:
            self._set(width_base=validate.real("width_base", self.width_base, above=1.0))
        self._check()

    def positions(self, mask: Any) -> Array:
        """Return positions (2, ..., H, W) for a mask (..., H, W) that is 1 at valid pixels.

        They have the library and device of ``mask`` (NumPy for nested lists) and are float64, or
        float32 on a device without float64. A traced mask cannot be checked: a pixel that is
        neither 0 nor 1 gives NaN positions in its column and row. With ``normalize``, a column (or
        row) without a valid pixel has position ``scale * shift / eps``; DETR masks these pixels.
        """
        mask = mask if is_array(mask) else np.asarray(mask)
        if mask.ndim < 2 or not (is_lazy(mask) or np.isin(to_host(mask), (0, 1)).all()):
            raise ValueError(
                "mask must hold 1 for valid pixels and 0 for padding, shape (..., H, W); "
                "invert the mask of torchvision's NestedTensor, which marks padding"
            )
        xp: Any = namespace(mask)
        valid = widen(mask)
        valid = xp.where((valid == 0) | (valid == 1), valid, xp.full_like(valid, float("nan")))
        y, x = (cumulative_sum(valid, axis=axis) for axis in (-2, -1))
        if self.normalize:
            y, x = self._normalized(y, y[..., -1:, :]), self._normalized(x, x[..., -1:])
        return xp.stack([y, x])

    def _normalized(self, count: Array, last: Array) -> Array:
        xp, last = namespace(count), last + self.eps
        empty = last == 0  # eps may be 0, and no pixel valid
        placed = self.scale * (count + self.shift) / xp.where(empty, xp.ones_like(last), last)
        return xp.where(empty, xp.zeros_like(placed), placed)

    def grid_positions(self, height: int, width: int) -> np.ndarray:
        """Return positions of an image without padding, (2, height * width), row by row."""
        size = (
            validate.integer("height", height, minimum=1),
            validate.integer("width", width, minimum=1),
        )
        return np.asarray(self.positions(np.ones(size, dtype=bool))).reshape(2, -1)

    def _base(self, axis: int) -> float:
        return self.base if axis == 0 or self.width_base is None else self.width_base

    def _sections(self) -> tuple[int, ...]:
        return (self.dim // 2, self.dim // 2)
