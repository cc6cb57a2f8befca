"""A second route to rotary truths: ``posenc_ref``'s own 50-digit frequencies, angles in turns.

It shares only the inputs with the first route.  Pairs, axes, frequencies and m come from the
specification's class.  Whole turns are dropped exactly, and cos and sin of the rest are power
series in decimal arithmetic.
"""

from __future__ import annotations

import functools
from decimal import Decimal
from typing import Any

import numpy as np

from posenc_ref import MixedRoPE, Rotary, XPos
from posenc_ref.angles import TWO_PI, decimal_context

Array = Any

#: The epsilon of RMSNorm, as float64 has it.
EPS = 1e-6


@functools.lru_cache(maxsize=65536)
def decimal_cos_sin(angle: Decimal) -> tuple[Decimal, Decimal]:
    """cos and sin in decimal: whole quarter turns off, then the power series."""
    with decimal_context():
        quarters = (4 * angle / TWO_PI).to_integral_value()
        rest = angle - quarters * TWO_PI / 4
        cos = sin = Decimal(0)
        term, n = Decimal(1), 0
        while abs(term) > Decimal("1e-60"):
            cos, sin = cos + term, sin + term * rest / (n + 1)
            term = -term * rest * rest / ((n + 1) * (n + 2))
            n += 2
        for _ in range(int(quarters % 4) % 4):
            cos, sin = -sin, cos
        return cos, sin


def decimals(x: np.ndarray) -> Array:
    """Floats as the decimals they are."""
    return np.frompyfunc(Decimal, 1, 1)(x.astype(np.float64).astype(object))


def normed(x: np.ndarray, weight: np.ndarray) -> Array:
    """RMSNorm with eps 1e-6."""
    exact = decimals(x)
    with decimal_context():
        mean = (exact * exact).sum(axis=-1, keepdims=True) / x.shape[-1] + Decimal(EPS)
        return exact / np.frompyfunc(Decimal.sqrt, 1, 1)(mean) * decimals(weight)


def _angles(e: Rotary, at: Array, seq_len: int | None, offset: float) -> Array:
    """The angle of every pair (..., pairs) for positions (A, ...), without ``sign``."""
    with decimal_context():
        start = Decimal(offset)
        exact = np.frompyfunc(lambda p: Decimal(p) + start, 1, 1)(at.astype(object))
        if isinstance(e, MixedRoPE):
            weight = np.frompyfunc(Decimal, 1, 1)(e.weight.astype(object))
            return sum(exact[a][..., None] * weight[a] for a in range(e.num_axes))
        axes = np.zeros(e.pairs()[0].size, dtype=int) if e.axes() is None else e.axes()
        return np.moveaxis(exact[axes], 0, -1) * np.array(e.decimal_frequencies(seq_len))


def _tables(
    e: Rotary, positions: np.ndarray, seq_len: int | None, offset: float
) -> tuple[Array, Array]:
    at = positions
    if e.num_axes == 1:
        at = positions[None]
    elif positions.ndim < 2:
        at = np.broadcast_to(positions, (e.num_axes, *positions.shape))
    angles = _angles(e, at, seq_len, offset)
    both: Any = np.frompyfunc(decimal_cos_sin, 1, 2)(angles)
    return both[0], both[1]


def call_length(e: Rotary, positions: np.ndarray) -> int | None:
    """The length of a call where it matters."""
    return int(positions.max()) + 1 if e.depends_on_length else None


def rotate(
    e: Rotary, x: np.ndarray, positions: np.ndarray, m: Decimal, *, back: bool = False,
    decay: int = 0, again: bool = False,
) -> Array:  # fmt: skip
    """The value of ``apply``, of its transpose, or of rotating once more, in decimal."""
    offset = 0.0 if again else e.offset
    cos, sin = _tables(e, positions, call_length(e, positions), offset)
    if cos.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    with decimal_context():
        cos, sin = m * cos, m * sin * (-e.sign if back else e.sign)
        if decay:
            growth = _decays(e, positions, decay)
            cos, sin = cos * growth, sin * growth
        read, written = e.pairs(), e.output_pairs()
        if back:
            read, written = written, read
        elif again:
            read = written
        exact = x.copy() if x.dtype == object else decimals(x)
        x1, x2 = exact[..., read[0]], exact[..., read[1]]
        exact[..., written[0]], exact[..., written[1]] = x1 * cos - x2 * sin, x2 * cos + x1 * sin
        return exact


def _decays(e: Rotary, positions: np.ndarray, power: int) -> Array:
    """xPos's ``zeta ** (power n)``, (S, pairs)."""
    assert isinstance(e, XPos)
    gamma, n = Decimal(e.gamma), e.head_dim // 2
    zeta = [(Decimal(2 * k) / e.head_dim + gamma) / (1 + gamma) for k in range(n)]
    steps = [(Decimal(p) - Decimal(e.centre)) / Decimal(e.scale_base) for p in positions.tolist()]
    return np.array([[z ** (power * step) for z in zeta] for step in steps], dtype=object)


def cos_sin(e: Rotary, positions: np.ndarray, m: Decimal) -> tuple[Array, Array]:
    """``m cos`` and ``m sin``, in decimal."""
    cos, sin = _tables(e, positions, call_length(e, positions), e.offset)
    with decimal_context():
        return m * cos, m * sin
