"""PRoPE."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_ref import PRoPE
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.error_numbers import Counted, cos, dot, power, root, sin

from . import numbers, register

Vector = Sequence[Any]


def _cameras(name: str, count: int) -> np.ndarray:
    """Return matrices (count, 4, 4) near the identity, with the last row 0, 0, 0, 1."""
    matrices = np.eye(4) + numbers(name, count, 4, 4).astype(np.float64) / 32
    matrices[:, 3] = 0, 0, 0, 1
    return matrices


@register(
    PRoPE,
    spec="Li et al. 2025, Cameras as Relative Positional Encoding, arXiv:2507.10496, section 4; "
    "liruilong940607/prope, prope/per_img_camera.py",
    examples={
        "prope": PRoPE(16, _cameras("prope", 2), grid=(2, 2)),
        "prope-base": PRoPE(16, _cameras("prope-base", 3), grid=(1, 2), base=10.0),
    },
)
def prope(e: PRoPE, h: int, q: Vector, keys: Sequence[Vector], i: int, at: Vector) -> Vector:
    """Return the products of ``D_i^T q`` and ``D_j^{-1} k`` for all keys."""
    moved, scale = _moved(e, q, i, query=True), root(len(q))
    return [dot(moved, _moved(e, k, j, query=False)) / scale for k, j in zip(keys, at, strict=True)]


def _moved(e: PRoPE, x: Vector, token: int, *, query: bool) -> Vector:
    """Return ``D^T x`` of a query, or ``D^{-1} x`` of a key."""
    height, width = e.grid
    camera, place = divmod(token, height * width)
    y_at, x_at = divmod(place, width)
    entries = tuple(e.projections[camera].ravel().tolist())
    matrix = _matrix(entries, query, mpmath().mp.prec)
    d, n = len(x), len(x) // 8
    made: list[Any] = []
    for start in range(0, d // 2, 4):
        made += [dot(row, x[start : start + 4]) for row in matrix]
    for start, at in ((d // 2, x_at), (3 * d // 4, y_at)):
        angles = [Counted(at) * power(e.base, -k, n) for k in range(n)]
        one, two = x[start : start + n], x[start + n : start + 2 * n]
        made += [cos(t) * a + sin(t) * b for t, a, b in zip(angles, one, two, strict=True)]
        made += [cos(t) * b - sin(t) * a for t, a, b in zip(angles, one, two, strict=True)]
    return made


@functools.lru_cache(maxsize=64)
def _matrix(entries: tuple[float, ...], query: bool, precision: int) -> list[list[Counted]]:
    """Return the transpose of P, or its inverse, as rows."""
    p = mpmath().mp.matrix([entries[4 * r : 4 * r + 4] for r in range(4)])
    rows = range(4)
    if query:
        return [[Counted(p[c, r]) for c in rows] for r in rows]
    inverse = mpmath().mp.inverse(p)
    near = [abs(inverse[r, c]) for r in rows for c in rows]
    bound = _product(_product(near, [abs(x) for x in entries]), near)
    return [[Counted(inverse[r, c], float(bound[4 * r + c])) for c in rows] for r in rows]


def _product(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """Return the product of 4 x 4 matrices given as lists of 16 numbers."""
    return [sum(a[4 * r + m] * b[4 * m + c] for m in range(4)) for r in range(4) for c in range(4)]
