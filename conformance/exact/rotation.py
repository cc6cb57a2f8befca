"""The rotation of rotary encodings in 50-digit mpmath.

It uses the fields of an encoding, follows ``docs/vectors.md``, and shares no arithmetic with
``posenc_ref``.  The frequencies come from the formulas in the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .digits import mpmath
from .numbers import Array, Number, Real, exactly, objects, sizes
from .schedules import depends_on_length, magnitude

#: ``formula(e, seq_len)`` returns, for each pair, {axis: radians per position}.
Formula = Callable[[Any, int | None], Sequence[dict[int, Number]]]


def channels(e: Any, count: int, written: bool = False) -> list[tuple[int, int]]:
    """Return the two channels of each of ``count`` pairs in x, or in the output if ``written``."""
    start, layout = getattr(e, "rotary_start", 0), e.layout
    if written:
        layout = getattr(e, "output_layout", None) or layout
    if layout == "interleaved":
        return [(start + 2 * k, start + 2 * k + 1) for k in range(count)]
    if layout == "half":
        return [(start + k, start + count + k) for k in range(count)]
    found = []
    for n in e.sections:  # blockwise: half-split within the channels of each axis
        found += [(start + k, start + n + k) for k in range(n)]
        start += 2 * n
    return found


def _call_length(e: Any, positions: np.ndarray) -> int | None:
    """Return the length of a call with these positions, or None if it does not matter."""
    follows = positions.size and depends_on_length(getattr(e, "scaling", None))
    return int(positions.max()) + 1 if follows else None


def _angles(
    e: Any, weights: dict[int, Number], positions: np.ndarray, offset: float
) -> tuple[Array, Array]:
    """Return the angles of a pair, and the sum over axes of their absolute values."""
    mpf = mpmath().mp.mpf
    at = positions if e.num_axes > 1 else positions[None]
    if e.num_axes > 1 and at.ndim == 1:  # the same positions on every axis
        at = np.broadcast_to(at, (e.num_axes, *at.shape))
    parts = [(exact(at[a]) + mpf(offset)) * w for a, w in weights.items()]
    return sum(parts[1:], parts[0]), sum(map(sizes, parts[1:]), sizes(parts[0]))


def exact(values: np.ndarray) -> Array:
    """Return floats or integers as 50-digit numbers."""
    if values.dtype == object:
        return values
    return np.asarray(np.frompyfunc(mpmath().mp.mpf, 1, 1)(values))


def _decay(e: Any, k: int, positions: np.ndarray, power: int) -> tuple[Array, Array]:
    """Return xPos's ``zeta_k ** (power n)`` and ``|n ln zeta_k|`` for positions n."""
    mp = mpmath().mp
    gamma = mp.mpf(e.gamma)
    zeta = (mp.mpf(2 * k) / e.head_dim + gamma) / (1 + gamma)
    steps = (exact(positions) - mp.mpf(e.centre)) / mp.mpf(e.scale_base)
    exponents = power * steps * mp.log(zeta)
    return np.frompyfunc(mp.exp, 1, 1)(exponents), sizes(exponents)


def rotate(formula: Formula, e: Any, x: np.ndarray, positions: np.ndarray, *, back: bool = False,
           decay: int = 0, again: bool = False) -> Real:  # fmt: skip
    """Return x (B, H, S, D), floats or 50-digit numbers, rotated as by ``apply``.

    ``back`` applies the transpose; ``decay`` is xPos's power of zeta.  ``again`` rotates a result
    of ``apply``: without m and offset, and with pairs read in the output layout.
    """
    mp = mpmath().mp
    seq_len = _call_length(e, positions)
    m, sign, offset = magnitude(getattr(e, "scaling", None), seq_len), e.sign, e.offset
    weights = formula(e, seq_len)
    read, written = channels(e, len(weights)), channels(e, len(weights), written=True)
    if back:
        sign, read, written = -sign, written, read
    elif again:
        m, offset, read = mp.mpf(1), 0.0, written
    old = exact(x)
    new, terms, moved, amplitude = (old.copy(), *(objects(x.shape) for _ in range(3)))
    for k, (weight, (a, b), (one, two)) in enumerate(zip(weights, read, written, strict=True)):
        turn, size = _angles(e, weight, positions, offset)
        factor, argument = objects(turn.shape) + m, objects(turn.shape)
        if decay:
            growth, argument = _decay(e, k, positions, decay)
            factor = growth * factor
        tables: Any = np.frompyfunc(mp.cos_sin, 1, 2)(turn if sign > 0 else -turn)
        # Add an axis for the heads, so that everything broadcasts to (B, H, S).
        c, s, size, argument, factor = (
            np.expand_dims(part, -2)
            for part in (*(factor * t for t in tables), size, argument, factor)
        )
        x1, x2 = old[..., a], old[..., b]
        x1c, x2c, x1s, x2s = x1 * c, x2 * c, x1 * s, x2 * s
        new[..., one], new[..., two] = x1c - x2s, x2c + x1s
        terms[..., one], terms[..., two] = sizes(x1c) + sizes(x2s), sizes(x2c) + sizes(x1s)
        radius = factor * np.frompyfunc(mp.hypot, 2, 1)(x1, x2)
        moved[..., one] = moved[..., two] = (size + argument) * radius
        # xPos's exponents are rounded even if angles are exact.
        amplitude[..., one] = amplitude[..., two] = (1 + argument) * radius
    return Real(new, terms, moved, amplitude=amplitude)


def cos_sin(formula: Formula, e: Any, positions: np.ndarray) -> tuple[Real, ...]:
    """Return ``m cos`` and ``m sin``, each (S, pairs); A = |value|, B = |angle| m."""
    mp, seq_len = mpmath().mp, _call_length(e, positions)
    m = magnitude(getattr(e, "scaling", None), seq_len)
    parts = [_angles(e, weight, positions, e.offset) for weight in formula(e, seq_len)]
    turns, moved = (np.stack(part, axis=-1) for part in zip(*parts, strict=True))
    tables: Any = np.frompyfunc(mp.cos_sin, 1, 2)(turns)
    amplitude = objects(moved.shape) + m
    return tuple(Real(t * m, sizes(t * m), moved * m, amplitude=amplitude) for t in tables)


def frequencies(formula: Formula, e: Any, seq_len: int | None = None) -> tuple[Real, Real]:
    """Return the frequency of every pair, and m, for a sequence length."""
    each = [mpmath().mp.fsum(weight.values()) for weight in formula(e, seq_len)]
    return exactly(each), exactly(magnitude(getattr(e, "scaling", None), seq_len))


def normed(x: np.ndarray, weight: np.ndarray) -> Array:
    """Return RMSNorm of every vector: divided by its root mean square, times the weight."""
    mp = mpmath().mp
    old = exact(x)
    made = old.copy()
    for at in np.ndindex(x.shape[:-1]):
        size = mp.sqrt(mp.fsum(v * v for v in old[at]) / x.shape[-1] + mp.mpf(1e-6))
        made[at] = [mp.mpf(w) * v / size for v, w in zip(old[at], weight.tolist(), strict=True)]
    return made
