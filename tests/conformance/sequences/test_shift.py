"""``shift_keys``: every delta is a call, so there are few; caches longer than a tile are judged."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

ROPE = RoPE(16, layout="half")
#: Calls over a pipe take milliseconds each.
FEW = 300


def shift(x, delta):
    return np.asarray(ROPE.shift(x, delta)).astype(np.float32)


def kept(part):
    """Keys of a part of the cache stay as they are."""

    def fn(x, delta):
        y = shift(x, delta)
        y[part] = x[part]
        return y

    return fn


def counted(fn):
    calls = []

    def one(x, delta):
        calls.append(delta)
        return fn(x, delta)

    return check(one, ROPE, "shift_keys"), len(calls)


def test_a_right_function_is_asked_a_few_hundred_times():
    report, calls = counted(shift)
    assert report.passed, report
    assert calls < FEW


@pytest.mark.parametrize(
    ("part", "code"),
    [
        # More tokens than any other call has.
        pytest.param(np.s_[:, :, 5:], "wrong-row", marks=pytest.mark.nightly),
        (np.s_[:, :, 2048:], "wrong-row"),
        pytest.param(np.s_[:, 32:], "position-axis", marks=pytest.mark.nightly),
        pytest.param(np.s_[8:], "row-offset", marks=pytest.mark.nightly),
    ],
    ids=["sixth token", "last tokens", "last head", "last row"],
)
def test_what_lies_past_a_tile_is_not_moved(part, code):
    report, _ = counted(kept(part))
    assert report.codes == [code], report


@pytest.mark.parametrize(
    ("delta", "code"),
    [
        (lambda d: d + (3000 < d < 3004), "wrong-row"),
        (lambda d: min(d, 4000), "position-range"),
        (lambda d: 1.001 * d, "position-scale"),
        (lambda d: d + (d > 4096), "wrong-row"),
    ],
    ids=["band", "clamped", "scaled", "past"],
)
def test_wrong_deltas_keep_their_names(delta, code):
    at = lambda x, d: np.full(x.shape[2], delta(d))  # noqa: E731
    report, calls = counted(lambda x, d: ROPE.apply(x, at(x, d)).astype(np.float32))
    assert report.verdict == "deviates"
    assert code in report.codes, report
    assert calls < 2 * FEW


def test_long_caches_may_be_refused():
    def few(x, delta):
        if x.shape[2] > 1024:
            raise ValueError("the cache has 1024 keys")
        return shift(x, delta)

    report, _ = counted(few)
    assert report.passed, report
    assert any("2050" in limit and "refused" in limit for limit in report.limits)
