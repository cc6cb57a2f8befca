"""NTK-aware schedules: a larger base, fixed or depending on the length, and two variants."""

from __future__ import annotations

import functools
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal

from posenc_ref import _validate as validate
from posenc_ref.angles import decimal_context

from .scaling import FrequencySchedule, standard_schedule


@functools.lru_cache(maxsize=256)
def ntk_schedule(base: float, rotary_dim: int, alpha: Decimal) -> tuple[Decimal, ...]:
    """Return the frequencies ``base' ** (-2k/d)`` with ``base' = base * alpha ** (d/(d-2))``.

    Computed as ``base ** (-2k/d) / alpha ** (2k/(d-2))``: the first pair is not changed, the last
    one is divided by alpha exactly.
    """
    if rotary_dim < 4:
        raise ValueError(
            "rotary_dim must be at least 4 for NTK-aware scaling, whose exponent d/(d-2) has no "
            f"value at d = 2, got {rotary_dim}"
        )
    with decimal_context():
        return tuple(
            w / alpha ** (Decimal(2 * k) / (rotary_dim - 2))
            for k, w in enumerate(standard_schedule(base, rotary_dim))
        )


@dataclass(frozen=True, eq=False, repr=False)
class NTKScaling(FrequencySchedule):
    """NTK-aware scaling: the base grows so that only the slowest pair is fully interpolated.

    Formula
        ``theta_k = base' ** (-2k/d)`` with ``base' = base * factor ** (d/(d-2))``, that is
        ``theta_k = base ** (-2k/d) / factor ** (2k/(d-2))``: pair 0 keeps its frequency, the last
        one is divided by ``factor``.  m = 1.
    Source
        bloc97 2023, *NTK-Aware Scaled RoPE* (r/LocalLLaMA); Peng et al. 2023, *YaRN*,
        arXiv:2309.00071, section 3.1, definition 1.
    Traps
        d is ``rotary_dim``, not ``head_dim``, and at least 4.  Some libraries multiply the base by
        ``factor`` itself, without the exponent (diffusers' ``ntk_factor``): give that product as
        ``base`` instead. HunYuan's ``alpha`` is this factor, although its configuration says
        "dynamic". The frequencies are those of plain RoPE with a larger ``base``, so they do not
        show which of the two a model uses.

    Parameters
    ----------
    factor : float
        At least 1.
    """

    factor: float

    def __post_init__(self) -> None:
        self._set(factor=validate.real("factor", self.factor, minimum=1.0))

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """Return the frequencies ``base ** (-2k/d) / factor ** (2k/(d-2))``."""
        return ntk_schedule(base, rotary_dim, Decimal(self.factor))


@dataclass(frozen=True, eq=False, repr=False)
class DynamicNTK(FrequencySchedule):
    """Dynamic NTK: NTK-aware scaling with a factor that depends on the sequence length.

    Formula
        :class:`NTKScaling` with the factor ``alpha = factor * L / max_position - (factor - 1)``.
        Policy "current" has ``L = max(seq_len, max_position)``, so it is plain RoPE up to
        ``max_position``; "static" has ``L = factor * max_position``, so ``alpha = factor**2 -
        factor + 1``.  m = 1.
    Source
        emozilla 2023, *Dynamically Scaled RoPE* (r/LocalLLaMA); the formula is that of
        Hugging Face's ``rope_type="dynamic"`` ("current") and of SGLang and vLLM ("static").
    Traps
        "current": frequencies change with the length of the call, so keys cached in shorter calls
        have other angles, and logits no longer depend on the relative position alone. A batch uses
        the length of its longest sequence. "static" scales short prompts as well.  The YaRN paper's
        "dynamic NTK" (section 3.3) has ``alpha = L / max_position``, which is ``factor=1`` here.

    Parameters
    ----------
    factor : float
        At least 1.
    max_position : int
        The trained length.
    policy : {"current", "static"}
        "current" uses the length of the call; "static" always uses ``factor * max_position``.
    """

    factor: float
    max_position: int
    _: KW_ONLY
    policy: str = "current"

    def __post_init__(self) -> None:
        self._set(
            factor=validate.real("factor", self.factor, minimum=1.0),
            max_position=validate.integer("max_position", self.max_position, minimum=1),
            policy=validate.choice("policy", self.policy, ("current", "static")),
        )

    @property
    def depends_on_length(self) -> bool:
        """True for policy "current"."""
        return self.policy == "current"

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """Return NTK-aware frequencies for the alpha of ``policy``, at ``seq_len`` if "current"."""
        with decimal_context():
            s, trained = Decimal(self.factor), Decimal(self.max_position)
            length = trained * s
            if self.policy == "current":
                length = trained if seq_len is None else max(Decimal(seq_len), trained)
            alpha = 1 + s * (length - trained) / trained  # exactly 1 at the trained length
        return ntk_schedule(base, rotary_dim, alpha)


@dataclass(frozen=True, eq=False, repr=False)
class QwenNTK(FrequencySchedule):
    """Dynamic NTK in steps, as in the first Qwen: alpha is 1, 3, 7, 15, ... as the length doubles.

    Formula
        :class:`NTKScaling` with the factor ``alpha = max(2 ** ceil(log2(L / train_length) + 1) - 1,
        1)``, where L is the length of the call: alpha is 1 up to ``train_length``, 3 up to
        ``2 train_length``, 7 up to ``4 train_length``.
    Source
        Qwen-7B, ``modeling_qwen.py``, ``get_ntk_alpha``; configuration ``use_dynamic_ntk`` with
        ``seq_length``.  Qwen combines it with ``LogNScale`` on queries (``use_logn_attn``).
    Traps
        Qwen computes alpha for the prompt and keeps it while generating: then pass the prompt's
        length as ``seq_len``.  TeleChat has the same alpha, but multiplies cos and sin by
        ``0.1 ln(L / trained length) + 1``; here m = 1.

    Parameters
    ----------
    train_length : int
        The trained length.
    """

    train_length: int

    def __post_init__(self) -> None:
        self._set(train_length=validate.integer("train_length", self.train_length, minimum=1))

    @property
    def depends_on_length(self) -> bool:
        """True: alpha depends on the length."""
        return True

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """Return NTK-aware frequencies for the step that contains ``seq_len``."""
        length = self.train_length if seq_len is None else seq_len
        # The smallest n with train_length * 2**n >= length: no logarithm is rounded.
        steps = (-(-length // self.train_length) - 1).bit_length()
        return ntk_schedule(base, rotary_dim, Decimal(2 ** (steps + 1) - 1))


@dataclass(frozen=True, eq=False, repr=False)
class SuNTK(FrequencySchedule):
    """Su's corrected NTK scaling, which also changes the frequency of the first pair.

    Formula
        ``theta_k = base ** (-2k/d) / factor ** ((2(k+1)/d) ** power)``; the last pair is divided
        by ``factor`` exactly.  m = 1.  ``power=1`` is Su's NTK-RoPE-fixed, equal to
        ``(base * factor) ** (-2k/d) / factor ** (2/d)``; other powers are NTK-RoPE-mixed, equal to
        ``base ** (-2k/d) / exp(a (k+1) ** power)`` with ``a (d/2) ** power = ln factor``.
    Source
        Su Jianlin 2023, *Transformer upgrade path 11*, kexue.fm/archives/9706, which calls the
        power b and recommends 0.625; vLLM's ``rope_type="ntk"``, ``factor`` and ``mixed_b``.
    Traps
        Pair 0 does not keep its frequency, unlike in :class:`NTKScaling`, because the exponent has
        k + 1 instead of k.  With ``power=1`` its frequency is divided by ``factor ** (2/d)``.

    Parameters
    ----------
    factor : float
        At least 1.
    power : float
        Greater than 0.
    """

    factor: float
    _: KW_ONLY
    power: float = 1.0

    def __post_init__(self) -> None:
        self._set(
            factor=validate.real("factor", self.factor, minimum=1.0),
            power=validate.real("power", self.power, above=0.0),
        )

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """Return the frequencies ``base ** (-2k/d) / factor ** ((2(k+1)/d) ** power)``."""
        rows = zip(
            standard_schedule(base, rotary_dim),
            _powers(self.factor, rotary_dim, self.power),
            strict=True,
        )
        with decimal_context():
            return tuple(w / divisor for w, divisor in rows)


@functools.lru_cache(maxsize=256)
def _powers(factor: float, rotary_dim: int, power: float) -> tuple[Decimal, ...]:
    """Return the divisors ``factor ** ((2(k+1)/d) ** power)``, k = 0 .. d/2 - 1."""
    with decimal_context():
        s, exponent = Decimal(factor), Decimal(power)
        return tuple(
            s ** ((Decimal(2 * (k + 1)) / rotary_dim) ** exponent) for k in range(rotary_dim // 2)
        )
