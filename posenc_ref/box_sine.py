"""Sinusoidal tables over the coordinates of boxes and reference points: the DETR family."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from .axis_sinusoids import AxisSinusoids
from .detr_sine import TWO_PI

#: The accepted sets of coordinates, one letter for each.
COORDINATES = ("xywh", "xy", "xyz", "xyzwhd")


@dataclass(frozen=True, eq=False, repr=False)
class BoxSine(AxisSinusoids):
    """Sinusoidal encoding of points (x, y), (x, y, z) or boxes (x, y, w, h) between 0 and 1.

    Formula
        Each of the n coordinates c has F = dim/n columns: for k < F/2,
        ``s(c)[2k] = sin(angle)`` and ``s(c)[2k + 1] = cos(angle)`` with
        ``angle = scale * c / base ** (2k/F)``.  ``PE = [s(y), s(x), s(w), s(h)]``, in the order of
        ``axis_order``.
    Source
        The code of Meng et al. 2021, *Conditional DETR*, arXiv:2108.06152, and of Liu et al. 2022,
        *DAB-DETR*, arXiv:2201.12329 (``gen_sineembed_for_position``): y before x, where the paper
        of DAB-DETR, section 4, writes x, y, w, h.  Grounding DINO, LW-DETR, RF-DETR and SAM 3 have
        the same function.  The two-stage variant of Zhu et al. 2020, *Deformable DETR*,
        arXiv:2010.04159 (``get_proposal_pos_embed``), has ``axis_order="xywh"``.
        For points, use ``BoxSine(dim, axes="xy", axis_order="yx")``; for the points in space of
        Liu et al. 2022, *PETR*, arXiv:2203.05625 (``pos2posemb3d``),
        ``BoxSine(dim, axes="xyz", axis_order="yxz")``.
    Traps
        The columns of y come before those of x, but those of w before those of h. The caller passes
        the coordinates: unlike :class:`DETRSine`, this class neither counts the pixels of a mask
        nor shifts by half a pixel.  Grounding DINO encodes the integer positions of text tokens
        with the same function.  It multiplies them by 2 pi, so for every token column 0 is 0 and
        column 1 is 1 (``Sinusoidal(dim, position_scale=2 pi)``).
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = |value|, B = ``|angle|``.

    Parameters
    ----------
    dim : int
        The number of columns, a multiple of 2n.
    axes : {"xywh", "xy", "xyz", "xyzwhd"}
        The coordinates in the order in which positions (n, ...) have them.
    axis_order : str
        The coordinates in the order of their columns, a permutation of ``axes``.
    base : float
        10000 in the models above, which call it the temperature.  (DAB-DETR's :class:`DETRSine` has
        20.)
    scale : float
        The factor on coordinates.
    """

    dim: int
    _: KW_ONLY
    axes: str = "xywh"
    axis_order: str = "yxwh"
    base: float = 10000.0
    scale: float = TWO_PI

    layout = "interleaved"
    first = "sin"
    denominator = "dim"

    def __post_init__(self) -> None:
        axes = validate.choice("axes", self.axes, COORDINATES)
        dim = validate.size("dim", self.dim, minimum=2 * len(axes))
        if dim % (2 * len(axes)):
            raise ValueError(
                f"dim must be a multiple of {2 * len(axes)}, because each of the {len(axes)} "
                f"coordinates has pairs of a sine and a cosine; got {dim}"
            )
        self._set(dim=dim, scale=validate.real("scale", self.scale, above=0.0))
        self._check()

    def grid_positions(self, height: int, width: int) -> np.ndarray:
        """Raise ValueError: boxes are not on a grid."""
        raise ValueError("BoxSine has no grid: pass the coordinates of boxes to table")

    def _sections(self) -> tuple[int, ...]:
        return (self.dim // len(self.axes),) * len(self.axes)

    def _of_axis(self) -> dict[str, Any]:
        return {"position_scale": self.scale}
