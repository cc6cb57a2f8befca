"""Relative sinusoids with biases: Transformer-XL and XLNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc_ref import Sinusoidal, TransformerXL, XLNet
from posenc_ref.conformance.exact.error_numbers import Counted, dot, root

from . import numbers, register
from .image_tables import sinusoidal

Vector = Sequence[Any]
_W = numbers("transformer-xl-projection", 2, 4, 6)
_U, _V = numbers("transformer-xl-content", 2, 4), numbers("transformer-xl-position", 2, 4)


@register(
    TransformerXL,
    spec="Dai et al. 2019, Transformer-XL, arXiv:1901.02860, section 3.3",
    examples={
        "transformer-xl": TransformerXL(_W, _U, _V, sinusoid=Sinusoidal(6, layout="concat")),
        "conformer": TransformerXL(_W, _U, _V, sinusoid=Sinusoidal(6)),
        "transformer-xl-clamp": TransformerXL(
            _W, sinusoid=Sinusoidal(6, layout="concat", base=100.0), clamp=3
        ),
    },
)
def transformer_xl(
    e: TransformerXL, h: int, q: Vector, keys: Sequence[Vector], i: int, at: Sequence[int]
) -> Vector:
    """Query and biases times the key and the projected sinusoid of the offset."""
    none = [0.0] * len(q)
    u, v = (none if b is None else b[h].tolist() for b in (e.content_bias, e.position_bias))
    logits = []
    for k, j in zip(keys, at, strict=True):
        r = i - j if e.clamp is None else min(max(i - j, -e.clamp), e.clamp)
        wave = sinusoidal(e.sinusoid, Counted(r))
        projected = [dot(row, wave) for row in e.projection[h].tolist()]
        terms = [dot(a, b) for a in (q, v) for b in (projected,)] + [dot(a, k) for a in (q, u)]
        logits.append(sum(terms) / root(len(q)))
    return logits


register(
    XLNet,
    spec="Yang et al. 2019, XLNet, arXiv:1906.08237, section 2.5",
    examples={"xlnet": XLNet(_W, _U, _V, sinusoid=Sinusoidal(6, layout="concat"))},
)(transformer_xl)
