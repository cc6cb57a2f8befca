"""Rotary encodings in 50-digit mpmath: channel pairs, axes, angles and the rotation, pair by pair.

Independent of ``posenc_ref``: it reads the JSON form of a declaration and the formula in
``docs/vectors.md``, and knows no class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref.conformance.exact.bits import read_array
from posenc_ref.conformance.exact.fixed_point import mpmath
from posenc_ref.conformance.exact.numbers import Array, Json, Number, Real, exactly, objects, sizes

from .exact_schedules import frequencies as schedule
from .exact_schedules import magnitude

Truths = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """One rotated pair: the channels it is read from and written to, and what turns it."""

    first: int
    second: int
    out_first: int
    out_second: int
    weights: dict[int, Number]  #: radians per position, for each axis that turns it


def pairs(e: Json, seq_len: int | None = None) -> list[Pair]:
    """The pairs of a declared rotary encoding at a length."""
    weights = _weights(e, seq_len)
    read = _channels(e, e["layout"], len(weights))
    written = _channels(e, e.get("output_layout") or e["layout"], len(weights))
    return [Pair(*a, *b, w) for a, b, w in zip(read, written, weights, strict=True)]


def _channels(e: Json, layout: str, count: int) -> list[tuple[int, int]]:
    start = e.get("rotary_start", 0)
    if layout == "interleaved":
        return [(start + 2 * k, start + 2 * k + 1) for k in range(count)]
    if layout == "half":
        return [(start + k, start + count + k) for k in range(count)]
    found = []
    for n in e["sections"]:  # blockwise: half-split inside the block of each axis
        found += [(start + k, start + n + k) for k in range(n)]
        start += 2 * n
    return found


def _weights(e: Json, seq_len: int | None) -> list[dict[int, Number]]:
    mp = mpmath().mp
    base = e.get("base", 10000.0)
    if e["encoding"] == "MixedRoPE":
        columns = read_array(e["weight"]).T.tolist()
        return [{a: mp.mpf(w) for a, w in enumerate(column)} for column in columns]
    if e["encoding"] == "XPos":
        return [{0: w} for w in schedule(None, base, e["head_dim"], None)]
    if e["encoding"] == "RoPE":
        d = e.get("rotary_dim") or e["head_dim"]
        return [{0: w} for w in schedule(e.get("scaling"), base, d, seq_len)]
    sections, spacing = e["sections"], e.get("spacing", "global")
    count, total = len(sections), sum(sections)
    scale = e.get("position_scale", 1.0)
    scales = scale if isinstance(scale, list) else [scale] * count
    bases = base if isinstance(base, list) else [base] * count
    seen, found = [0] * count, []
    for j, a in enumerate(_axes(e)):
        i, seen[a] = seen[a], seen[a] + 1
        if spacing == "restart":
            w = schedule(e.get("scaling"), bases[a], 2 * sections[a], seq_len)[i]
        else:
            k = j if spacing == "global" else count * i + a
            w = schedule(e.get("scaling"), bases[a], 2 * total, seq_len)[k]
        found.append({a: w * mp.mpf(scales[a])})
    return found


def _axes(e: Json) -> list[int]:
    sections, arrangement = e["sections"], e.get("arrangement", "chunked")
    if arrangement == "chunked":
        return [a for a, n in enumerate(sections) for _ in range(n)]
    if arrangement == "interleaved":
        count = len(sections)
        taken = {a + count * i: a for a, n in enumerate(sections) if a for i in range(n)}
        return [taken.get(j, 0) for j in range(sum(sections))]
    return list(arrangement)


def depends_on_length(e: Json) -> bool:
    """Whether the length of a call changes the frequencies or m."""
    s = e.get("scaling") or {}
    return s.get("scaling") == "QwenNTK" or (
        s.get("scaling") in ("DynamicNTK", "LongRoPE") and s.get("policy", "current") == "current"
    )


def call_length(e: Json, positions: np.ndarray) -> int | None:
    """The length that a call with these positions has."""
    return int(positions.max()) + 1 if depends_on_length(e) and positions.size else None


def angle(e: Json, pair: Pair, at: list[Any]) -> tuple[Number, Number]:
    """(angle, sum over axes of its absolute parts) of a pair at a position on every axis."""
    mp = mpmath().mp
    offset = mp.mpf(e.get("offset", 0.0))
    parts = [(mp.mpf(at[a]) + offset) * w for a, w in pair.weights.items()]
    return mp.fsum(parts), mp.fsum(abs(part) for part in parts)


def _positions_of(e: Json, positions: np.ndarray) -> Array:
    """Positions with one axis of position axes in front: (A, ...)."""
    count = 1
    if "sections" in e:
        count = len(e["sections"])
    elif "weight" in e:
        count = e["weight"]["shape"][0]
    if count == 1:
        return positions[None]
    if positions.ndim == 1:
        return np.broadcast_to(positions, (count, *positions.shape))
    return positions


def rotate(e: Json, x: np.ndarray, positions: np.ndarray, *, back: bool = False,
           decay: int = 0, again: bool = False) -> Real:  # fmt: skip
    """``apply`` for x (B, H, S, D), floats or 50-digit numbers.

    ``back`` is its transpose, ``decay`` xPos's power of zeta; with ``again``, x was rotated before:
    m, the offset and the change of layout are in it.
    """
    mp = mpmath().mp
    at = _positions_of(e, positions)
    at = at[:, None] if at.ndim == 2 else at  # (A, B or 1, S)
    seq_len = call_length(e, positions)
    m, sign = magnitude(e.get("scaling"), seq_len), e.get("sign", 1) * (-1 if back else 1)
    if again:
        e, m = {**e, "offset": 0.0}, mp.mpf(1)
    exact = x if x.dtype == object else np.frompyfunc(mp.mpf, 1, 1)(x.astype(np.float64))
    y, terms, moved = exact.copy(), objects(x.shape), objects(x.shape)
    turned = {c for p in pairs(e, seq_len) for c in (p.first, p.second, p.out_first, p.out_second)}
    for c in turned:
        y[..., c] = mp.mpf(0)
    for k, pair in enumerate(pairs(e, seq_len)):
        read, written = (pair.first, pair.second), (pair.out_first, pair.out_second)
        if back:
            read, written = written, read
        elif again:
            read = written
        for b, s in np.ndindex(at.shape[1:]):
            here = [at[a, b, s].item() for a in range(at.shape[0])]
            turn, size = angle(e, pair, here)
            growth, argument = _decay(e, k, here[0], decay)
            c, d = (m * growth * t for t in mp.cos_sin(turn))
            d = sign * d
            for row in _rows(x.shape, at.shape[1], b):
                x1, x2 = (exact[(*row, s, channel)] for channel in read)
                one, two = (*row, s, written[0]), (*row, s, written[1])
                y[one], y[two] = x1 * c - x2 * d, x2 * c + x1 * d
                terms[one] = abs(x1 * c) + abs(x2 * d)
                terms[two] = abs(x2 * c) + abs(x1 * d)
                pair_size = m * growth * mp.hypot(x1, x2)
                moved[one] = moved[two] = (size + argument) * pair_size
    return Real(y, terms, moved)


def normed(x: np.ndarray, weight: np.ndarray) -> Array:
    """Every vector over its root mean square, channel by channel times the weight."""
    mp = mpmath().mp
    exact = np.frompyfunc(mp.mpf, 1, 1)(x.astype(np.float64))
    made = exact.copy()
    for at in np.ndindex(x.shape[:-1]):
        size = mp.sqrt(mp.fsum(v * v for v in exact[at]) / x.shape[-1] + mp.mpf(1e-6))
        made[at] = [mp.mpf(w) * v / size for v, w in zip(exact[at], weight.tolist(), strict=True)]
    return made


def _rows(shape: tuple[int, ...], batches: int, b: int) -> list[tuple[int, int]]:
    """The (batch, head) rows that row b of the positions stands for."""
    chosen = range(shape[0]) if batches == 1 else [b]
    return [(i, h) for i in chosen for h in range(shape[1])]


def _decay(e: Json, k: int, position: Any, power: int) -> tuple[Number, Number]:
    """(zeta_k ** (power n), |n ln zeta_k|): xPos's factor and the size of its exponent."""
    mp = mpmath().mp
    if not power:
        return mp.mpf(1), mp.mpf(0)
    gamma = mp.mpf(e.get("gamma", 0.4))
    zeta = (mp.mpf(2 * k) / e["head_dim"] + gamma) / (1 + gamma)
    n = (mp.mpf(position) - mp.mpf(e.get("centre", 0.0))) / mp.mpf(e.get("scale_base", 512.0))
    exponent = power * n * mp.log(zeta)
    return mp.exp(exponent), abs(exponent)


def cos_sin(e: Json, positions: np.ndarray) -> Truths:
    """``m cos`` and ``m sin`` of every angle: (S, pairs) each; A = |value|, B = |angle| m."""
    mp = mpmath().mp
    at = _positions_of(e, positions)
    seq_len = call_length(e, positions)
    m, all_pairs = magnitude(e.get("scaling"), seq_len), pairs(e, seq_len)
    shape = (*at.shape[1:], len(all_pairs))
    cos, sin, moved = objects(shape), objects(shape), objects(shape)
    for index in np.ndindex(shape):
        turn, size = angle(e, all_pairs[index[-1]], [row[index[:-1]].item() for row in at])
        c, s = mp.cos_sin(turn)
        cos[index], sin[index], moved[index] = m * c, m * s, m * size
    return {name: Real(value, sizes(value), moved) for name, value in (("cos", cos), ("sin", sin))}


def frequency_truths(e: Json, inputs: Mapping[str, Any]) -> Truths:
    """The frequency of every pair, and m, at the length that is asked for."""
    seq_len = inputs.get("seq_len")
    each = [mpmath().mp.fsum(p.weights.values()) for p in pairs(e, seq_len)]
    return {
        "frequencies": exactly(each),
        "attention_factor": exactly(magnitude(e.get("scaling"), seq_len)),
    }
