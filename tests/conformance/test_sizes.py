"""A function that refuses some sizes on purpose is judged in those that it takes."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from tests.night import by_day

HALF = pr.RoPE(8, layout="half")
PE = pr.Sinusoidal(8)


def demanding(demand, fn):
    """``fn``, refusing other arguments than ``demand`` allows."""

    def limited(x, *others):
        if not demand(x, *others):
            raise ValueError("sizes that this function was not made for")
        return fn(x, *others)

    return limited


def rotation(at):
    return lambda x, p: HALF.apply(x, at(p))


def chunked(at):
    return lambda x, chunks: HALF.apply(x, at(np.arange(x.shape[2])))


def summed(at):
    return lambda x: PE.add(x, at(np.arange(x.shape[1])))


CASES = {
    "one row": ("apply", rotation, lambda x, p: len(x) == 1, "B = 1"),
    "four heads": ("apply", rotation, lambda x, p: x.shape[1] == 4, "H = 4"),
    "whole tiles": ("apply", rotation, lambda x, p: not x.shape[2] % 8, "S a multiple of 8"),
    "one row and four heads": ("apply", rotation, lambda x, p: x.shape[:2] == (1, 4), "and H = 4"),
    "one sum": ("add", summed, lambda x: len(x) == 1, "B = 1"),
    "one sequence": ("decode", chunked, lambda x, chunks: len(x) == 1, "B = 1"),
    "tokens": ("decode", chunked, lambda x, chunks: max(chunks[1:], default=1) == 1, "one token"),
}


@pytest.mark.parametrize("name", by_day(CASES, {"four heads", "whole tiles", "one sum"}))
def test_a_stated_demand_of_sizes_is_a_limit(name):
    surface, make, demand, words = CASES[name]
    encoding = PE if surface == "add" else HALF
    right, wrong = (
        check(demanding(demand, make(at)), encoding, surface, max_position=200)
        for at in (lambda p: p, lambda p: p + (p > 2))
    )
    assert right.verdict == "conforms", right
    assert words in right.limits[0]
    assert wrong.verdict == "deviates", wrong
    assert "raises" not in wrong.codes


def broadcasts(x, p):
    """Right for as many rows as heads: NumPy refuses the others."""
    return x * np.ones((x.shape[1], 1, 1, 1)) * 1.0 + np.zeros((x.shape[0] + 1,))


def indexes(x, p):
    return HALF.apply(x, p) if len(x) == 1 else [][0]


def refuses(x, p):
    raise ValueError("no")


def refuses_one_token(x, p):
    if x.shape[2] == 1:
        raise ValueError("no single tokens")
    return HALF.apply(x, p)


@pytest.mark.parametrize("fn", [broadcasts, indexes, refuses, refuses_one_token])
def test_a_crash_and_a_refusal_of_everything_are_errors(fn):
    report = check(fn, HALF, "apply")
    assert report.codes == ["raises"], report


def test_a_buffer_is_found_in_the_sizes_that_are_taken():
    buffer = np.zeros((1, 64, 4096, 8), np.float32)

    def reuses(x, p):
        y = buffer[:, : x.shape[1], : x.shape[2]]
        y[:] = HALF.apply(x, p)
        return y

    report = check(demanding(lambda x, p: len(x) == 1, reuses), HALF, "apply", max_position=300)
    assert report.codes == ["state"], report
    assert "Return a new array" in report.findings[0].remedy
