"""Llama 3.1's scaling: like YaRN, but with a ramp that is linear in the number of turns."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from posenc_ref import _validate as validate
from posenc_ref.angles import TWO_PI, decimal_context

from .scaling import FrequencySchedule, clip, standard_schedule


@dataclass(frozen=True, eq=False, repr=False)
class Llama3Scaling(FrequencySchedule):
    """Llama 3.1 scaling: pairs that turn rarely within the trained length are slowed down.

    Formula
        ``theta_k = f_k ((1 - t_k) / factor + t_k)`` with ``f_k = base ** (-2k/d)``,
        ``t_k = clip((r_k - low) / (high - low), 0, 1)`` and the number of turns within the trained
        length ``r_k = L0 f_k / (2 pi)``; m = 1.  low and high are low_freq_factor and
        high_freq_factor.  If they are equal, t_k is a step: 1 if r_k > low, else 0.
    Source
        meta-llama/llama-models, ``apply_scaling``; Llama 3.1's ``scale_factor`` 8,
        ``low_freq_factor`` 1, ``high_freq_factor`` 4, ``old_context_len`` 8192.  The YaRN *paper*
        has the same formula (section 3.2, alpha = low, beta = high); YaRN's code has another one.
    Traps
        If low and high are equal, implementations differ: Meta's code raises, code that branches on
        the wavelength gives the step, and code that divides by ``high - low`` first gives NaN.
        Without the scaling, a model looks correct up to length L0.  Llama 3.2 has factor 32, not 8.
        Megatron fixes low, high and L0 in its code.

    Parameters
    ----------
    factor : float
        At least 1.
    low_freq_factor, high_freq_factor : float
        Positive, low at most high.  Frequencies of pairs with fewer than low turns are divided by
        factor; pairs with more than high turns keep theirs.
    original_max_position : int
        The trained length L0.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position: int

    def __post_init__(self) -> None:
        low = validate.real("low_freq_factor", self.low_freq_factor, above=0.0)
        high = validate.real("high_freq_factor", self.high_freq_factor)
        if high < low:
            raise ValueError(
                "high_freq_factor must be at least low_freq_factor (they count turns within the "
                f"trained length; are they swapped?), got high_freq_factor={high:g} and "
                f"low_freq_factor={low:g}"
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
        """Return the frequencies ``f_k ((1 - t_k) / factor + t_k)``."""
        with decimal_context():
            s, length = Decimal(self.factor), self.original_max_position
            low, high = Decimal(self.low_freq_factor), Decimal(self.high_freq_factor)

            def scaled(f: Decimal) -> Decimal:
                turns = length * f / TWO_PI
                t = Decimal(turns > low) if low == high else clip((turns - low) / (high - low))
                return f * ((1 - t) / s + t)

            return tuple(scaled(f) for f in standard_schedule(base, rotary_dim))
