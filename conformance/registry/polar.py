"""PoPE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc_ref import PoPE
from posenc_ref.conformance.exact.error_numbers import (
    Counted,
    cos,
    fraction,
    power,
    root,
    softplus,
    total,
)

from . import numbers, register

Vector = Sequence[Any]


@register(
    PoPE,
    spec="Gopalakrishnan et al. 2025, PoPE, arXiv:2509.10534",
    examples={
        "pope": PoPE(4),
        "pope-phases": PoPE(4, -abs(numbers("pope-phases", 2, 4)), base=100.0),
    },
)
def pope(e: PoPE, h: int, q: Vector, keys: Sequence[Vector], i: int, at: Sequence[int]) -> Vector:
    """Magnitudes of query and key times the cosine of their angle."""
    d = len(q)
    theta = [power(e.base, fraction(-c, d)) for c in range(d)]
    delta = [0.0] * d if e.phases is None else e.phases[h].tolist()
    logits = []
    for k, j in zip(keys, at, strict=True):
        waves = [cos(Counted(j - i) * w + shift) for w, shift in zip(theta, delta, strict=True)]
        sizes = [softplus(a) * softplus(b) for a, b in zip(q, k, strict=True)]
        logits.append(total(s * w for s, w in zip(sizes, waves, strict=True)) / root(d))
    return logits
