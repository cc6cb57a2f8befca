"""Llama-3 scaling: slow pairs divided, fast ones kept, a blend between."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from . import _validate as validate
from .angles import TWO_PI, decimal_context
from .scaling import FrequencySchedule, clip, standard_schedule


@dataclass(frozen=True, eq=False, repr=False)
class Llama3Scaling(FrequencySchedule):
    """Llama 3.1's frequency scaling.

    Formula
        ``r_k = L0 f_k / (2 pi)``, the turns of pair k in L0, with ``f_k = base ** (-2k/d)``;
        ``t_k = clip((r_k - low) / (high - low), 0, 1)``; ``theta_k = f_k ((1 - t_k) / s + t_k)``.
    Source
        meta-llama/llama-models, `apply_scaling` (three branches on the wavelength, the same
        values); Hugging Face `_compute_llama3_parameters`.
    Traps
        Leaving it out goes unnoticed up to L0 and garbles text at about 29,000 tokens.  Llama 3.2
        has factor 32, not 8.  The blend is linear in the frequency, not in the wavelength.  With
        ``low == high`` the blend is a step: pairs that turn at least ``high`` times are kept.

    Parameters
    ----------
    factor : float
        s, at least 1; 8 for Llama 3.1, 32 for Llama 3.2.
    low_freq_factor, high_freq_factor : float
        Turns in L0 below which a pair is divided, above which it is kept; 1 and 4.
    original_max_position : int
        L0, the trained length; 8192.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position: int

    def __post_init__(self) -> None:
        low = validate.real("low_freq_factor", self.low_freq_factor, above=0.0)
        high = validate.real("high_freq_factor", self.high_freq_factor, above=0.0)
        if high < low:
            raise ValueError(
                f"high_freq_factor must be at least low_freq_factor = {low:g}, got {high:g}: are "
                "they exchanged?"
            )
        self._set(
            factor=validate.real("factor", self.factor, minimum=1.0),
            low_freq_factor=low,
            high_freq_factor=high,
            original_max_position=validate.integer(
                "original_max_position", self.original_max_position, minimum=1
            ),
        )

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """``f_k ((1 - t_k) / s + t_k)``."""
        low, high = Decimal(self.low_freq_factor), Decimal(self.high_freq_factor)
        with decimal_context():
            s, length = Decimal(self.factor), Decimal(self.original_max_position)
            scaled = []
            for f in standard_schedule(base, rotary_dim):
                turns = length * f / TWO_PI
                if low == high:
                    t = Decimal(turns >= high)
                else:
                    t = clip((turns - low) / (high - low))
                scaled.append(f * ((1 - t) / s + t))
            return tuple(scaled)
