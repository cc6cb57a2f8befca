"""RoPE-Mixed: rotary encodings in which each pair depends on all position axes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import real_numbers
from ._namespace import Array
from .angles import check_domain, decimal_context, tables, turns
from .rope import LAYOUT_ALIASES, LAYOUTS, layout_pairs
from .rotary import Rotary


@dataclass(frozen=True, eq=False, repr=False)
class MixedRoPE(Rotary):
    """Rotary position embedding with a learned frequency for every pair on every axis.

    Formula
        Pair j is rotated by the angle ``sum over axes a of p[a] * weight[a, j]``.
    Source
        Heo et al. 2024, *Rotary Position Embedding for Vision Transformer*, arXiv:2403.13298,
        RoPE-Mixed.  LightGlue learns its angles the same way, as a linear map of coordinates.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A as in :class:`RoPE`; B = ``hypot(x1, x2) * sum over axes a of |p[a] weight[a, j]|`` for
        the channels x1 and x2 of pair j.

    An instance describes one head of one layer, because each head has its own learned frequencies.

    Parameters
    ----------
    head_dim : int
        Size of x's last axis.
    weight : array (A, P)
        Radians per position, finite, 2 P <= head_dim.  Kept as a copy in float64.
    layout : {"interleaved", "half"}
        Which channels form pair j; there is no default.
    """

    head_dim: int
    weight: np.ndarray
    _: KW_ONLY
    layout: str

    sign = 1

    def __post_init__(self) -> None:
        head_dim = validate.size("head_dim", self.head_dim, minimum=2)
        weight = real_numbers("weight", self.weight, "(A, P)")
        if weight.ndim != 2 or 0 in weight.shape or 2 * weight.shape[1] > head_dim:
            raise ValueError(
                f"weight must have shape (A, P) with 1 <= P <= head_dim / 2 = {head_dim // 2}, got "
                f"{weight.shape}"
            )
        if not np.isfinite(weight).all():
            raise ValueError("weight must be finite")
        check_domain("weight", float(np.abs(weight).max()))
        weight.setflags(write=False)
        self._set(
            head_dim=head_dim,
            weight=weight,
            layout=validate.choice("layout", self.layout, LAYOUTS, LAYOUT_ALIASES),
        )

    @property
    def num_axes(self) -> int:
        """The number A of position axes."""
        return int(self.weight.shape[0])

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels of each pair j: (2j, 2j+1), or (j, j + P)."""
        return layout_pairs(self.layout, self.weight.shape[1], 0)

    def decimal_frequencies(self, seq_len: int | None = None) -> tuple[Decimal, ...]:
        """Return the sum over the axes of the frequencies of every pair.

        This is the frequency of the pair at positions (p, p, ...), equal on all axes.
        """
        with decimal_context():
            columns = self.weight.T.tolist()
            return tuple(sum(map(Decimal, column), Decimal(0)) for column in columns)

    def _fastest(self) -> float:
        """Return the largest |weight|: the frequencies of two axes may cancel in their sum."""
        return float(np.abs(self.weight).max())

    def _tables(
        self, positions: Array, seq_len: int | None, offset: float, **where: Any
    ) -> tuple[Array, Array]:
        """Return cos and sin of the angle summed over all axes, by the addition theorem."""
        rows = (
            [positions] if self.num_axes == 1 else [positions[a, ...] for a in range(self.num_axes)]
        )
        cos: Array = None
        sin: Array = None
        for at, weights in zip(rows, self.weight.tolist(), strict=True):
            c, s = tables(at, turns(tuple(map(Decimal, weights))), offset=offset, **where)
            cos, sin = (c, s) if cos is None else (cos * c - sin * s, sin * c + cos * s)
        return cos, sin
