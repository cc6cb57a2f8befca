"""Rotations and products that are learned or computed from tokens: Selective RoPE, PaTH, LieRE."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_ref import ForgettingBias, LieRE, PaTH, SelectiveRoPE
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
    logit = Counted(_dot([mp.mpf(c) for c in q], moved), float(size)) / root(len(q))
    if e.forget is None:
        return logit
    gates = e.forget.log_gates[h].tolist()
    forgotten = total(gates[: i + 1]) - total(gates[: j + 1])
    return logit + (forgotten / root(len(q)) if e.gates_scaled else forgotten)


def _dot(a: Vector, b: Vector) -> Any:
    mp = mpmath().mp
    return mp.fsum(mp.mpf(x) * mp.mpf(y) for x, y in zip(a, b, strict=True))


@register(
    LieRE,
    spec="Ostmeier et al. 2025, LieRE, arXiv:2406.10322; StanfordMIMI/LieRE, models/rope_vit.py",
    examples={
        "liere": LieRE(8, numbers("liere", 2, 1, 2, 4, 4) / 4, numbers("liere-at", 7, 2) / 4),
        "liere-heads": LieRE(
            4, numbers("liere-heads", 3, 2, 1, 3, 3) / 4, numbers("liere-heads-at", 9, 3) / 4
        ),
    },
)
@each_key
def liere(e: LieRE, h: int, q: Vector, k: Vector, i: int, j: int) -> Counted:
    """Return the product of query and key, each multiplied by the exponential of its exponent."""
    return dot(_multiplied(e, h, q, i), _multiplied(e, h, k, j)) / root(len(q))


def _multiplied(e: LieRE, h: int, x: Vector, at: int) -> Vector:
    """Return x of head h with its blocks multiplied by the matrices of token ``at``."""
    y = list(x)
    point = tuple(e.coordinates[at].tolist())
    for block, n in ((b, e.generators.shape[3]) for b in range(e.generators.shape[2])):
        entries = e.generators[:, h % e.generators.shape[1], block]
        generators = tuple(map(tuple, np.reshape(entries, (len(point), n * n)).tolist()))
        start, rows = block * n, _exponential(point, generators, n, mpmath().mp.prec)
        y[start : start + n] = [dot(row, x[start : start + n]) for row in rows]
    return y


@functools.lru_cache(maxsize=512)
def _exponential(
    point: tuple[float, ...], generators: tuple[tuple[float, ...], ...], n: int, precision: int
) -> list[list[Counted]]:
    """Return the entries of the matrix exponential; B of each is the norm of the exponent's."""
    mp = mpmath().mp
    exponent, size = mp.matrix(n, n), mp.mpf(0)
    for r, c in itertools.combinations(range(n), 2):
        parts = [mp.mpf(p) * mp.mpf(g[r * n + c]) for p, g in zip(point, generators, strict=True)]
        exponent[r, c], exponent[c, r] = mp.fsum(parts), -mp.fsum(parts)
        size += 2 * mp.fsum(map(abs, parts)) ** 2
    matrix, norm = mp.expm(exponent), mp.sqrt(size)
    return [
        [Counted(matrix[r, c], angle=float(norm), amplitude=1.0) for c in range(n)]
        for r in range(n)
    ]
