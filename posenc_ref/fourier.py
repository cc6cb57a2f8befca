"""Fourier features of real coordinates: NeRF, Gaussian, SAM, Perceiver, learnable Fourier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any, Self

import numpy as np

from . import _validate as validate
from ._arrays import real_numbers
from ._cached import cached_property
from ._namespace import Array, Namespace, astype, from_host, send
from ._positions import Positions, as_positions
from ._text import shown
from .accuracy import Truth
from .angles import MAX_POSITION, TWO_PI, Turns, check_domain, decimal_context, tables, turns
from .table import PAIRED, ComputedTable, of_axis

#: Radians in one unit of ``matrix @ coordinates``.
with decimal_context():
    UNITS = {"radian": Decimal(1), "half-turn": TWO_PI / 2, "turn": TWO_PI}
LAYOUTS = ("concat", "interleaved", "grouped")


@dataclass(frozen=True, eq=False, repr=False)
class FourierFeatures(ComputedTable):
    """Sines and cosines of linear maps of coordinates.

    Formula
        ``u = position_scale (v + offset)``; ``angle = unit * matrix u``;
        ``PE(v) = scale [sin angle, cos angle]``.  The fields ``layout`` and ``first`` set the order
        of the sines and cosines.  With ``include_input``, the columns of u come before them.
    Source
        Tancik et al. 2020, arXiv:2006.10739: ``unit="turn"``, ``first="cos"``, and a ``matrix``
        drawn from a Gaussian.
        Song et al. 2021, arXiv:2011.13456 (score SDE): the same, with ``first="sin"``.
        Kirillov et al. 2023, arXiv:2304.02643 (SAM): ``unit="turn"``, ``position_scale=2``,
        ``offset=-0.5``, coordinates (x, y) in 0 .. 1.
        Mildenhall et al. 2020, arXiv:2003.08934: :meth:`nerf`.
        Jaegle et al. 2021, arXiv:2103.03206: :meth:`perceiver`.
        Li et al. 2021, arXiv:2106.02795 (learnable Fourier features): ``unit="radian"``,
        ``first="cos"``, ``scale=dim ** -0.5``.  The two-layer network that follows these features
        is not part of this class.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = |value|, B = ``|scale| * unit * |matrix| m`` with ``m = |position_scale| (|v| +
        |offset|)``.  The columns of u have A = m, B = 0.

    Parameters
    ----------
    matrix : array, shape (pairs, n)
        One row for each pair of a sine and a cosine, one column for each of the n coordinates.
        Kept as a copy in float64.
    unit : {"turn", "half-turn", "radian"}
        The factor on ``matrix u``: 2 pi, pi or 1 radian. There is no default, because
        implementations differ.
    layout : {"concat", "interleaved", "grouped"}
        "concat": all sines, then all cosines.  "interleaved": sine and cosine of each pair side by
        side.  "grouped": n sines, then their n cosines, then the next n sines, and so on; in NeRF,
        each group of n has one frequency for all coordinates.
    first : {"sin", "cos"}
        "cos" puts cosines before sines in each layout.
    include_input : bool
        Whether the first columns are u.
    offset, position_scale, scale : float

    Notes
    -----
    Positions are coordinates (...), or (n, ...) for n > 1, in the order of the columns of
    ``matrix``. Coordinates of images are usually (x, y); the caller normalises them.
    """

    matrix: np.ndarray
    _: KW_ONLY
    unit: str
    layout: str = "concat"
    first: str = "sin"
    include_input: bool = False
    offset: float = 0.0
    position_scale: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        matrix = real_numbers("matrix", self.matrix, "(pairs, A)")
        if matrix.ndim != 2 or 0 in matrix.shape or not np.isfinite(matrix).all():
            raise ValueError(f"matrix must be finite, of shape (pairs, A), got {matrix.shape}")
        layout = validate.choice("layout", self.layout, LAYOUTS, {"half": "concat"})
        if layout == "grouped" and matrix.shape[0] % matrix.shape[1]:
            raise ValueError(
                f"layout 'grouped' puts A pairs together: the rows of matrix must be a multiple of "
                f"A = {matrix.shape[1]}, got {matrix.shape[0]}"
            )
        unit = validate.choice("unit", self.unit, tuple(UNITS), {"2pi": "turn", "pi": "half-turn"})
        offset = validate.real("offset", self.offset)
        position_scale = validate.real("position_scale", self.position_scale)
        largest = abs(position_scale) * float(UNITS[unit])
        check_domain("matrix and position_scale", largest * float(np.abs(matrix).max()), offset)
        matrix.setflags(write=False)
        self._set(
            matrix=matrix,
            unit=unit,
            layout=layout,
            first=validate.choice("first", self.first, ("sin", "cos")),
            include_input=validate.boolean("include_input", self.include_input),
            offset=offset,
            position_scale=position_scale,
            scale=validate.real("scale", self.scale),
        )

    @classmethod
    def nerf(
        cls, num_bands: int, *, num_axes: int = 3, unit: str = "half-turn", include_input: bool
    ) -> Self:
        """Return NeRF's features ``sin(2**l pi x), cos(2**l pi x)``, l = 0 .. num_bands - 1.

        This is the formula of the paper.  NeRF's released code, like most others, has no factor pi
        (``unit="radian"``) and has ``include_input=True``.
        """
        # 2.0**40 is the largest frequency.
        bands = validate.integer("num_bands", num_bands, minimum=1, maximum=41)
        axes = validate.size("num_axes", num_axes)
        validate.elements("the matrix", (bands * axes, axes))
        matrix = np.concatenate([2.0**level * np.eye(axes) for level in range(bands)])
        return cls(matrix, unit=unit, layout="grouped", include_input=include_input)

    @classmethod
    def perceiver(cls, num_bands: int, resolution: tuple[int, ...]) -> Self:
        """Return Perceiver's features ``sin(pi f x), cos(pi f x)`` of coordinates x in -1 .. 1.

        The frequencies f are equally spaced (not geometric) from 1 to half the resolution of the
        axis.  The first columns are the coordinates.
        """
        bands = validate.size("num_bands", num_bands)
        if not isinstance(resolution, Sequence | np.ndarray) or isinstance(resolution, str):
            raise TypeError(
                "resolution must have the size of each axis, such as (224, 224), got "
                f"{shown(resolution)}"
            )
        validate.elements("the matrix", (len(resolution) * bands, len(resolution)))
        sizes = [validate.integer("resolution", size, minimum=2) for size in resolution]
        matrix = np.zeros((len(sizes) * bands, len(sizes)))
        for axis, size in enumerate(sizes):
            matrix[axis * bands : (axis + 1) * bands, axis] = np.linspace(1.0, size / 2, bands)
        return cls(matrix, unit="half-turn", include_input=True)

    @property
    def num_axes(self) -> int:  # type: ignore[override]
        """Number A of coordinates."""
        return int(self.matrix.shape[1])

    @property
    def dim(self) -> int:  # type: ignore[override]
        """The number of columns of the table."""
        return int(2 * self.matrix.shape[0] + self.num_axes * self.include_input)

    @property
    def properties(self) -> frozenset[str]:
        """The properties listed in :attr:`Table.properties` that hold; none if include_input."""
        return frozenset() if self.include_input else PAIRED

    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the column numbers of the sines and of the cosines, in the row order of matrix."""
        pairs = np.arange(self.matrix.shape[0])
        size = {"concat": pairs.size, "interleaved": 1}.get(self.layout, self.num_axes)
        one = pairs // size * 2 * size + pairs % size + self.num_axes * self.include_input
        return (one, one + size) if self.first == "sin" else (one + size, one)

    def truth(self, positions: Any) -> Truth:
        """Return ``table`` with the coefficients A and B of its rounding error."""
        value = self.table(np.asarray(positions))
        places = math.prod(value.shape[:-1])
        v = np.moveaxis(np.asarray(positions, np.float64).reshape(self.num_axes, places), 0, -1)
        u = np.abs(self.position_scale) * (np.abs(v) + abs(self.offset))
        size = u @ np.abs(self.matrix).T * float(UNITS[self.unit]) * abs(self.scale)
        size = size.reshape(*value.shape[:-1], size.shape[-1])
        terms, angle, amplitude = np.abs(value), np.zeros_like(value), np.zeros(self.dim)
        for at in self.columns():
            angle[..., at], amplitude[at] = size, abs(self.scale)
        if self.include_input:
            terms[..., : self.num_axes] = u.reshape(*value.shape[:-1], self.num_axes)
        return Truth(value, terms, angle, amplitude)

    def grid_positions(self, height: int, width: int) -> np.ndarray:
        """Raise ValueError: FourierFeatures defines no coordinates of patches; libraries differ."""
        raise ValueError(
            "FourierFeatures has no grid of its own: pass coordinates to table, such as "
            "patch_centres(height, width)[::-1] for (x, y) between -1 and 1"
        )

    def _positions(self, positions: Any, x: Array | None = None) -> Positions:
        fastest = max(1.0, *(t.fastest for t in self._turns))
        p = as_positions(positions, x=x, largest=MAX_POSITION / fastest)
        return p if self.num_axes == 1 else self._of_axes(p)

    @cached_property
    def _turns(self) -> tuple[Turns, ...]:
        """``unit * position_scale * matrix`` for each axis, in 50 digits."""
        with decimal_context():
            factor = UNITS[self.unit] * Decimal(self.position_scale)
            return tuple(
                turns(tuple(factor * Decimal(entry) for entry in column))
                for column in self.matrix.T.tolist()
            )

    def _rows(self, p: Positions, xp: Namespace, device: Any) -> Array:
        axes = [p] if self.num_axes == 1 else [of_axis(p, axis) for axis in range(self.num_axes)]
        cos: Array = None
        sin: Array = None
        for at, of in zip(axes, self._turns, strict=True):  # the addition theorem
            c, s = tables(at.values, of, xp=xp, device=device, offset=self.offset)
            cos, sin = (c, s) if cos is None else (cos * c - sin * s, sin * c + cos * s)
        parts = [sin * self.scale, cos * self.scale]
        sin_at, cos_at = self.columns()
        order = [sin_at, cos_at]
        if self.include_input:
            u = [self.position_scale * (send(at.values, xp, device) + self.offset) for at in axes]
            parts.append(astype(xp.stack(u, axis=-1), cos.dtype))
            order.append(np.arange(self.num_axes))
        index = from_host(np.argsort(np.concatenate(order)), xp, device)
        return xp.take(xp.concat(parts, axis=-1), index, axis=-1)
