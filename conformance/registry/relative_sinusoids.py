"""Relative sinusoids with biases: Transformer-XL, XLNet, ESPnet's legacy encoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from posenc_ref import ESPnetLegacy, Sinusoidal, TransformerXL, XLNet
from posenc_ref.conformance.exact.error_numbers import Counted, dot, root

from . import each_key, numbers, register
from .image_tables import sinusoidal

Vector = Sequence[Any]
_W = numbers("transformer-xl-projection", 2, 4, 6)
_U, _V = numbers("transformer-xl-content", 2, 4), numbers("transformer-xl-position", 2, 4)


def _biases(e: Any, h: int) -> Iterator[Vector]:
    """Yield the content bias and the position bias of a head."""
    for bias in (e.content_bias, e.position_bias):
        yield [0.0] * e.head_dim if bias is None else bias[h].tolist()


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
@each_key
def transformer_xl(e: TransformerXL, h: int, q: Vector, k: Vector, i: int, j: int) -> Counted:
    """Return ``(q + u) k + (q + v) r``, where r is the projected sinusoid of the offset."""
    u, v = _biases(e, h)
    r = i - j if e.clamp is None else min(max(i - j, -e.clamp), e.clamp)
    wave = sinusoidal(e.sinusoid, Counted(r))
    projected = [dot(row, wave) for row in e.projection[h].tolist()]
    return (dot(q, projected) + dot(v, projected) + dot(q, k) + dot(u, k)) / root(len(q))


register(
    XLNet,
    spec="Yang et al. 2019, XLNet, arXiv:1906.08237, section 2.5",
    examples={"xlnet": XLNet(_W, _U, _V, sinusoid=Sinusoidal(6, layout="concat"))},
)(transformer_xl)


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
    """Return logits with ESPnet's legacy relative shift.

    For Q queries and K keys, a list holds the unshifted position scores, one row for each query,
    and a 0 before every row. The shift gives query i and key j the entry ``Q + i K + j``.
    """
    n_q, n_k = len(queries), len(keys)
    last = max(e.max_len, n_k) - 1
    projection = e.projection[h].tolist()
    u, v = _biases(e, h)
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
