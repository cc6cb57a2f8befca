"""Proportional RoPE (p-RoPE): the slowest pairs do not turn at all."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal

from . import _validate as validate
from .angles import decimal_context
from .scaling import FrequencySchedule, standard_schedule


@dataclass(frozen=True, eq=False, repr=False)
class Proportional(FrequencySchedule):
    """Proportional RoPE: the fastest ``fraction`` of all pairs turns.

    Formula
        ``theta_k = base ** (-2k/d) / factor`` for ``k < int(fraction * d // 2)``, else 0.
    Source
        Barbero et al. 2024, *Round and Round We Go!*, arXiv:2410.06205, section 6 (p-RoPE);
        Hugging Face `_compute_proportional_rope_parameters` (Gemma 4).
    Traps
        Not partial rotary: exponents are divided by the whole d, and with half-split pairs the
        channels that stay are [k, d/2) and [d/2 + k, d), not a trailing block.

    Parameters
    ----------
    fraction : float
        Between 0 (nothing turns) and 1.
    factor : float
        At least 1: divides all frequencies.
    """

    fraction: float
    _: KW_ONLY
    factor: float = 1.0

    def __post_init__(self) -> None:
        fraction = validate.real("fraction", self.fraction, minimum=0.0)
        if fraction > 1.0:
            raise ValueError(f"fraction must be at most 1, got {fraction:g}")
        self._set(fraction=fraction, factor=validate.real("factor", self.factor, minimum=1.0))

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """``base ** (-2k/d) / factor``, or 0."""
        turning = int(self.fraction * rotary_dim // 2)
        with decimal_context():
            plain = standard_schedule(base, rotary_dim)
            return tuple(
                f / Decimal(self.factor) if k < turning else Decimal(0) for k, f in enumerate(plain)
            )
