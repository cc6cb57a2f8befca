"""Attention with linear biases (ALiBi)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import Any

import numpy as np

from . import _validate as validate
from ._namespace import Array, device_of, from_host, namespace
from .bias import Bias
from .limits import MAX_BIAS

#: Digits of a slope: 2**17 products keep more than 70 of them.
_DIGITS = 80


@lru_cache(maxsize=64)  # 50-digit powers take longer than the rest of a bias
def slopes(n: int, max_bias: float) -> tuple[float, ...]:
    """Return the slopes of n heads, as :class:`ALiBi` defines them."""
    c = 1 << (n.bit_length() - 1)  # the largest power of two that is at most n
    with localcontext(Context(prec=_DIGITS)):
        ratio, power, powers = 2 ** (-Decimal(max_bias) / (2 * c)), Decimal(1), []
        for _ in range(2 * c):  # products take a fiftieth of the time of powers
            power *= ratio
            powers.append(float(power))
    return (*powers[1::2], *powers[::2])[:n]


@dataclass(frozen=True, eq=False, repr=False)
class ALiBi(Bias):
    """Attention with linear biases.

    Formula
        ``b_h(i, j) = -m_h |i - j|``.  Logits are ``q . k / sqrt(d) + b``, or
        ``(q . k + b) / sqrt(d)`` with ``bias_inside_scale``.
        If the number of heads n is a power of two, ``m_h = 2 ** (-max_bias * h / n)``, h = 1 .. n.
        For other n, let c be the largest power of two below n.  The first c slopes are those for
        c heads.  The other n - c slopes are slopes 1, 3, 5, ... of those for 2c heads.
    Source
        Press, Smith, Lewis 2021, *Train Short, Test Long*, arXiv:2108.12409, section 3.  The rule
        for other n is in the authors' code (``get_slopes``).  BLOOM, MPT and Falcon-RW have the
        same slopes.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|b|``, B = 0.

    Parameters
    ----------
    num_heads : int
    causal : bool
        True: queries attend only to keys j <= i, as in the paper. The formula is evaluated at
        later keys too; the caller masks them.  False: queries attend to all keys.
    max_bias : float
        8 in the paper; ``alibi_bias_max`` in MPT.  At most 1022: no slope is rounded to 0.
    bias_inside_scale : bool
        True in Falcon-RW, where the bias is divided by sqrt(d) with the product; False in the
        paper, BLOOM and MPT.

    Notes
    -----
    Positions may be fractional.  The result is float64 unless ``dtype=`` is given, because bfloat16
    cannot represent all distances above 256.
    """

    num_heads: int
    _: KW_ONLY
    causal: bool = True
    max_bias: float = 8.0
    bias_inside_scale: bool = False

    holds = frozenset({"symmetric", "zero-at-own", "decay"})

    def __post_init__(self) -> None:
        self._set(
            num_heads=validate.size("num_heads", self.num_heads, minimum=1),
            causal=validate.boolean("causal", self.causal),
            max_bias=validate.real("max_bias", self.max_bias, above=0.0, maximum=MAX_BIAS),
            bias_inside_scale=validate.boolean("bias_inside_scale", self.bias_inside_scale),
        )

    @property
    def sees_future(self) -> bool:
        """Whether queries attend to later keys; False for a causal bias."""
        return not self.causal

    @property
    def up_to_constant(self) -> bool:  # type: ignore[override]
        """Whether ``check`` accepts the bias plus any constant for each query; True if causal.

        Softmax ignores such a constant.  For j <= i, the common form ``m_h j`` is ``b_h(i, j)``
        plus the constant ``m_h i``.
        """
        return self.causal

    def slopes(self) -> np.ndarray:
        """Return the slopes m_h, shape (num_heads,), NumPy float64, correctly rounded."""
        return np.array(slopes(self.num_heads, self.max_bias))

    def _of_offset(self, offset: Array) -> Array:
        xp: Any = namespace(offset)
        m = from_host(self.slopes()[:, None, None], xp, device_of(offset))
        return -m * xp.abs(xp.expand_dims(offset, axis=-3))
