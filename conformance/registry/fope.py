"""FoPE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from posenc_ref import FoPE
from posenc_ref.conformance.exact.error_numbers import (
    Counted,
    cos,
    counted,
    dot,
    power,
    root,
    sin,
    total,
)

from . import each_key, numbers, register

Vector = Sequence[Any]


@register(
    FoPE,
    spec="Hua et al. 2024, Fourier Position Embedding, arXiv:2412.17739, section 4; XTuner, "
    "FourierEmbedding",
    examples={
        "fope": FoPE(
            8,
            numbers("fope-cos", 2, 3, 3) / 4,
            numbers("fope-sin", 2, 3, 3) / 4,
            dropped_sin=0,
            base=100.0,
        ),
        "fope-shared-ones": FoPE(
            8, numbers("fope-one-cos", 1, 4, 2), numbers("fope-one-sin", 1, 4, 2), dropped_sin=1
        ),
    },
)
@each_key
def fope(e: FoPE, h: int, q: Vector, k: Vector, i: int, j: int) -> Counted:
    """Return the product of the mapped query and the mapped key."""
    return dot(_mapped(e, h, q, i), _mapped(e, h, k, j)) / root(len(q))


def _mapped(e: FoPE, h: int, x: Vector, p: int) -> list[Counted]:
    """Return the mapped vector: first the first channels of all pairs, then the second ones."""
    half = len(x) // 2
    c, s = _sums(e, e.cos_coef, cos, h, p, 1), _sums(e, e.sin_coef, sin, h, p, e.dropped_sin)
    first = [counted(x[d]) * c[d] - counted(x[d + half]) * s[d] for d in range(half)]
    return first + [counted(x[d + half]) * c[d] + counted(x[d]) * s[d] for d in range(half)]


def _sums(
    e: FoPE, coef: Any, wave: Callable[[Any], Counted], h: int, p: int, dropped: int
) -> list[Counted]:
    """Return the sums of waves of every pair at position p, or ``dropped`` for dropped pairs."""
    rows = coef[h % len(coef)].tolist()
    waves = [wave(Counted(p) * power(e.base, -2 * k, e.head_dim)) for k in range(len(rows))]
    kept = [
        total(c * w for c, w in zip(column, waves, strict=True))
        for column in zip(*rows, strict=True)
    ]
    return kept + [Counted(dropped)] * (e.head_dim // 2 - len(kept))
