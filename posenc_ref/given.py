"""Frequencies that follow no rule: learned, or taken from a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal

import numpy as np

from . import _validate as validate
from .scaling import FrequencySchedule


@dataclass(frozen=True, eq=False, repr=False)
class GivenFrequencies(FrequencySchedule):
    """Frequencies as given, whatever the base.

    Formula
        ``theta_k = frequencies[k]``.
    Source
        Learned frequencies: rotary-embedding-torch (``learned_freq``), RoPE-Mixed (Heo et al. 2024,
        arXiv:2403.13298); LeRoPE gives ``base ** (-2k/d) * exp(alpha_k)``; checkpoints that carry
        an ``inv_freq`` buffer, or llama.cpp's ``rope_freqs`` (which *divide* the frequencies).

    Parameters
    ----------
    frequencies : sequence of float
        Radians per position, one for each pair.
    attention_factor : float
        The factor m on cos and sin.
    """

    frequencies: tuple[float, ...]
    _: KW_ONLY
    attention_factor: float = 1.0

    def __post_init__(self) -> None:
        given = self.frequencies
        if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
            raise TypeError(f"frequencies must be a sequence of numbers, got {given!r}")
        self._set(
            frequencies=tuple(validate.real(f"frequencies[{k}]", w) for k, w in enumerate(given)),
            attention_factor=validate.real("attention_factor", self.attention_factor, above=0.0),
        )

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """The given frequencies."""
        if len(self.frequencies) != rotary_dim // 2:
            raise ValueError(
                f"frequencies must be one for each of the {rotary_dim // 2} pairs, got "
                f"{len(self.frequencies)}"
            )
        return tuple(Decimal(w) for w in self.frequencies)

    def magnitude(self, seq_len: int | None) -> float:
        """The attention factor m."""
        return self.attention_factor
