"""Sinusoidal and learned tables in 50-digit mpmath, column by column, from the JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc_ref.conformance.exact import mpmath

from .bits import read_array
from .exact_numbers import Array, Json, Real, identical, objects, sizes


def columns(e: Json) -> list[tuple[str, int]]:
    """(kind, pair) of every column; the kind is "sin", "cos" or "zero"."""
    dim = e["dim"]
    sines = [("sin", k) for k in range((dim + 1) // 2 if e["odd"] == "extra-sin" else dim // 2)]
    cosines = [("cos", k) for k in range(dim // 2)]
    first, second = (sines, cosines) if e["first"] == "sin" else (cosines, sines)
    if e["layout"] == "interleaved":
        arranged = [
            column for k in range(len(first)) for column in (*first[k : k + 1], *second[k : k + 1])
        ]
    else:
        arranged = first + second
    return arranged + [("zero", 0)] * (dim - len(arranged))


def sinusoid(e: Json, positions: np.ndarray) -> Real:
    """``scale * sin`` and ``scale * cos``: A = |value|, B = |angle| |scale|; a zero column 0."""
    mp = mpmath().mp
    n = e["denominator"]
    if isinstance(n, str):
        n = {"dim": mp.mpf(e["dim"]) / 2, "half-1": mp.mpf(e["dim"] // 2 - 1)}[n]
    scale, log = mp.mpf(e["scale"]), mp.log(mp.mpf(e["base"]))
    value, moved = (objects((positions.size, e["dim"])) for _ in range(2))
    for c, (kind, k) in enumerate(columns(e)):
        if kind == "zero":
            continue
        timescale = mp.exp(log * k / mp.mpf(n))
        for s, p in enumerate(positions.tolist()):
            angle = mp.mpf(e["position_scale"]) * (mp.mpf(p) + mp.mpf(e["offset"])) / timescale
            value[s, c] = scale * (mp.sin(angle) if kind == "sin" else mp.cos(angle))
            moved[s, c] = abs(angle * scale)
    return Real(value, sizes(value), moved)


def table(e: Json, inputs: Mapping[str, Any]) -> Real:
    """The rows of a sinusoidal or a learned table."""
    if e["encoding"] == "Sinusoidal":
        return sinusoid(e, inputs["positions"])
    weight = read_array(e["weight"])
    return identical(np.stack([weight[p + e["offset"]] for p in inputs["positions"].tolist()]))


def add(e: Json, inputs: Mapping[str, Any]) -> Real:
    """x + table: A = |x| + |row|."""
    mp = mpmath().mp
    x = np.frompyfunc(mp.mpf, 1, 1)(inputs["x"].astype(np.float64))
    rows = table(e, {"positions": np.arange(x.shape[-2])})
    moved: Array = objects(x.shape) + rows.angle
    return Real(x + rows.value, sizes(x) + sizes(rows.value), moved)


def ids_from_tokens(e: Json, inputs: Mapping[str, Any]) -> np.ndarray:
    """Real tokens count on from ``padding_idx + 1``, less the offset of the table."""
    ids, pad = inputs["input_ids"], e["padding_idx"]
    made: np.ndarray = np.zeros_like(ids)
    for b, row in enumerate(ids.tolist()):
        seen = 0
        for s, token in enumerate(row):
            seen += token != pad
            made[b, s] = (pad if token == pad else pad + seen) - e["offset"]
    return made
