"""NTK-by-parts, the forerunner of YaRN."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal

from posenc_ref import _validate as validate
from posenc_ref.angles import decimal_context

from .ntk import ntk_schedule
from .scaling import FrequencySchedule, standard_schedule
from .yarn import ramp


@dataclass(frozen=True, eq=False, repr=False)
class NTKByParts(FrequencySchedule):
    """NTK-by-parts, YaRN's forerunner: plain fast pairs, NTK-aware middle, interpolated slow pairs.

    Formula
        ``theta_k = (1 - c_k) f_k + c_k ((1 - b_k) n_k + b_k f_k / factor)``, m = 1.  f_k is
        ``base ** (-2k/d)``, and n_k is the frequency of :class:`NTKScaling` with this factor.  b_k
        and c_k are ramps like that of :class:`YaRN`, linear in k between two pairs: c_k rises from
        0 at the pair that turns gamma_0 times within the trained length to 1 at the pair that turns
        gamma_1 times; b_k does so from beta_0 to beta_1.
    Source
        bloc97 2023, jquesnelle/yarn ``LlamaPartNTKScaledRotaryEmbedding``, whose ``ntk_factor``
        and ``extrapolation_factor`` are 1 here.
    Traps
        The YaRN paper calls another formula "NTK-by-parts": its own blend in section 3.2, without
        the NTK-aware part.  Written as in the paper, with a ramp linear in the number of turns,
        that blend is :class:`Llama3Scaling`; with the ramp of the paper's code it is :class:`YaRN`
        with ``attention_factor=1``.

    Parameters
    ----------
    factor : float
        At least 1.
    original_max_position : int
        The trained length; see :class:`YaRN`.
    beta_0, beta_1, gamma_0, gamma_1 : float
        The ends of the ramps, in turns within the trained length; beta_0 >= beta_1 and gamma_0 >=
        gamma_1. The defaults were found by experiment on Llama.
    """

    factor: float
    original_max_position: int
    _: KW_ONLY
    beta_0: float = 1.25
    beta_1: float = 0.75
    gamma_0: float = 16.0
    gamma_1: float = 2.0

    def __post_init__(self) -> None:
        self._set(
            factor=validate.real("factor", self.factor, minimum=1.0),
            original_max_position=validate.integer(
                "original_max_position", self.original_max_position, minimum=1
            ),
            **{
                name: validate.real(name, getattr(self, name), above=0.0)
                for name in ("beta_0", "beta_1", "gamma_0", "gamma_1")
            },
        )
        for name in ("beta", "gamma"):
            first, last = getattr(self, f"{name}_0"), getattr(self, f"{name}_1")
            if last > first:
                raise ValueError(
                    f"{name}_1 must be at most {name}_0 (both count turns within the trained "
                    f"length), got {name}_0={first:g} and {name}_1={last:g}"
                )

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """Return the frequencies ``(1 - c_k) f_k + c_k ((1 - b_k) n_k + b_k f_k / factor)``."""
        length, s = self.original_max_position, Decimal(self.factor)
        plain = standard_schedule(base, rotary_dim)
        ntk = ntk_schedule(base, rotary_dim, s)
        beta = ramp(base, rotary_dim, length, self.beta_0, self.beta_1)
        gamma = ramp(base, rotary_dim, length, self.gamma_0, self.gamma_1)
        with decimal_context():
            return tuple(
                (1 - c) * f + c * ((1 - b) * n + b * (f / s))
                for f, n, b, c in zip(plain, ntk, beta, gamma, strict=True)
            )
