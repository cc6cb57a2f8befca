"""The effect of a difference between two encodings: the first position, and the logits.

A query and a key at distance n have the logit ``q . L(n) k`` with ``L(n) = t s R(0)^T R(n)``: R is
the rotation with its attention factor, s the softmax scale and t the factor on the query.  The
error of the logits is the largest change over all q and k, relative to ``|q| |k| / sqrt(d)``: the
spectral norm of ``L_A(n) - L_B(n)``, times sqrt(d).  For biases it is the largest change of a bias.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posenc_ref import Bias, Encoding, MultiAxisRoPE, QueryScale, RoPE
from posenc_ref.accuracy import VISIBLE
from posenc_ref.rotary import Rotary
from posenc_ref.table import Table

#: The logits are compared at the ends of contexts of these lengths, in addition to the shorter one.
LENGTHS = (2**12, 2**15, 2**17)
#: Where frequencies change with the length, positions past the trained length are this far apart.
_RATIO = 1.01
#: The number of positions, and of matrices, in one step of the search.
_BLOCK, _MATRICES = 4096, 64


@dataclass(frozen=True)
class Scored:
    """An encoding with the factors on its logits; None is attention without an encoding."""

    encoding: Encoding | None
    scale: float = 1.0
    query_scale: QueryScale | None = None

    def factor(self, n: int) -> float:
        """Return ``t s``, the factor on the logits of a query at position n."""
        t = 1.0 if self.query_scale is None else float(self.query_scale.factor(np.array([n]))[0])
        return self.scale * t


@dataclass(frozen=True)
class Effect:
    """The first visible difference, and the error of the logits (or of biases, or of rows).

    Attributes
    ----------
    of : str
        "cos and sin", "rotations", "biases" or "rows".
    first : int, optional
        The first tried position (a distance, for biases) with a difference above 2**-9.
    tried : str
        The positions that were tried, in words.
    errors : dict[int, float]
        The error at the end of a context, by its length.
    """

    of: str
    first: int | None
    tried: str
    errors: dict[int, float] = field(default_factory=dict)


def effect(a: Scored, b: Scored, head_dim: int, lengths: tuple[int, ...]) -> Effect | None:
    """Return the effect of the difference of two encodings with the same shapes, or None.

    None means that the effect of these kinds of encodings is not computed.
    """
    limit = max(min(lengths), 2)
    ends = tuple(sorted({*lengths, *LENGTHS}))
    kinds = tuple(type(s.encoding) for s in (a, b))
    if all(s.encoding is None or isinstance(s.encoding, RoPE | MultiAxisRoPE) for s in (a, b)):
        return _rotations(a, b, head_dim, limit, ends)
    if all(issubclass(kind, Bias) for kind in kinds):
        return _values("biases", a, b, limit, ends)
    if all(issubclass(kind, Table) for kind in kinds):
        return _values("rows", a, b, limit, ends)
    return None


def _same_pairs(a: Rotary, b: Rotary) -> bool:
    """Return whether two rotations have the same pairs of channels, on the same position axes.

    If the numbers of axes differ, only text is compared, whose positions are equal on all axes.
    """
    axes = a.num_axes != b.num_axes or _equal(a.axes(), b.axes())
    return bool(axes and np.array_equal(a.pairs(), b.pairs()))


def _equal(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    return a is b if a is None or b is None else np.array_equal(a, b)


def _rotations(a: Scored, b: Scored, d: int, limit: int, ends: tuple[int, ...]) -> Effect:
    x, y = a.encoding, b.encoding
    simple = isinstance(x, Rotary) and isinstance(y, Rotary) and _same_pairs(x, y)
    first, tried = (_first_pair if simple else _first_matrix)(a, b, d, limit)
    if {e.num_axes for e in (x, y) if isinstance(e, Rotary)} > {1}:
        tried += ", for text: equal positions on all axes"
    errors = {n: d**0.5 * _logit_error(a, b, d, n - 1, simple) for n in ends}
    return Effect("cos and sin" if simple else "rotations", first, tried, errors)


def _logit_error(a: Scored, b: Scored, d: int, n: int, simple: bool) -> float:
    if not simple:
        return max(
            float(np.linalg.norm(_matrix(a, d, n, way) - _matrix(b, d, n, way), 2))
            for way in _ways(a, b)
        )
    assert isinstance(a.encoding, Rotary)
    rotated = 2 * len(a.encoding.pairs()[0])
    off = abs(a.factor(n) - b.factor(n)) if rotated < d else 0.0
    for way in _ways(a, b):
        phasors = [
            s.factor(n) * _phasor(s.encoding, np.array([n]), way, n + 1, squared=True)
            for s in (a, b)
        ]
        off = max(off, float(np.abs(phasors[0] - phasors[1]).max()))
    return off


def _ways(a: Scored, b: Scored) -> Iterator[int | None]:
    """Yield the axes along which positions move: None for all together, then each axis."""
    yield None
    counts = {s.encoding.num_axes for s in (a, b) if isinstance(s.encoding, Rotary)}
    if len(counts) == 1 and max(counts) > 1:
        yield from range(max(counts))


def _phasor(
    e: Encoding | None, positions: np.ndarray, way: int | None, length: int, squared: bool = False
) -> np.ndarray:
    """Return ``m exp(i sign p w)`` (positions, pairs), or with m squared."""
    assert isinstance(e, Rotary)
    w = e.sign * e.frequencies(length)
    axes = e.axes()
    if way is not None and axes is not None:
        w = w * (axes == way)
    m = e.attention_factor(length)
    return np.asarray((m * m if squared else m) * np.exp(1j * positions[:, None] * w))


def _matrix(s: Scored, d: int, n: int, way: int | None) -> np.ndarray:
    """Return L(n)."""
    e = s.encoding
    if not isinstance(e, Rotary):
        return s.factor(n) * np.eye(d)
    at, zero = _position(e, n, way), _position(e, 0, way)
    length = n + 1
    relative = e.matrix(zero, seq_len=length).T @ e.matrix(at, seq_len=length)
    return np.asarray(s.factor(n) * relative)


def _position(e: Rotary, n: int, way: int | None) -> int | list[int]:
    if e.num_axes == 1:
        return n
    return [n if way in (None, axis) else 0 for axis in range(e.num_axes)]


def _first_pair(a: Scored, b: Scored, d: int, limit: int) -> tuple[int | None, str]:
    x, y = a.encoding, b.encoding
    assert isinstance(x, Rotary)
    assert isinstance(y, Rotary)
    changing = _first_change(x, y, limit)
    if changing == limit and _bound(x, y, limit) <= VISIBLE:
        return None, f"every position below {limit}"
    for start in range(0, changing, _BLOCK):
        at = np.arange(start, min(start + _BLOCK, changing))
        length = int(at[-1]) + 1
        off = np.zeros(at.size)
        for way in _ways(a, b):
            gap = np.abs(_phasor(x, at, way, length) - _phasor(y, at, way, length))
            off = np.maximum(off, gap.max(axis=1))
        if (off > VISIBLE).any():
            return int(at[int(np.argmax(off > VISIBLE))]), f"every position below {changing}"
    tried = f"every position below {limit}"
    if changing < limit:
        tried = f"every position below {changing}, and then positions 1 % apart, below {limit}"
        for p in _spread(changing, limit):
            for way in _ways(a, b):
                one = _phasor(x, np.array([p]), way, p + 1) - _phasor(y, np.array([p]), way, p + 1)
                if np.abs(one).max() > VISIBLE:
                    return p, tried
    return None, tried


def _bound(x: Rotary, y: Rotary, limit: int) -> float:
    """Return a bound of the change of cos and sin below ``limit``: ``|exp(ia) - 1| <= |a|``."""
    m, n = x.attention_factor(limit), y.attention_factor(limit)
    gap = np.abs(x.sign * x.frequencies(limit) - y.sign * y.frequencies(limit))
    return float(abs(m - n) + min(m, n) * limit * gap.max(initial=0.0))


def _first_change(x: Rotary, y: Rotary, limit: int) -> int:
    """Return the number of positions at which no frequency depends on the length of the call."""
    last = limit
    for e in (x, y):
        if not e.depends_on_length:
            continue
        low, high = 1, last + 1  # the frequencies of calls of ``low`` tokens are those of one token
        while high - low > 1:
            middle = (low + high) // 2
            if np.array_equal(e.frequencies(1), e.frequencies(middle)):
                low = middle
            else:
                high = middle
        last = min(last, low)
    return last


def _spread(first: int, limit: int) -> Iterator[int]:
    at = float(first)
    while at < limit:
        yield int(at)
        at = max(at + 1, at * _RATIO)


def _first_matrix(a: Scored, b: Scored, d: int, limit: int) -> tuple[int | None, str]:
    def rotation(s: Scored, p: int, way: int | None) -> np.ndarray:
        e = s.encoding
        if not isinstance(e, Rotary):
            return np.eye(d)
        return e.matrix(_position(e, p, way), seq_len=p + 1)

    for p in range(min(limit, _MATRICES)):
        for way in _ways(a, b):
            if np.abs(rotation(a, p, way) - rotation(b, p, way)).max() > VISIBLE:
                return p, f"every position up to {p}"
    return None, f"every position below {min(limit, _MATRICES)}"


def _values(of: str, a: Scored, b: Scored, limit: int, ends: tuple[int, ...]) -> Effect | None:
    """Return the effect of a difference of biases by distance, or of rows by position."""
    one, other = a.encoding, b.encoding

    def off(at: np.ndarray) -> np.ndarray:
        if isinstance(one, Bias) and isinstance(other, Bias):
            biases = [np.asarray(e.bias(at, np.zeros(1, int))) for e in (one, other)]
            return np.asarray(np.abs(biases[0] - biases[1]).max(axis=0)[:, 0])
        tables: list[Any] = [e.table(at) for e in (one, other)]  # type: ignore[union-attr]
        return np.asarray(np.abs(np.asarray(tables[0]) - np.asarray(tables[1])).max(axis=1))

    try:
        errors = {n: float(off(np.array([n - 1]))[0]) for n in ends}
        for start in range(0, limit, _BLOCK):
            at = np.arange(start, min(start + _BLOCK, limit))
            seen = off(at) > VISIBLE
            if seen.any():
                return Effect(of, int(at[int(np.argmax(seen))]), f"every one below {limit}", errors)
    except (TypeError, ValueError, NotImplementedError, IndexError):
        return None  # they have other shapes, or need more inputs than positions
    return Effect(of, None, f"every one below {limit}", errors)
