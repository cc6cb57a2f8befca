"""Given frequencies: learned, loaded from a checkpoint, or from a rule without a class here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal

from posenc_ref import _validate as validate
from posenc_ref.limits import MAGNITUDE

from .scaling import FrequencySchedule, real_tuple


@dataclass(frozen=True, eq=False, repr=False)
class GivenFrequencies(FrequencySchedule):
    """Frequencies given as numbers, one for each channel pair; ``base`` is not used.

    Formula
        ``theta_k = frequencies[k]``, m = ``attention_factor``.
    Source
        Learned frequencies: rotary-embedding-torch (``learned_freq``), RoPE-Mixed (Heo et al. 2024,
        arXiv:2403.13298), LeRoPE's ``base ** (-2k/d) * exp(alpha_k)`` in Hugging Face's
        MistralLarge4; checkpoints that carry an ``inv_freq`` buffer.
    Traps
        llama.cpp's ``rope_freqs`` *divide* the frequencies.  The numbers are used exactly: those of
        a float32 buffer include its rounding errors.

    Parameters
    ----------
    frequencies : sequence of float, or array of shape (pairs,)
        Radians per position; ``rotary_dim / 2`` finite numbers.
    attention_factor : float
        The factor on cos and sin; greater than 0.
    """

    frequencies: Sequence[float]  # stored as a tuple
    _: KW_ONLY
    attention_factor: float = 1.0

    def __post_init__(self) -> None:
        self._set(
            frequencies=real_tuple("frequencies", self.frequencies),
            attention_factor=validate.real(
                "attention_factor", self.attention_factor, above=0.0, maximum=MAGNITUDE
            ),
        )

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """Return the given frequencies, exactly."""
        if len(self.frequencies) != rotary_dim // 2:
            raise ValueError(
                f"frequencies must have one number for each of the {rotary_dim // 2} channel pairs "
                f"of rotary_dim = {rotary_dim}, got {len(self.frequencies)}"
            )
        return tuple(Decimal(w) for w in self.frequencies)

    def magnitude(self, seq_len: int | None) -> float:
        """Return the factor m, ``attention_factor``."""
        return self.attention_factor
