"""Properties of ALiBi slopes, computed from the function's own output alone."""

from __future__ import annotations

import numpy as np

from .cases import Property, Ruler
from .properties import distinct_values

Slopes = dict[int, np.ndarray]


def positive(slopes: Slopes, ruler: Ruler) -> str:
    """Every slope is a positive number."""
    for n, m in slopes.items():
        bad = ~(m > 0)
        if bad.any():
            return f"{n} heads: slope {m[bad][0]:.9g} of head {int(np.argmax(bad))}"
    return ""


def distinct(slopes: Slopes, ruler: Ruler) -> str:
    """No two heads share a slope."""
    found = (distinct_values(m, f"of {n} heads") for n, m in slopes.items())
    return next((problem for problem in found if problem), "")


def prefix(slopes: Slopes, ruler: Ruler) -> str:
    """``slopes(n)`` starts with ``slopes(c)`` and goes on with every second slope of 2c heads.

    c is the largest power of two up to n; for powers of two, ``slopes(2n)[1::2] == slopes(n)``.
    """
    for n, m in slopes.items():
        c = 1 << (n.bit_length() - 1)
        pairs = [(m[:c], slopes.get(c), f"slopes({n})[:{c}] and slopes({c})")]
        if 2 * c in slopes:
            twice = slopes[2 * c]
            pairs.append((m[c:], twice[0::2][: n - c], f"slopes({n})[{c}:], slopes({2 * c})[0::2]"))
            pairs.append((m[:c], twice[1::2], f"slopes({n})[:{c}] and slopes({2 * c})[1::2]"))
        for left, right, words in pairs:
            if right is None or left.shape != right.shape:
                continue
            bad = ruler.differ(left, right, np.abs(left) + np.abs(right))
            if bad.any():
                h = int(np.argmax(bad))
                return f"{words} differ: {left[h]:.9g} and {right[h]:.9g} at {h}"
    return ""


def geometric(slopes: Slopes, ruler: Ruler) -> str:
    """The slopes of a power of two of heads have one ratio."""
    for n, m in slopes.items():
        if n & (n - 1) or n < 3:
            continue
        for h, (a, b, c) in enumerate(zip(m, m[1:], m[2:], strict=False)):
            if ruler.differ(b * b, a * c, abs(a * c) + b * b).any():
                return f"{n} heads: {a:.9g}, {b:.9g}, {c:.9g} (from head {h}) have no common ratio"
    return ""


def _change(slopes: Slopes, n: int, h: int, value: float) -> Slopes:
    changed = np.array(slopes[n], dtype=np.float64)
    changed[h] = value
    return {**slopes, n: changed}


def _step_prefix(slopes: Slopes, ruler: Ruler) -> Slopes:
    n = next((n for n in slopes if 2 * n in slopes and not n & (n - 1)), 0)
    if not n:
        return slopes
    return _change(slopes, n, 0, slopes[n][0] + ruler.beyond(abs(float(slopes[n][0]))))


def _step_ratio(slopes: Slopes, ruler: Ruler) -> Slopes:
    n = max((n for n in slopes if not n & (n - 1)), default=0)
    return _change(slopes, n, 1, slopes[n][1] + ruler.beyond(abs(float(slopes[n][1]))))


POSITIVE = Property("slopes are positive", positive, lambda s, r: _change(s, max(s), 0, -1.0))
DISTINCT = Property(
    "slopes are distinct", distinct, lambda s, r: _change(s, max(s), 0, s[max(s)][-1])
)
PREFIX = Property("slopes(2n)[1::2] = slopes(n)", prefix, _step_prefix)
GEOMETRIC = Property("one ratio for powers of two", geometric, _step_ratio)
