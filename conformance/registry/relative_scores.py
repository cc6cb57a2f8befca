"""Scores of relative positions: Shaw, DeBERTa, TUPE, CoPE, decomposed positions, PoPE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from posenc_ref import TUPE, CoPE, DeBERTa, DecomposedRelative, PoPE, Shaw, T5Bias
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.error_numbers import (
    Counted,
    cos,
    counted,
    dot,
    power,
    root,
    sigmoid,
    softplus,
    total,
)
from posenc_ref.conformance.exact.reference import tokens

from . import each_key, numbers, register
from .learned_biases import t5

Vector = Sequence[Any]


@register(
    Shaw,
    spec="Shaw, Uszkoreit, Vaswani 2018, arXiv:1803.02155, equations (4) and (5)",
    examples={
        "shaw": Shaw(numbers("shaw", 5, 8), before=2),
        "shaw-heads-query-key": Shaw(numbers("shaw-heads", 2, 6, 4), before=4, counted="query-key"),
    },
)
@each_key
def shaw(e: Shaw, h: int, q: Vector, k: Vector, i: int, j: int) -> Counted:
    """Return query times key, plus query times the vector of the clipped offset."""
    table = (e.keys[h] if e.keys.ndim == 3 else e.keys).tolist()
    offset = j - i if e.counted == "key-query" else i - j
    row = table[min(max(offset + e.before, 0), len(table) - 1)]
    return (dot(q, k) + dot(q, row)) / root(len(q))


_KEYS, _QUERIES = numbers("deberta-keys", 2, 8, 4), numbers("deberta-queries", 2, 8, 4)


def _bucket(e: DeBERTa, r: int) -> int:
    """Return the log bucket of r = query - key.

    Near the edge of a bucket, rounded logarithms could give the wrong one: integers decide there.
    """
    if e.buckets is None or e.max_position is None or abs(r) <= e.buckets // 2:
        return r
    mp, mid = mpmath().mp, e.buckets // 2
    ratio = mp.log(mp.mpf(abs(r)) / mid) / mp.log(mp.mpf(e.max_position - 1) / mid) * (mid - 1)
    t = int(mp.nint(ratio))
    if abs(ratio - t) > mp.mpf(10) ** -40:
        t = int(mp.ceil(ratio))
    elif abs(r) ** (mid - 1) * mid**t > (e.max_position - 1) ** t * mid ** (mid - 1):
        t += 1
    return int(math.copysign(mid + t, r))


@register(
    DeBERTa,
    spec="He et al. 2020, DeBERTa, arXiv:2006.03654, equations (2) to (4); microsoft/DeBERTa, "
    "disentangled_attention.py",
    examples={
        "deberta-v1": DeBERTa(_KEYS, _QUERIES),
        "deberta-v3": DeBERTa(_KEYS, _QUERIES, buckets=4, max_position=10),
        "deberta-v3-c2p": DeBERTa(_KEYS, None, buckets=4, max_position=6),
        "deberta-v1-paper-p2c": DeBERTa(None, _QUERIES, p2c="paper"),
    },
)
@each_key
def deberta(e: DeBERTa, h: int, q: Vector, k: Vector, i: int, j: int) -> Counted:
    """Return q.k + q.a + k.b for the learned key vector a and query vector b of the offset."""
    tables = [t for t in (e.relative_keys, e.relative_queries) if t is not None]
    span = tables[0].shape[1] // 2
    there, back = (min(max(_bucket(e, r) + span, 0), 2 * span - 1) for r in (i - j, j - i))
    logit = dot(q, k)
    if e.relative_keys is not None:
        logit += dot(q, e.relative_keys[h].tolist()[there])
    if e.relative_queries is not None:
        logit += dot(k, e.relative_queries[h].tolist()[there if e.p2c == "code" else back])
    return logit / root(len(q) * (1 + len(tables)))


_UNTIED = numbers("tupe-queries", 6, 2, 4), numbers("tupe-keys", 6, 2, 4)


@register(
    TUPE,
    spec="Ke, He, Liu 2020, TUPE, arXiv:2006.15595, equations (7), (8) and (10)",
    examples={
        "tupe-absolute": TUPE(*_UNTIED),
        "tupe-relative-cls": TUPE(
            *_UNTIED,
            bias=T5Bias(numbers("tupe-bias", 8, 2), num_buckets=8, max_distance=16),
            cls_to_others=numbers("tupe-cls-to-others", 2),
            others_to_cls=numbers("tupe-others-to-cls", 2),
        ),
    },
)
@each_key
def tupe(e: TUPE, h: int, q: Vector, k: Vector, i: int, j: int) -> Counted:
    """Return query times key, plus the product of position vectors; [CLS] has its own biases."""
    scale = root(2 * len(q))
    if e.cls_to_others is not None and e.others_to_cls is not None and 0 in (i, j):
        untied = counted((e.cls_to_others if i == 0 else e.others_to_cls).tolist()[h])
    else:
        row, column = e.position_queries[i, h].tolist(), e.position_keys[j, h].tolist()
        untied = dot(row, column) / scale
        untied += t5(e.bias, i, j)[h] if e.bias is not None else 0
    return dot(q, k) / scale + untied


@register(
    CoPE,
    spec="Golovneva et al. 2024, Contextual Position Encoding, arXiv:2405.18719, equations (3) to "
    "(5) and appendix B",
    examples={
        "cope": CoPE(numbers("cope-embedding", 4, 8)),
        "cope-long": CoPE(numbers("cope-embedding", 9, 4)),
    },
    # Small q and k, so that no gate rounds to 0 or 1.
    inputs=lambda e: [tokens(f"cope-{len(e.embedding)}", 2, e.head_dim, 7, size=2.0**-4)],
)
def cope(e: CoPE, h: int, q: Vector, keys: Sequence[Vector], i: int, at: Sequence[int]) -> Vector:
    """Return query times key, plus query times the embedding at the sum of the gates.

    The docstring of :class:`posenc_ref.CoPE` states the error unit of the second term.
    """
    products = [dot(q, k) / root(len(q)) for k in keys]
    gates = [sigmoid(x) if j <= i else Counted(0) for x, j in zip(products, at, strict=True)]
    shaken = sum(x.terms for x, j in zip(products, at, strict=True) if j <= i) / 4
    rows = [dot(q, row) for row in e.embedding.tolist()]
    logits = []
    for k, product in enumerate(products):
        p = min(total(gates[k:]).value, len(rows) - 1)
        low = int(p)
        one, two = rows[low], rows[min(low + 1, len(rows) - 1)]
        value = (1 - (p - low)) * one.value + (p - low) * two.value
        logits.append(product + Counted(value, (one.terms + two.terms) * (1 + float(p) + shaken)))
    return logits


@register(
    DecomposedRelative,
    spec="Li et al. 2021, MViTv2, arXiv:2112.01526, equation (4); SAM's image encoder",
    examples={
        "decomposed-2-by-3": DecomposedRelative(
            numbers("decomposed-height", 3, 4), numbers("decomposed-width", 5, 4), grid=(2, 3)
        )
    },
)
@each_key
def decomposed(e: DecomposedRelative, h: int, q: Vector, k: Vector, i: int, j: int) -> Counted:
    """Return query times key, plus the unscaled query times the vectors of both offsets."""
    height, width = e.grid
    (y, x), (v, u) = divmod(i, width), divmod(j, width)
    rows = e.height_table[y - v + height - 1], e.width_table[x - u + width - 1]
    position = dot(q, rows[0].tolist()) + dot(q, rows[1].tolist())
    return dot(q, k) / root(len(q)) + position


@register(
    PoPE,
    spec="Gopalakrishnan et al. 2025, PoPE, arXiv:2509.10534",
    examples={
        "pope": PoPE(4),
        "pope-phases": PoPE(4, -abs(numbers("pope-phases", 2, 4)), base=100.0),
    },
)
@each_key
def pope(e: PoPE, h: int, q: Vector, k: Vector, i: int, j: int) -> Counted:
    """Return the magnitudes of query and key times the cosine of the angle between them."""
    d = len(q)
    theta = [power(e.base, -c, d) for c in range(d)]
    delta = [0.0] * d if e.phases is None else e.phases[h].tolist()
    waves = [cos(Counted(j - i) * w + shift) for w, shift in zip(theta, delta, strict=True)]
    sizes = [softplus(a) * softplus(b) for a, b in zip(q, k, strict=True)]
    return dot(sizes, waves) / root(d)
