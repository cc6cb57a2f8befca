"""Time2Vec: one linear component, and sines with learned frequencies and phases."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import real_numbers
from ._cached import cached_property
from ._namespace import Array, Namespace, astype, send
from ._positions import Positions, as_positions
from .accuracy import Truth
from .angles import MAX_POSITION, Turns, tables, turns
from .table import ComputedTable


@dataclass(frozen=True, eq=False, repr=False)
class Time2Vec(ComputedTable):
    """Time2Vec: a linear function of the position, and sines with learned frequencies and phases.

    Formula
        ``t2v(t)[0] = w_0 t + b_0``, ``t2v(t)[k] = F(w_k t + b_k)``, k = 1 .. dim - 1, F sin or cos.
    Source
        Kazemi et al. 2019, arXiv:1907.05321, equation 1.  The code that most people copy puts the
        linear component last.
    Error unit (see :mod:`posenc_ref.accuracy`)
        Linear component: A = ``|w_0 t| + |b_0|``, B = 0.  Other components: A = |value|,
        B = ``|w_k t| + |b_k|``.

    Parameters
    ----------
    weight, bias : array, shape (dim,)
        w and b, stored as float64 copies. The linear component is always first here.
    function : {"sin", "cos"}
    linear : {"first", "last"}
        The column of the linear component.
    """

    weight: np.ndarray
    bias: np.ndarray
    _: KW_ONLY
    function: str = "sin"
    linear: str = "first"

    def __post_init__(self) -> None:
        for name in ("weight", "bias"):
            copy = real_numbers(name, getattr(self, name), "(dim,)")
            if copy.ndim != 1 or copy.size < 2 or not np.isfinite(copy).all():
                raise ValueError(f"{name} must be finite, of shape (dim,), got {copy.shape}")
            copy.setflags(write=False)
            self._set(**{name: copy})
        if self.weight.shape != self.bias.shape:
            raise ValueError(
                f"bias must have the shape of weight, {self.weight.shape}, got {self.bias.shape}"
            )
        self._set(
            function=validate.choice("function", self.function, ("sin", "cos")),
            linear=validate.choice("linear", self.linear, ("first", "last")),
        )

    @property
    def dim(self) -> int:  # type: ignore[override]
        """The number of columns."""
        return int(self.weight.size)

    def truth(self, positions: Any) -> Truth:
        """Return ``table`` with the coefficients A and B of its rounding error."""
        value = self.table(np.asarray(positions))
        t = np.abs(np.asarray(positions, np.float64))[..., None]
        size = t * np.abs(self.weight) + np.abs(self.bias)
        terms, angle, amplitude = np.abs(value), np.zeros_like(value), np.ones(self.dim)
        at, rest = (0, np.s_[..., 1:]) if self.linear == "first" else (-1, np.s_[..., :-1])
        terms[..., at], amplitude[at] = size[..., 0], 0.0
        angle[rest] = size[..., 1:]
        return Truth(value, terms, angle, amplitude)

    def _positions(self, positions: Any, x: Array | None = None) -> Positions:
        fastest = max(1.0, self._turns.fastest)
        return as_positions(positions, x=x, largest=MAX_POSITION / fastest)

    @cached_property
    def _turns(self) -> Turns:
        return turns(tuple(map(Decimal, self.weight[1:].tolist())))

    @cached_property
    def _phases(self) -> tuple[np.ndarray, np.ndarray]:
        """cos and sin of the phases b_k."""
        cos, sin = tables(self.bias[1:], turns((Decimal(1),)), xp=np)
        return cos[:, 0], sin[:, 0]

    def _rows(self, p: Positions, xp: Namespace, device: Any) -> Array:
        cos, sin = tables(p.values, self._turns, xp=xp, device=device)
        c, s = (astype(send(part, xp, device), cos.dtype) for part in self._phases)
        wave = sin * c + cos * s if self.function == "sin" else cos * c - sin * s
        line = float(self.weight[0]) * send(p.values, xp, device) + float(self.bias[0])
        columns = [astype(line, wave.dtype)[..., None], wave]
        return xp.concat(columns if self.linear == "first" else columns[::-1], axis=-1)
