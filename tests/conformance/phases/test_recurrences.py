"""Rotations whose cos and sin come from a recurrence, or from fractions of a turn."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

HALF = RoPE(16, layout="half")
W = HALF.frequencies()
COS, SIN = np.cos(W).astype(np.float32), np.sin(W).astype(np.float32)


def by_tables(x, cos, sin):
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    cos, sin = (t[:, None] if t.ndim == 3 else t for t in (cos, sin))
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def chebyshev(c, s):
    return 2 * COS * c[-1] - c[-2], 2 * COS * s[-1] - s[-2]


def addition(c, s):
    return c[-1] * COS - s[-1] * SIN, s[-1] * COS + c[-1] * SIN


def table(step, rows):
    """Return a function that reads float32 tables of so many rows, and refuses later positions."""
    c, s = [np.ones_like(COS), COS], [np.zeros_like(SIN), SIN]
    for _ in range(rows - 2):
        cos, sin = step(c, s)
        c.append(cos)
        s.append(sin)
    c, s = np.stack(c), np.stack(s)

    def fn(x, p):
        if np.max(p, initial=0) >= rows:
            raise ValueError("past the table")
        return by_tables(x, c[p], s[p])

    return fn


@pytest.mark.parametrize(
    ("step", "rows"), [(chebyshev, 600), (chebyshev, 2048), (addition, 2048)],
    ids=["chebyshev-600", "chebyshev-2048", "addition-2048"],
)  # fmt: skip
def test_errors_that_grow_in_a_short_table(step, rows):
    report = check(table(step, rows), HALF, "apply", accept_limits=True)
    assert report.codes == ["angle-precision"]
    assert "the errors of cos and sin grow with the position" in report.findings[0].message


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("two_pi", "words"), [(6.28, "3.14"), (6.283, "3.1415"), (6.0, "3")])
def test_fractions_of_a_turn(two_pi, words, dtype):
    def fn(x, p):
        turns = np.asarray(p, dtype)[..., None] * (W / (2 * np.pi)).astype(dtype)
        angle = (turns - np.floor(turns)) * dtype(two_pi)
        return by_tables(x, np.cos(angle), np.sin(angle))

    message = check(fn, HALF, "apply").findings[0].message
    assert message.endswith(f"fractions of a turn are multiplied by 2 pi, with pi = {words}")


def test_true_fractions_of_a_turn_conform():
    def fn(x, p):
        turns = np.asarray(p, np.float32)[..., None] * (W / (2 * np.pi)).astype(np.float32)
        angle = (turns - np.floor(turns)) * np.float32(2 * np.pi)
        return by_tables(x, np.cos(angle), np.sin(angle))

    assert check(fn, HALF, "apply").verdict == "conforms"
