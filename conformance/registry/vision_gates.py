"""Positional logits of ConViT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc_ref import ConViTBias
from posenc_ref.conformance.exact.error_numbers import dot

from . import numbers, register


@register(
    ConViTBias,
    spec="d'Ascoli et al. 2021, ConViT, arXiv:2103.10697, section 3; its code, GPSA",
    examples={
        "convit-3-by-2": ConViTBias(
            numbers("convit-weight", 2, 3),
            numbers("convit-offset", 2),
            numbers("convit-gate", 2),
            window=(3, 2),
        )
    },
)
def convit(e: ConViTBias, i: Any, j: Any) -> Sequence[Any]:
    """Three numbers of a head for the offset in x, in y, and its square."""
    w = e.window[1]
    dx, dy = j % w - i % w, j // w - i // w
    parts = (dx, dy, dx**2 + dy**2)
    return [
        dot(row, parts) + c for row, c in zip(e.weight.tolist(), e.proj_bias.tolist(), strict=True)
    ]
