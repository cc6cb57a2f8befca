"""The first visible error: smaller positions were tried in each form of a call, or predicted."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.probes import SCAN, TELLING
from posenc_ref.conformance.phases.accuracy_by_length import FirstVisible, first_visible
from posenc_ref.conformance.phases.precision import reduced
from posenc_ref.conformance.phases.rounding_model import fit
from tests.conformance.handwritten import inv_freq
from tests.night import by_day


def counted_from_zero(late):
    """Errors of a function that forgets offsets past ``late``: calls of consecutive positions.

    Its calls from 0 on are right, however many tokens they have.
    """

    def error(positions):
        starts = np.r_[True, np.diff(positions) != 1]
        first = np.maximum.accumulate(np.where(starts, np.arange(positions.size), 0))
        return np.where(positions[first] > late, 1.0, 0.0)

    return error


@pytest.mark.parametrize("late", [0, 5, 300, 5000])
def test_calls_of_one_token_count_too(late):
    found = first_visible(counted_from_zero(late), 2**20 - 1, 0.0, False)
    assert found == FirstVisible(late + 1, True)


@pytest.mark.parametrize("first", [0, 1, 15, 256, 16383, 70000])
def test_an_error_in_every_call_has_its_own_position(first):
    found = first_visible(lambda at: (at >= first) * 1.0, 2**20 - 1, 0.0, False)
    assert found == FirstVisible(first, first < SCAN)


def test_a_table_made_in_every_call_is_made_once_for_a_window():
    """Tables of a million rows for every token would take minutes."""
    encoding, far = RoPE(4, layout="half"), []

    def fn(x, offset=0):
        end = offset + x.shape[-2]
        far.append(end) if 2**16 < end <= 2**20 else None  # further ones are single tokens
        return encoding.apply(x, np.arange(offset, end))

    report = check(fn, encoding)
    assert report.passed
    assert max(far) == 2**20
    assert len(far) < 100, len(far)


W, W32 = 10000.0 ** (-np.arange(32) / 32), inv_freq(64)
TIMESCALES = (10000.0 ** (np.arange(32) / 32)).astype(np.float32)
ROUNDED = np.array([float(f"{w:.6g}") for w in W])
#: Angles (positions, pairs) of functions, and the factor of the declared interpolation.
ANGLES = {
    "float32 product": (lambda p: np.float32(p)[:, None] * W32, 1.0),
    "float32 frequencies": (lambda p: p[:, None] * np.float64(W32), 1.0),
    "float32 timescales": (lambda p: np.float32(p)[:, None] / TIMESCALES, 1.0),
    "float32 positions / 3": (lambda p: (np.float32(p) / np.float32(3))[:, None] * W32, 3.0),
    "another power": (
        lambda p: np.float32(p)[:, None]
        * np.float32(10000) ** -(np.arange(32, dtype=np.float32) / np.float32(32)),
        1.0,
    ),
    "six digits": (lambda p: p[:, None] * ROUNDED, 1.0),
    "base": (lambda p: p[:, None] * 9999.99 ** (-np.arange(32) / 32), 1.0),
    "short pi": (lambda p: np.fmod(p[:, None] * W, 2 * 3.1415926), 1.0),
    "repeated product": (lambda p: p[:, None] * W + 1e-13 * p[:, None] ** 2.0, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("is_reduced", [False, True])
@pytest.mark.parametrize("name", by_day(ANGLES, ("float32 positions / 3",)))
def test_the_first_position_is_that_of_brute_force(name, is_reduced):
    angles, factor = ANGLES[name]
    asked = []

    def cos_sin(p):
        angle = angles(p)
        return np.float32(np.cos(angle)), np.float32(np.sin(angle))

    def off(p):
        exact = p[:, None] * (W / factor)
        pairs = zip(cos_sin(p), (np.cos(exact), np.sin(exact)), strict=True)
        return np.max([np.abs(got - true).max(axis=1) for got, true in pairs], axis=0)

    def error(p):
        asked.append(p)
        return off(p)

    def model():
        known = reduced(3.1415926) if name == "short pi" else None
        return fit(TELLING, *cos_sin(TELLING), W / factor, "float32", 0.0, factor, known)

    found = first_visible(error, 2**20 - 1, 0.0, is_reduced, model)
    block = 2**12
    starts = range(0, 2**20, block)
    over = (np.arange(s, s + block)[off(np.arange(s, s + block)) > 2**-9] for s in starts)
    brute = next(int(at[0]) for at in over if at.size)
    assert found.first is (name != "repeated product")
    assert brute == found.position or (brute < found.position and not found.first)
    if found.first:
        assert sum(p.size for p in asked) < (100 if is_reduced else SCAN + 1000)


@pytest.mark.parametrize("wrong", [None, 43696, 43697, 43694])
def test_a_contradicted_prediction_is_not_printed_as_the_first(wrong):
    """One position is as far off as its neighbours are not."""

    def cos_sin(p):
        angle = np.float32(p)[:, None] * W32
        angle[p == wrong] += 0.1 if wrong != 43697 else -angle[p == wrong] + 43697 * W
        return np.float32(np.cos(angle)), np.float32(np.sin(angle))

    def error(p):
        exact = p[:, None] * W
        pairs = zip(cos_sin(p), (np.cos(exact), np.sin(exact)), strict=True)
        return np.max([np.abs(got - true).max(axis=1) for got, true in pairs], axis=0)

    found = first_visible(
        error, 2**20 - 1, 0.0, True, lambda: fit(TELLING, *cos_sin(TELLING), W, "float32")
    )
    assert found.first is (wrong is None)
    assert found.position == (43698 if wrong == 43697 else wrong or 43697) or not found.first
