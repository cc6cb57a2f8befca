"""Position interpolation: every frequency is divided by one factor."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from posenc_ref import _validate as validate
from posenc_ref.angles import decimal_context

from .scaling import FrequencySchedule, standard_schedule


@dataclass(frozen=True, eq=False, repr=False)
class LinearScaling(FrequencySchedule):
    """Position interpolation: every frequency divided by ``factor``.

    Formula
        ``theta_k = base ** (-2k/d) / factor``, the same as positions divided by ``factor``.
    Source
        Chen et al. 2023, *Extending Context Window of LLMs via Positional Interpolation*,
        arXiv:2306.15595, equation (4): ``f'(x, m) = f(x, m L / L')`` with ``factor = L' / L``.

    Parameters
    ----------
    factor : float
        At least 1: the new context length divided by the trained one.
    """

    factor: float

    def __post_init__(self) -> None:
        self._set(factor=validate.real("factor", self.factor, minimum=1.0))

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """Return the frequencies ``base ** (-2k/d) / factor``."""
        with decimal_context():
            return tuple(w / Decimal(self.factor) for w in standard_schedule(base, rotary_dim))
