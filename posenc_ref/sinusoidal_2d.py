"""Sinusoidal tables for two and three axes: images and videos."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._text import shown
from .axis_sinusoids import AxisSinusoids
from .vision_positions import grid_positions, linspace_positions


@dataclass(frozen=True, eq=False, repr=False)
class Sinusoidal2D(AxisSinusoids):
    """Sinusoidal position encoding of image patches: half the columns for each axis.

    Formula
        ``omega_k = base ** (-k/n)``, k < dim/4, n = dim/4 or dim/4 - 1 by ``denominator``;
        ``PE(y, x) = [sin(y omega), cos(y omega), sin(x omega), cos(x omega)]`` for ``axis_order``
        "hw" and ``layout`` "concat".  So each column has the angle of one axis.
    Source
        Chen et al. 2021, *An Empirical Study of Training Self-Supervised Vision Transformers*
        (MoCo v3), arXiv:2104.02057: ``axis_order="wh"``, ``denominator="half-1"``.  He et al. 2021,
        *Masked Autoencoders*, arXiv:2111.06377: ``axis_order="wh"``; the code, which diffusers
        (DiT, PixArt, SD3) copied, calls the columns of the width ``emb_h``.  RT-DETR in
        transformers: ``axis_order="hw"``.  timm's ``build_sincos2d_pos_embed``:
        ``axis_order="hw"``, ``layout="grouped"``.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = |value|, B = ``|angle| |scale|``.

    Parameters
    ----------
    dim : int
        The number of columns, a multiple of 4.
    axis_order : {"hw", "wh"}
        "hw": the first dim/2 columns are those of the height, the others those of the width.  "wh":
        the reverse.  Positions are always (height, width).
    layout : {"concat", "interleaved", "grouped"}
        "concat": the sines of an axis come before the cosines of that axis.  "interleaved": the
        sine and the cosine of a pair are adjacent columns.  "grouped": the sines of both axes come
        before the cosines of both.
    first : {"sin", "cos"}
        "cos" exchanges sines and cosines in ``layout``.
    base : float
    denominator : {"dim", "half-1"} or float
        "dim" means n = dim/4, "half-1" means n = dim/4 - 1, and a number is n itself.
    offset, position_scale, scale : float
        As in :class:`Sinusoidal`.
    extent : float, optional
        The length of both axes for ``grid``: patch i of n is at position ``i extent / n`` instead
        of i, so the rows depend on the size of the image.  In diffusers,
        ``base_size / interpolation_scale``.
    flatten : {"rows", "columns"}
        The order of the patches for ``grid``: row by row, or column by column.  OmDet-Turbo
        flattens by columns, but its tokens are row by row: if the image is not square, tokens get
        the positions of other patches.
    """

    dim: int
    _: KW_ONLY
    axis_order: str = "hw"
    layout: str = "concat"
    first: str = "sin"
    base: float = 10000.0
    denominator: str | float = "dim"
    offset: float = 0
    position_scale: float = 1.0
    scale: float = 1.0
    extent: float | None = None
    flatten: str = "rows"

    axes = "hw"

    def __post_init__(self) -> None:
        dim = validate.size("dim", self.dim, minimum=4)
        if dim % 4:
            raise ValueError(
                "dim must be a multiple of 4, because each of the 2 axes has pairs of a sine and a "
                f"cosine; got {dim}"
            )
        self._set(dim=dim)
        self._check()
        one, extent = self.parts()[0][1], self.extent
        self._set(
            offset=one.offset,
            position_scale=one.position_scale,
            scale=one.scale,
            extent=None if extent is None else validate.real("extent", extent, above=0.0),
            flatten=validate.choice(
                "flatten", self.flatten, ("rows", "columns"), {"ij": "rows", "xy": "columns"}
            ),
        )

    def grid_positions(self, height: int, width: int) -> np.ndarray:
        """Return row and column of every patch, (2, height * width), in the order ``flatten``."""
        if self.extent is None:
            grid = grid_positions(height, width)
        else:
            grid = linspace_positions(height, width, stop=(self.extent, self.extent))
        if self.flatten == "columns":
            grid = grid.reshape(2, height, width).swapaxes(1, 2).reshape(2, -1)
        return grid

    def _sections(self) -> tuple[int, ...]:
        return (self.dim // 2, self.dim // 2)

    def _of_axis(self) -> dict[str, Any]:
        return {
            "offset": self.offset, "position_scale": self.position_scale, "scale": self.scale,
        }  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Sinusoidal3D(AxisSinusoids):
    """Sinusoidal position encoding of the patches of a video.

    Formula
        A sinusoidal table for each of time, height and width, concatenated; the exponent of pair k
        of an axis of ``s`` columns is k/n with n = s/2 or s/2 - 1 by ``denominator``.
    Source
        diffusers, ``get_3d_sincos_pos_embed`` (CogVideoX): ``sections=(d/4, 3d/8, 3d/8)``,
        ``axis_order="twh"``.  tatp22/multidim-positional-encoding: three equal ``sections``,
        ``layout="interleaved"``.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = |value|, B = ``|angle| |scale|``.

    Parameters
    ----------
    sections : (int, int, int)
        The numbers of columns for time, height and width, all even. Their sum is ``dim``.
    axis_order : str
        The axes in the order of their columns: a permutation of "thw".  Positions are always (time,
        height, width), as :func:`grid_positions` returns them with ``frames``.
    layout, first, base, denominator
        As in :class:`Sinusoidal2D`.
    """

    sections: tuple[int, int, int]
    _: KW_ONLY
    axis_order: str = "thw"
    layout: str = "concat"
    first: str = "sin"
    base: float = 10000.0
    denominator: str | float = "dim"

    axes = "thw"

    def __post_init__(self) -> None:
        if not isinstance(self.sections, tuple | list) or len(self.sections) != 3:
            raise TypeError(
                f"sections must be three integers (t, h, w), got {shown(self.sections)}"
            )
        sections = tuple(validate.size("sections", s, minimum=2) for s in self.sections)
        if any(s % 2 for s in sections):
            raise ValueError(f"sections must be even (sin and cos for each axis), got {sections}")
        self._set(sections=sections)
        self._check()

    @property
    def dim(self) -> int:  # type: ignore[override]
        """The number of columns."""
        return sum(self.sections)

    def _sections(self) -> tuple[int, ...]:
        return self.sections
