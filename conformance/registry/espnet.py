"""ESPnet's legacy encoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc_ref import ESPnetLegacy, Sinusoidal
from posenc_ref.conformance.exact.error_numbers import Counted, dot, root

from . import numbers, register
from .image_tables import sinusoidal

Vector = Sequence[Any]


@register(
    ESPnetLegacy,
    spec="espnet/espnet, espnet/nets/pytorch_backend/transformer: LegacyRelPositionalEncoding, "
    "LegacyRelPositionMultiHeadedAttention",
    examples={
        "espnet-legacy": ESPnetLegacy(
            numbers("espnet-projection", 2, 4, 6),
            numbers("espnet-content", 2, 4),
            numbers("espnet-position", 2, 4),
            sinusoid=Sinusoidal(6),
            max_len=10,
        )
    },
)
def espnet_legacy(
    e: ESPnetLegacy,
    h: int,
    queries: Sequence[Vector],
    keys: Sequence[Vector],
    q_at: Sequence[int],
    k_at: Sequence[int],
) -> Sequence[Vector]:
    """Position scores, read from a flat list with a 0 before every row.

    Row i, column j of the result is entry ``Q + i K + j`` of that list.
    """
    n_q, n_k = len(queries), len(keys)
    last = max(e.max_len, n_k) - 1
    projection = e.projection[h].tolist()
    none = [0.0] * e.head_dim
    u, v = (none if b is None else b[h].tolist() for b in (e.content_bias, e.position_bias))
    table = []
    for column in range(n_k):
        wave = sinusoidal(e.sinusoid, Counted(last - column))
        table.append([dot(row, wave) for row in projection])
    flat = [
        entry
        for q in queries
        for entry in (Counted(0), *(dot(q, row) + dot(v, row) for row in table))
    ]
    scale = 1 / root(e.head_dim)
    return [
        [(dot(q, k) + dot(u, k) + flat[n_q + i * n_k + j]) * scale for j, k in enumerate(keys)]
        for i, q in enumerate(queries)
    ]
