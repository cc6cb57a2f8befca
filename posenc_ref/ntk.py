"""NTK-aware scaling: the base is changed, so that slow pairs stretch and fast ones do not."""

from __future__ import annotations

import functools
import math
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal

from . import _validate as validate
from .angles import TWO_PI, decimal_context, geometric
from .scaling import FrequencySchedule, check_dim, clip, standard_schedule

POLICIES = ("current", "static")


@functools.lru_cache(maxsize=256)
def ntk_schedule(base: float, rotary_dim: int, multiple: Decimal) -> tuple[Decimal, ...]:
    """``(base * multiple ** (d/(d-2))) ** (-2k/d)``, with d = rotary_dim > 2."""
    d = check_dim(rotary_dim)
    with decimal_context():
        stretched = Decimal(base) * multiple ** (Decimal(d) / (d - 2))
        exponents = [Decimal(2 * k) / d for k in range(d // 2)]
    return geometric(stretched, exponents)


@dataclass(frozen=True, eq=False, repr=False)
class NTKScaling(FrequencySchedule):
    """NTK-aware scaling: a larger base, such that the slowest pair is divided by ``factor``.

    Formula
        ``theta_k = base' ** (-2k/d)`` with ``base' = base * factor ** (d/(d-2))``:
        theta_0 = 1 stays, the last frequency becomes ``1/factor`` of what it was.
    Source
        bloc97 2023, *NTK-Aware Scaled RoPE*; Peng et al. 2023, *YaRN*, arXiv:2309.00071,
        section 3.1 and definition 1.  HunYuan's "dynamic" scaling with ``alpha`` is this one.
    Traps
        The exponent has the rotary width d, not head_dim.  Some code multiplies the base by the
        factor itself.  It is nothing but another base, and cannot be told from one.

    Parameters
    ----------
    factor : float
        At least 1.
    """

    factor: float

    def __post_init__(self) -> None:
        self._set(factor=validate.real("factor", self.factor, minimum=1.0))

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """``base' ** (-2k/d)``."""
        return ntk_schedule(base, rotary_dim, Decimal(self.factor))


@dataclass(frozen=True, eq=False, repr=False)
class DynamicNTK(FrequencySchedule):
    """Dynamic NTK: NTK-aware scaling by as much as the length of the sequence needs.

    Formula
        ``base' = base * (s L / max_position - (s - 1)) ** (d/(d-2))`` with s = factor and
        ``L = max(seq_len, max_position)``: unchanged up to max_position.
    Source
        emozilla 2023, *Dynamically Scaled RoPE*; Hugging Face `_compute_dynamic_ntk_parameters`.
    Traps
        ``policy="current"`` recomputes for every length, so that keys rotated earlier no longer
        fit; the length is that of the call (Hugging Face: the largest position of the *batch* plus
        one).  vLLM and SGLang evaluate it once, at ``L = factor * max_position``, for short prompts
        too: ``policy="static"``, a multiple of ``s^2 - s + 1``.

    Parameters
    ----------
    factor : float
        At least 1.
    max_position : int
        The trained length, up to which nothing changes.
    policy : {"current", "static"}
        Whether frequencies follow the length, or stay those of ``factor * max_position``.
    """

    factor: float
    max_position: int
    _: KW_ONLY
    policy: str = "current"

    def __post_init__(self) -> None:
        self._set(
            factor=validate.real("factor", self.factor, minimum=1.0),
            max_position=validate.integer("max_position", self.max_position, minimum=1),
            policy=validate.choice("policy", self.policy, POLICIES),
        )

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """``base' ** (-2k/d)`` at the length, or at ``factor * max_position``."""
        with decimal_context():
            s, original = Decimal(self.factor), Decimal(self.max_position)
            length = s * original if self.policy == "static" else Decimal(seq_len or 1)
            multiple = s * max(length, original) / original - (s - 1)
        return ntk_schedule(base, rotary_dim, multiple)

    @property
    def depends_on_length(self) -> bool:
        """Whether the policy is to follow the length."""
        return self.policy == "current"


@dataclass(frozen=True, eq=False, repr=False)
class NTKByParts(FrequencySchedule):
    """NTK-by-parts as it was before YaRN: linear for slow pairs, NTK between, none for fast ones.

    Formula
        ``corr(r) = d ln(L0 / (2 pi r)) / (2 ln base)``: the pair that turns r times in L0;
        ``ramp(a, b)_k = clip((k - floor(corr(a))) / (ceil(corr(b)) - floor(corr(a))), 0, 1)``;
        first ``mixed = linear * ramp(beta_0, beta_1) + ntk * (1 - ramp(beta_0, beta_1))``, then
        ``theta = mixed * ramp(gamma_0, gamma_1) + base_k * (1 - ramp(gamma_0, gamma_1))``.
    Source
        jquesnelle/yarn, `LlamaPartNTKScaledRotaryEmbedding.py`.
    Traps
        The YaRN paper calls its own two-way blend "NTK-by-parts" (section 3.2): use :class:`YaRN`
        with ``attention_factor=1`` for that one.

    Parameters
    ----------
    factor : float
        At least 1.
    original_max_position : int
        L0, the trained length.
    beta_0, beta_1, gamma_0, gamma_1 : float
        Turns in L0 between which the two blends run.
    """

    factor: float
    original_max_position: int
    _: KW_ONLY
    beta_0: float = 1.25
    beta_1: float = 0.75
    gamma_0: float = 16.0
    gamma_1: float = 2.0

    def __post_init__(self) -> None:
        turns = {
            name: validate.real(name, getattr(self, name), above=0.0)
            for name in ("beta_0", "beta_1", "gamma_0", "gamma_1")
        }
        for fast, slow in (("beta_0", "beta_1"), ("gamma_0", "gamma_1")):
            if turns[fast] < turns[slow]:
                raise ValueError(
                    f"{fast} must be at least {slow} = {turns[slow]:g} (more turns are faster "
                    f"pairs), got {turns[fast]:g}"
                )
        self._set(
            factor=validate.real("factor", self.factor, minimum=1.0),
            original_max_position=validate.integer(
                "original_max_position", self.original_max_position, minimum=1
            ),
            **turns,
        )

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """The two blends, one after the other."""
        plain = standard_schedule(base, rotary_dim)
        ntk = ntk_schedule(base, rotary_dim, Decimal(self.factor))
        length = self.original_max_position
        slow = ramp(base, rotary_dim, length, self.beta_0, self.beta_1, True)
        fast = ramp(base, rotary_dim, length, self.gamma_0, self.gamma_1, True)
        with decimal_context():
            blended = []
            for w, n, a, b in zip(plain, ntk, slow, fast, strict=True):
                mixed = w / Decimal(self.factor) * a + n * (1 - a)
                blended.append(mixed * b + w * (1 - b))
            return tuple(blended)


def ramp(
    base: float, rotary_dim: int, length: int, fast: float, slow: float, truncate: bool
) -> list[Decimal]:
    """0 for pairs that turn more than ``fast`` times in ``length``, 1 for less than ``slow`` times.

    Linear in the pair number between, from ``low`` to ``high``; with ``truncate`` these are
    rounded outwards to whole pairs.  Both stay within [0, d - 1], and are never equal.
    """
    with decimal_context():

        def correction(turns: float) -> Decimal:
            ratio = Decimal(length) / (Decimal(turns) * TWO_PI)
            return rotary_dim * ratio.ln() / (2 * Decimal(base).ln())

        low, high = correction(fast), correction(slow)
        if truncate:
            low, high = Decimal(math.floor(low)), Decimal(math.ceil(high))
        low, high = max(low, Decimal(0)), min(high, Decimal(rotary_dim - 1))
        if low == high:
            high += Decimal("0.001")  # as every implementation does: a step
        return [clip((k - low) / (high - low)) for k in range(rotary_dim // 2)]
