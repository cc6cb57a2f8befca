"""LongRoPE: a divisor for every pair, with one list for short and one for long contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any

from posenc_ref import _validate as validate
from posenc_ref.angles import decimal_context
from posenc_ref.limits import MAGNITUDE

from .scaling import FrequencySchedule, real_tuple, standard_schedule

POLICIES = ("current", "short", "long")


@dataclass(frozen=True, eq=False, repr=False)
class LongRoPE(FrequencySchedule):
    """LongRoPE, called "su" or "longrope" in configurations: every pair has its own divisor.

    Formula
        ``theta_k = base ** (-2k/d) / lambda_k``, with lambda = ``long_factor`` if the length
        exceeds L0 = original_max_position (from L0 + 1 tokens on), else ``short_factor``.
        m is ``attention_factor``, else ``sqrt(1 + ln(factor) / ln(L0))``, at every length.
    Source
        Ding et al. 2024, *LongRoPE*, arXiv:2402.13753; the two lists, the switch and m are those
        of microsoft/Phi-3-mini-128k-instruct, ``modeling_phi3.py``, and Hugging Face's
        ``rope_type="longrope"``.
    Traps
        Libraries choose the list in different ways (``policy``).  Hugging Face chooses it in each
        call, by the largest position; keys cached in earlier, shorter calls stay rotated by the
        short list.  vLLM chooses it once, by the maximum length.  mlx-lm always uses the long list.
        m applies to short contexts too.  If a configuration has no ``factor``, it is
        max_position_embeddings / L0; it cannot be computed from the lists.

    Parameters
    ----------
    short_factor, long_factor : sequence of float
        One positive number for each pair: ``rotary_dim / 2`` of them.
    original_max_position : int
        The trained length L0; at least 2.
    factor : float, optional
        At least 1; used for m only.
    attention_factor : float or pair of float, optional
        m itself, or a pair: m for short and for long contexts (Phi-3.5-MoE's ``short_mscale`` and
        ``long_mscale``).  One of factor and attention_factor is needed.
    policy : {"current", "short", "long"}
        "current" chooses the list by the length of the call; the others always use one list.
    """

    short_factor: Sequence[float]  # stored as tuples
    long_factor: Sequence[float]
    original_max_position: int
    _: KW_ONLY
    factor: float | None = None
    attention_factor: float | tuple[float, float] | None = None
    policy: str = "current"

    def __post_init__(self) -> None:
        short = real_tuple("short_factor", self.short_factor, above=0.0)
        long = real_tuple("long_factor", self.long_factor, above=0.0)
        if len(short) != len(long):
            raise ValueError(
                "short_factor and long_factor must have one number for each channel pair, got "
                f"{len(short)} and {len(long)}"
            )
        if self.factor is None and self.attention_factor is None:
            raise ValueError(
                "factor or attention_factor must be given, got neither; if the configuration has "
                "no factor, it is max_position_embeddings / original_max_position"
            )
        self._set(
            short_factor=short,
            long_factor=long,
            original_max_position=validate.integer(
                "original_max_position", self.original_max_position, minimum=2
            ),
            factor=None if self.factor is None else validate.real("factor", self.factor, minimum=1),
            attention_factor=_magnitudes(self.attention_factor),
            policy=validate.choice("policy", self.policy, POLICIES),
        )

    @property
    def depends_on_length(self) -> bool:
        """True for policy "current"."""
        return self.policy == "current"

    def _long(self, seq_len: int | None) -> bool:
        if self.policy == "current":
            return seq_len is not None and seq_len > self.original_max_position
        return self.policy == "long"

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """Return the frequencies ``base ** (-2k/d) / lambda_k``."""
        name = "long_factor" if self._long(seq_len) else "short_factor"
        divisors: tuple[float, ...] = getattr(self, name)
        if len(divisors) != rotary_dim // 2:
            raise ValueError(
                f"{name} must have one number for each of the {rotary_dim // 2} channel pairs of "
                f"rotary_dim = {rotary_dim}, got {len(divisors)}"
            )
        with decimal_context():
            return tuple(
                w / Decimal(x)
                for w, x in zip(standard_schedule(base, rotary_dim), divisors, strict=True)
            )

    def magnitude(self, seq_len: int | None) -> float:
        """Return the factor m: ``attention_factor``, or ``sqrt(1 + ln(factor) / ln(L0))``."""
        if isinstance(self.attention_factor, tuple):
            return self.attention_factor[self._long(seq_len)]
        if self.attention_factor is not None:
            return self.attention_factor
        assert self.factor is not None
        with decimal_context():
            s, length = Decimal(self.factor), Decimal(self.original_max_position)
            return float((1 + s.ln() / length.ln()).sqrt())


def _magnitudes(value: Any) -> float | tuple[float, float] | None:
    if value is None or not isinstance(value, Sequence):
        return (
            None
            if value is None
            else validate.real("attention_factor", value, above=0.0, maximum=MAGNITUDE)
        )
    pair = real_tuple("attention_factor", value, above=0.0, maximum=MAGNITUDE)
    if len(pair) != 2:
        raise ValueError(
            f"attention_factor must be a number or a pair (short, long), got {len(pair)} numbers"
        )
    return pair[0], pair[1]
