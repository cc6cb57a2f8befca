"""Proportional RoPE: the fast pairs of the whole head rotate, the slow ones have frequency 0."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal

from posenc_ref import _validate as validate
from posenc_ref._text import shown
from posenc_ref.angles import decimal_context

from .scaling import FrequencySchedule, standard_schedule


@dataclass(frozen=True, eq=False, repr=False)
class Proportional(FrequencySchedule):
    """p-RoPE: the first ``fraction`` of all pairs rotate as usual, the others do not rotate.

    Formula
        ``theta_k = base ** (-2k/d) / factor`` for k < n, 0 for the rest, with
        ``n = int(fraction * d // 2)`` and d the *whole* head; m = 1.
    Source
        Barbero et al. 2024, *Round and Round We Go*, arXiv:2410.06205 (p-RoPE); Gemma 4's full
        attention layers and Hugging Face's ``rope_type="proportional"``.
    Traps
        This is not partial rotary. In partial rotary, exponents are fractions of ``rotary_dim`` and
        one block of channels does not rotate. Here exponents are fractions of the head, and with
        half-split pairs the channels that do not rotate are at the end of both halves.  Leave
        ``rotary_dim`` at its default, ``head_dim``.  n is computed in float64, as in all libraries.

    Parameters
    ----------
    fraction : float
        From 0 (no rotation) to 1; ``partial_rotary_factor`` in configurations.
    factor : float
        Divides the frequencies of the pairs that rotate; at least 1.
    """

    fraction: float
    _: KW_ONLY
    factor: float = 1.0

    def __post_init__(self) -> None:
        fraction = validate.real("fraction", self.fraction, minimum=0.0)
        if fraction > 1:
            raise ValueError(f"fraction must be at most 1, got {shown(self.fraction)}")
        self._set(fraction=fraction, factor=validate.real("factor", self.factor, minimum=1.0))

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """Return ``base ** (-2k/d) / factor`` for the first ``fraction`` of pairs, 0 for others."""
        turning = int(self.fraction * rotary_dim // 2)
        with decimal_context():
            plain = standard_schedule(base, rotary_dim)[:turning]
            rest = [Decimal(0)] * (rotary_dim // 2 - turning)
            return (*(w / Decimal(self.factor) for w in plain), *rest)
