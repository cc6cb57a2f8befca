"""YaRN: the scaling of a pair depends on its number of turns within the trained length.

The index k of a pair that turns r times within the trained length L0 is::

    r = L0 * base ** (-2k/d) / (2 pi)     <=>     k = d ln(L0 / (2 pi r)) / (2 ln base)

This k is not an integer. The weight of the interpolated frequency is a ramp over the pairs: it
rises from 0 where pairs turn ``beta_fast`` times to 1 where they turn ``beta_slow`` times. The pair
indices of these two ends are the correction range.
"""

from __future__ import annotations

import functools
from dataclasses import KW_ONLY, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from posenc_ref import _validate as validate
from posenc_ref.angles import TWO_PI, decimal_context
from posenc_ref.limits import MAGNITUDE

from .scaling import FrequencySchedule, clip, standard_schedule


@functools.lru_cache(maxsize=256)
def ramp(
    base: float, rotary_dim: int, length: int, fast: float, slow: float, truncate: bool = True
) -> tuple[Decimal, ...]:
    """Return the ramp: 0 at pairs with ``fast`` turns, 1 at those with ``slow``, linear between.

    ``low = correction(fast)`` and ``high = correction(slow)`` are the pair indices at which a pair
    turns ``fast`` or ``slow`` times within ``length``. If ``truncate``, they are rounded outwards
    to whole pairs. Then ``low`` is clamped to at least 0 and ``high`` to at most d - 1, and 0.001
    is added to ``high`` if they are equal. The value of ``correction`` is never exactly an integer,
    because 2 pi is transcendental. So its 50 digits suffice to find floor and ceil.
    """
    with decimal_context():

        def correction(turns: float) -> Decimal:
            ratio = Decimal(length) / (TWO_PI * Decimal(turns))
            return rotary_dim * ratio.ln() / (2 * Decimal(base).ln())

        low, high = correction(fast), correction(slow)
        if truncate:
            low, high = low.to_integral_value(ROUND_FLOOR), high.to_integral_value(ROUND_CEILING)
        low, high = max(low, Decimal(0)), min(high, Decimal(rotary_dim - 1))
        if low == high:
            high += Decimal("0.001")
        if low > high:
            raise ValueError(
                f"original_max_position = {length} with base {base:g} and rotary_dim {rotary_dim} "
                f"puts the correction range outside the pairs (from {float(low):g} to "
                f"{float(high):g}): the ramp would fall instead of rise. Every pair turns "
                + (f"less than {slow:g}" if high < 0 else f"more than {fast:g}")
                + " times within that length; use LinearScaling or no scaling"
            )
        return tuple(clip((k - low) / (high - low)) for k in range(rotary_dim // 2))


@functools.lru_cache(maxsize=256)
def _powers(s: Decimal, exponents: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
    with decimal_context():
        return tuple(s**e for e in exponents)


def mscale(factor: float, weight: float) -> Decimal:
    """Return ``0.1 weight ln(factor) + 1``, YaRN's factor on cos and sin."""
    with decimal_context():
        return Decimal("0.1") * Decimal(weight) * Decimal(factor).ln() + 1


@dataclass(frozen=True, eq=False, repr=False)
class YaRN(FrequencySchedule):
    """YaRN: slow pairs are interpolated, fast pairs unchanged, cos and sin multiplied by m.

    Formula
        ``theta_k = (1 - w_k) f_k + w_k f_k / factor`` with ``f_k = base ** (-2k/d)`` and the ramp
        ``w_k = clip((k - low) / (high - low), 0, 1)``;
        ``low = max(floor(c(beta_fast)), 0)``, ``high = min(ceil(c(beta_slow)), d-1)`` (plus 0.001
        if equal), ``c(r) = d ln(L0 / (2 pi r)) / (2 ln base)``, L0 = original_max_position.
        m is ``attention_factor``; else ``g(mscale) / g(mscale_all_dim)``; else ``g(1)``; with
        ``g(u) = 0.1 u ln(factor) + 1``.
    Source
        Peng et al. 2023, *YaRN*, arXiv:2309.00071, sections 3.2 (the blend) and 3.4 (m, which is
        ``sqrt(1/t)`` there), and its code, jquesnelle/yarn ``LlamaYaRNScaledRotaryEmbedding``;
        mscale: DeepSeek-V2 and V3, ``yarn_get_mscale``.
    Defaults
        beta_fast 32 and beta_slow 1 are the paper's beta and alpha for Llama.
    Traps
        * ``truncate``: gpt-oss needs False. Several libraries do not support it (one frequency is
          then off by 76 %), and Hugging Face ignores it in parameters nested by layer type.
        * The ramp is linear in k, as in the paper's code and all libraries.  The formula in the
          paper is linear in the number of turns: ``Llama3Scaling(factor, beta_slow, beta_fast,
          L0)``.
        * ``d - 1`` is a channel index but k a pair index; some libraries clamp at ``d/2 - 1``.
        * Take L0 and ``factor`` from the configuration's scaling entries.  Do not use
          max_position_embeddings for L0, or max_position_embeddings / L0 for ``factor``.
        * m multiplies cos and sin, so the rotated channels' part of a logit is multiplied by m
          squared.
        * With mscale or mscale_all_dim missing or 0, Hugging Face ignores both and uses g(1);
          DeepSeek's code (vLLM, Megatron) replaces a missing mscale by 1 and a missing
          mscale_all_dim by 0, with g(0) = 1. If these two rules give different m, this class raises
          ValueError unless attention_factor is given.
        * DeepSeek's own models have m = 1 and multiply all logits by g(mscale_all_dim) squared:
          that factor belongs to ``ModelEncoding.softmax_scale``.

    Parameters
    ----------
    factor : float
        At least 1: the new context length divided by the trained one.
    original_max_position : int
        The trained length L0. ValueError if the correction range is outside the pairs.
    beta_fast, beta_slow : float
        Pairs with more than beta_fast turns within L0 keep their frequency; the frequencies of
        pairs with fewer than beta_slow turns are divided by factor.
    truncate : bool
        Round the ends of the ramp outwards to whole pairs.
    attention_factor : float, optional
        m itself; mscale and mscale_all_dim are then not used.
    mscale, mscale_all_dim : float, optional
        DeepSeek's two parts of m, as in the formula; give both or neither.
    blend : {"linear", "geometric"}
        "geometric" is ``theta_k = f_k / factor ** w_k`` as in Grok ("yarn_log").
    """

    factor: float
    original_max_position: int
    _: KW_ONLY
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    blend: str = "linear"

    def __post_init__(self) -> None:
        def optional(name: str, **bound: float) -> float | None:
            value = getattr(self, name)
            return None if value is None else validate.real(name, value, **bound)

        self._set(
            factor=validate.real("factor", self.factor, minimum=1.0),
            original_max_position=validate.integer(
                "original_max_position", self.original_max_position, minimum=1
            ),
            beta_fast=validate.real("beta_fast", self.beta_fast, above=0.0),
            beta_slow=validate.real("beta_slow", self.beta_slow, above=0.0),
            truncate=validate.boolean("truncate", self.truncate),
            attention_factor=optional("attention_factor", above=0.0, maximum=MAGNITUDE),
            mscale=optional("mscale", minimum=0.0),
            mscale_all_dim=optional("mscale_all_dim", minimum=0.0),
            blend=validate.choice("blend", self.blend, ("linear", "geometric")),
        )
        if self.beta_slow > self.beta_fast:
            raise ValueError(
                "beta_slow must be at most beta_fast (they count turns within the trained "
                f"length; are they swapped?), got beta_fast={self.beta_fast:g} and "
                f"beta_slow={self.beta_slow:g}"
            )
        both = self.mscale and self.mscale_all_dim
        same = self.mscale in (None, 1.0) and not self.mscale_all_dim
        if not both and not same and self.attention_factor is None:
            raise ValueError(
                "mscale and mscale_all_dim must both be given and positive, got "
                f"mscale={self.mscale} and mscale_all_dim={self.mscale_all_dim}: if one of them is "
                "missing or 0, Hugging Face ignores both, while DeepSeek's code uses defaults; "
                "give attention_factor"
            )
        validate.real("m, which mscale and mscale_all_dim give,", self.magnitude(None),
                      maximum=MAGNITUDE)  # fmt: skip

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """Return frequencies ``(1 - w_k) f_k + w_k f_k / factor``, or ``f_k / factor ** w_k``."""
        plain = standard_schedule(base, rotary_dim)
        gamma = ramp(
            base, rotary_dim, self.original_max_position, self.beta_fast, self.beta_slow,
            self.truncate,
        )  # fmt: skip
        with decimal_context():
            s = Decimal(self.factor)
            if self.blend == "geometric":
                divisors = _powers(s, gamma)
                return tuple(f / divisor for f, divisor in zip(plain, divisors, strict=True))
            return tuple((1 - g) * f + g * (f / s) for f, g in zip(plain, gamma, strict=True))

    def magnitude(self, seq_len: int | None) -> float:
        """Return m: ``attention_factor``, or ``g(mscale) / g(mscale_all_dim)``, or ``g(1)``."""
        if self.attention_factor is not None:
            return self.attention_factor
        if not self.mscale or not self.mscale_all_dim:
            return float(mscale(self.factor, 1.0))
        with decimal_context():
            return float(
                mscale(self.factor, self.mscale) / mscale(self.factor, self.mscale_all_dim)
            )
