"""YaRN: slow pairs interpolated, fast ones kept, and the logits made a little larger."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal

from . import _validate as validate
from .angles import decimal_context
from .ntk import ramp
from .scaling import FrequencySchedule, standard_schedule


@dataclass(frozen=True, eq=False, repr=False)
class YaRN(FrequencySchedule):
    """YaRN (Yet another RoPE extensioN).

    Formula
        ``corr(r) = d ln(L0 / (2 pi r)) / (2 ln base)``, the pair that turns r times in L0;
        ``low = floor(corr(beta_fast))``, ``high = ceil(corr(beta_slow))``, within [0, d-1];
        ``ramp_k = clip((k - low) / (high - low), 0, 1)``;
        ``theta_k = f_k (1 - ramp_k) + f_k / s * ramp_k`` with ``f_k = base ** (-2k/d)``.
        Factor on cos and sin: ``g(u) = 0.1 u ln s + 1``; m = ``attention_factor`` if given, else
        ``g(mscale) / g(mscale_all_dim)`` if both are given and not 0, else ``g(1)``.
    Source
        Peng et al. 2023, *YaRN*, arXiv:2309.00071, sections 3.2 to 3.4 (equation (22) for the
        temperature ``1/sqrt(t) = 0.1 ln s + 1``); jquesnelle/yarn for floor, ceil and the bounds;
        Hugging Face `_compute_yarn_parameters` for mscale.
    Traps
        * ``truncate``: gpt-oss has False; ignoring it moves single frequencies by 76 %.
        * Fast pairs are those with a *small* k: a reversed ramp interpolates the wrong ones.
        * ``original_max_position`` is the trained length, not ``max_position_embeddings``.
        * m goes on cos and sin both, once: logits get m squared, on the rotated channels only.
        * With one of mscale and mscale_all_dim alone, Hugging Face ignores it (and so does this
          value); DeepSeek's own code, vLLM and Megatron take the missing one for 0.
        * DeepSeek's reference has m = 1 and multiplies the softmax scale by ``g(mscale)`` squared:
          that factor is :attr:`ModelEncoding.softmax_scale`, not part of this value.

    Parameters
    ----------
    factor : float
        s, at least 1: the new context length over the trained one.
    original_max_position : int
        L0, the trained length.
    beta_fast, beta_slow : float
        Turns in L0 above which a pair is kept, below which it is interpolated.
    truncate : bool
        Whether the ends of the ramp are rounded outwards to whole pairs.
    attention_factor : float, optional
        m itself.
    mscale, mscale_all_dim : float, optional
        DeepSeek's split of m; see above.
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

    def __post_init__(self) -> None:
        fast = validate.real("beta_fast", self.beta_fast, above=0.0)
        slow = validate.real("beta_slow", self.beta_slow, above=0.0)
        if fast < slow:
            raise ValueError(
                f"beta_fast must be at least beta_slow = {slow:g} (more turns are faster pairs), "
                f"got {fast:g}: are they exchanged?"
            )
        given = {
            name: validate.real(name, value, minimum=0.0)
            for name in ("mscale", "mscale_all_dim")
            if (value := getattr(self, name)) is not None
        }
        if self.attention_factor is not None:
            given["attention_factor"] = validate.real(
                "attention_factor", self.attention_factor, above=0.0
            )
        self._set(
            factor=validate.real("factor", self.factor, minimum=1.0),
            original_max_position=validate.integer(
                "original_max_position", self.original_max_position, minimum=1
            ),
            beta_fast=fast,
            beta_slow=slow,
            truncate=validate.boolean("truncate", self.truncate),
            **given,
        )

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """``f_k (1 - ramp_k) + f_k / s * ramp_k``."""
        length, fast, slow = self.original_max_position, self.beta_fast, self.beta_slow
        with decimal_context():
            s = Decimal(self.factor)
            return tuple(
                f * (1 - r) + f / s * r
                for f, r in zip(
                    standard_schedule(base, rotary_dim),
                    ramp(base, rotary_dim, length, fast, slow, self.truncate),
                    strict=True,
                )
            )

    def magnitude(self, seq_len: int | None) -> float:
        """The attention factor m."""
        if self.attention_factor is not None:
            return self.attention_factor
        with decimal_context():
            if self.mscale and self.mscale_all_dim:
                return float(self._g(self.mscale) / self._g(self.mscale_all_dim))
            return float(self._g(1.0))

    def _g(self, u: float) -> Decimal:
        return Decimal("0.1") * Decimal(u) * Decimal(self.factor).ln() + 1
