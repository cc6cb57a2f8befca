"""LongRoPE: every pair divided by a factor of its own, one list for short and one for long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from . import _validate as validate
from .angles import decimal_context
from .scaling import FrequencySchedule, standard_schedule

POLICIES = ("current", "short", "long")


@dataclass(frozen=True, eq=False, repr=False)
class LongRoPE(FrequencySchedule):
    """LongRoPE, "su" in older configurations.

    Formula
        ``theta_k = base ** (-2k/d) / ext_k``, with ext = long_factor if ``seq_len > L0``, else
        short_factor; m = ``attention_factor`` if given, else ``sqrt(1 + ln s / ln L0)`` (1 for
        s <= 1), at every length.
    Source
        Ding et al. 2024, *LongRoPE*, arXiv:2402.13753, equation (2) and section 3.3; Microsoft's
        Phi-3 code; Hugging Face `_compute_longrope_parameters`.
    Traps
        The rule of the switch: Hugging Face decides in every forward pass, by the largest position
        of the batch plus one, and keeps cached keys as they are (``policy="current"``); vLLM
        decides once, by its configured length (``"short"`` or ``"long"``); mlx-lm always takes the
        long list.  m holds below L0 as well.  s is ``factor``, or max_position / L0 where a
        configuration has none.

    Parameters
    ----------
    short_factor, long_factor : sequence of float
        One divisor for each pair.
    original_max_position : int
        L0, the trained length.
    factor : float, optional
        s, for m; needed unless ``attention_factor`` is given.
    attention_factor : float, optional
        m itself.
    policy : {"current", "short", "long"}
        Whether the list follows the length, or is always the same.
    """

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_max_position: int
    _: KW_ONLY
    factor: float | None = None
    attention_factor: float | None = None
    policy: str = "current"

    def __post_init__(self) -> None:
        short = _divisors("short_factor", self.short_factor)
        long = _divisors("long_factor", self.long_factor)
        if len(short) != len(long):
            raise ValueError(
                f"long_factor must be as long as short_factor, {len(short)}, got {len(long)}"
            )
        if self.factor is None and self.attention_factor is None:
            raise ValueError(
                "factor or attention_factor must be given: a configuration without either has "
                "factor = max_position_embeddings / original_max_position_embeddings"
            )
        given = {
            name: validate.real(name, value, above=0.0)
            for name in ("factor", "attention_factor")
            if (value := getattr(self, name)) is not None
        }
        self._set(
            short_factor=short,
            long_factor=long,
            original_max_position=validate.integer(
                "original_max_position", self.original_max_position, minimum=2
            ),
            policy=validate.choice("policy", self.policy, POLICIES),
            **given,
        )

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """``base ** (-2k/d) / ext_k``."""
        if len(self.short_factor) != rotary_dim // 2:
            raise ValueError(
                f"short_factor must have one divisor for each of the {rotary_dim // 2} pairs, got "
                f"{len(self.short_factor)}"
            )
        is_long = seq_len is not None and seq_len > self.original_max_position
        if self.policy != "current":
            is_long = self.policy == "long"
        ext = self.long_factor if is_long else self.short_factor
        with decimal_context():
            plain = standard_schedule(base, rotary_dim)
            return tuple(f / Decimal(e) for f, e in zip(plain, ext, strict=True))

    def magnitude(self, seq_len: int | None) -> float:
        """The attention factor m."""
        if self.attention_factor is not None:
            return self.attention_factor
        assert self.factor is not None
        if self.factor <= 1.0:
            return 1.0
        with decimal_context():
            ratio = Decimal(self.factor).ln() / Decimal(self.original_max_position).ln()
            return float((1 + ratio).sqrt())

    @property
    def depends_on_length(self) -> bool:
        """Whether the policy is to follow the length."""
        return self.policy == "current"


def _divisors(name: str, values: Any) -> tuple[float, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise TypeError(f"{name} must be a sequence of numbers, one for each pair, got {values!r}")
    return tuple(validate.real(f"{name}[{k}]", v, above=0.0) for k, v in enumerate(values))
