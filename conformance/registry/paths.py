"""Scores that depend on the tokens between key and query: Selective RoPE, PaTH."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc_ref import ForgettingBias, PaTH, SelectiveRoPE
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.error_numbers import Counted, cos, dot, root, sin, total

from . import each_key, numbers, register

Vector = Sequence[Any]


@register(
    SelectiveRoPE,
    spec="Movahedi et al. 2025, Selective RoPE, arXiv:2511.17388; "
    "timurcarstensen/selective-rope, modules/rotary.py",
    examples={
        "selective-rope": SelectiveRoPE(4, numbers("selective", 2, 9, 2), layout="half"),
        "selective-rope-partial": SelectiveRoPE(
            8, numbers("selective-partial", 1, 7, 3), layout="interleaved"
        ),
    },
)
@each_key
def selective(e: SelectiveRoPE, h: int, q: Vector, k: Vector, i: int, j: int) -> Counted:
    """Return the product of query and key, each rotated by the sum of increments up to itself."""
    turned_q, turned_k = _turned(e, h, q, i), _turned(e, h, k, j)
    return dot(turned_q, turned_k) / root(len(q))


def _turned(e: SelectiveRoPE, h: int, x: Vector, at: int) -> Vector:
    """Return x of head h with its pairs rotated by the sum of the increments up to ``at``."""
    y = list(x)
    count = e.increments.shape[2]
    for pair in range(count):
        angle = total(e.increments[h, : at + 1, pair].tolist())
        a, b = (pair, pair + count) if e.layout == "half" else (2 * pair, 2 * pair + 1)
        y[a], y[b] = (
            cos(angle) * x[a] - sin(angle) * x[b],
            sin(angle) * x[a] + cos(angle) * x[b],
        )
    return y


_GATES = ForgettingBias(-abs(numbers("path-gates", 2, 7)))


@register(
    PaTH,
    spec="Yang et al. 2025, PaTH Attention, arXiv:2505.16381, section 2; fla-core, "
    "fla/ops/path_attn/naive.py",
    examples={
        "path": PaTH(numbers("path", 2, 9, 4), abs(numbers("path-beta", 2, 9)) / 4),
        "path-fox": PaTH(
            numbers("path-fox", 2, 7, 4), abs(numbers("path-fox-beta", 2, 7)) / 4, forget=_GATES
        ),
        "path-fox-scaled-gates": PaTH(
            numbers("path-fox", 2, 7, 4), abs(numbers("path-fox-beta", 2, 7)) / 4,
            forget=_GATES, gates_scaled=True,
        ),
    },
)  # fmt: skip
@each_key
def path(e: PaTH, h: int, q: Vector, k: Vector, i: int, j: int) -> Counted:
    """Return the product of the query with the key, carried over the tokens after the key.

    The key meets the matrices from the first to the last, the order opposite to that of the class.
    The docstring of :class:`posenc_ref.PaTH` states the error unit.
    """
    mp = mpmath().mp
    moved = [mp.mpf(c) for c in k]
    for t in range(j + 1, i + 1):
        v = [mp.mpf(c) for c in e.directions[h, t].tolist()]
        part = mp.mpf(float(e.beta[h, t])) * _dot(moved, v) / _dot(v, v)
        moved = [c - part * d for c, d in zip(moved, v, strict=True)]
    size = mp.sqrt(_dot(q, q) * _dot(k, k)) * (1 + max(i - j, 0))
    logit = Counted(_dot([mp.mpf(c) for c in q], moved), size) / root(len(q))
    if e.forget is None:
        return logit
    gates = e.forget.log_gates[h].tolist()
    forgotten = total(gates[: i + 1]) - total(gates[: j + 1])
    return logit + (forgotten / root(len(q)) if e.gates_scaled else forgotten)


def _dot(a: Vector, b: Vector) -> Any:
    mp = mpmath().mp
    return mp.fsum(mp.mpf(x) * mp.mpf(y) for x, y in zip(a, b, strict=True))
