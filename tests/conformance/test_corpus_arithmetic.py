"""Every wrong case of the scaled and multi-axis part is visibly wrong, every correct one is right.

Plain float64 arithmetic decides, not the specification. Scores are in float32 roundings of the
element (bfloat16 where that is declared).
"""

import numpy as np
import pytest

from tests.mutants import CORRECT, WRONG
from tests.mutants import _truth as truth
from tests.mutants.selection import selected

MODULES = {
    f"tests.mutants.rotary.{name}"
    for name in (
        "attention_factor", "correct_multi_axis", "correct_ntk", "correct_scaling", "correct_yarn",
        "llama3", "longrope", "multi_axis", "multi_axis_frequencies", "ntk", "partial", "yarn",
        "yarn_bounds",
    )
}  # fmt: skip
VISIBLE = 256  # roundings; a judge allows 128
HONEST = 64
WINDOWS = [
    *([p] for p in (0, 37, 211, 1021, 2047, 2048, 2999, 3000, 3001, 4095, 4096, 5003, 8191, 8192)),
    *([p] for p in (16001, 32767, 32768, 65537, 100003, 131071)),
    [0, 1, 2, 3],
    [1001, 1002, 1003, 1004],
    [5, 7001, 90, 131071],
    [5, 7001, 90],
    [0, 1, 2, 3],
]
LENGTHS = (1, 1024, 2048, 2049, 2999, 3000, 3001, 4095, 4096, 4097, 8192, 40960, 131072, 1024)


def here(cases):
    """Return the cases of this part of the corpus; a pull request runs the selected ones."""
    return selected(case for case in cases if _home(case) in MODULES)


def _home(case):
    made = case.make()
    return getattr(made, "__module__", None) or type(made).__module__


def scores(case):
    """Return a score for each call that the implementation accepts, all on one instance."""
    fn = case.make()
    if case.surface == "frequencies":
        return [_frequencies(case, fn, n) for n in _lengths(case)]
    found = []
    for seed, window in enumerate(WINDOWS):
        rng = np.random.default_rng(seed)
        x, positions = _inputs(case, rng, window)
        try:
            found.append(_call(case, fn, x, positions))
        except (IndexError, ValueError):
            continue  # a refusal is no answer
    return found


def _lengths(case):
    return LENGTHS if truth.length_dependent(case.encoding) else (None,)


def _inputs(case, rng, window):
    """x (2, 2, S, D) and the positions: one window, or independent axes up to its largest."""
    x = rng.standard_normal((2, 2, len(window), case.encoding["head_dim"])).astype(np.float32)
    if case.encoding["encoding"] == "RoPE":
        return x, np.array(window)
    shape = (len(case.encoding["sections"]), 2, len(window))
    positions = rng.integers(0, max(window) + 1, shape)
    # Windows alike share the first axis and nothing else.
    positions[0] = np.random.default_rng(0).integers(0, max(window) + 1, shape[1:])
    return x, positions


def _call(case, fn, x, positions):
    if case.surface == "cos_sin":
        (cos, sin), unit = truth.cos_sin(case.encoding, positions)
        width = cos.shape[-1]
        return max(
            _score(np.asarray(got)[..., :width], want, unit, 2.0**-24)
            for got, want in zip(fn(positions), (cos, sin), strict=True)
        )
    coarse = case.kwargs.get("precision") or case.kwargs.get("dtype")
    if case.kwargs.get("dtype"):
        import ml_dtypes

        x = x.astype(ml_dtypes.bfloat16)
    want, unit = truth.apply(case.encoding, x, positions)
    # Half precision rounds several times on its way, so its unit is not as sharp.
    return _score(fn(x, positions), want, unit, 2.0**-5 / HONEST if coarse else 2.0**-24)


def _score(got, want, unit, rounding):
    terms, bend = unit
    unit = rounding * terms + truth.ROUNDING * bend
    error = np.abs(np.asarray(got, np.float64) - want)
    error = np.where(np.isnan(error), np.inf, error)
    return float(
        np.max(np.divide(error, unit, out=np.where(error > 0, np.inf, 0.0), where=unit > 0))
    )


def _frequencies(case, fn, seq_len):
    got = fn() if seq_len is None else fn(seq_len)
    w, m = truth.frequencies(case.encoding, seq_len)
    got, factor = got if isinstance(got, tuple) else (got, m)
    if np.shape(got) != w.shape:
        return np.inf
    wrong = np.abs(np.append(got, factor) - np.append(w, m))
    unit = truth.ROUNDING * np.append(w, m)
    return float(
        np.max(np.divide(wrong, unit, out=np.where(wrong > 0, np.inf, 0.0), where=unit > 0))
    )


@pytest.mark.parametrize("case", here(WRONG))
def test_a_wrong_case_is_visibly_wrong(case):
    assert max(scores(case)) > VISIBLE


@pytest.mark.parametrize("case", here(CORRECT))
def test_a_correct_case_is_right(case):
    found = scores(case)
    assert found
    assert max(found) < HONEST
