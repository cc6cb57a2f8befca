"""Judges of slopes, biases and buckets: state, refused inputs, lengths and dtypes."""

import numpy as np
import pytest

from posenc_ref import ALiBi, T5Bias
from posenc_ref.conformance import check
from tests.night import by_day

TABLE = np.random.default_rng(1).standard_normal((32, 4)).astype(np.float32)
ALIBI, T5 = ALiBi(6), T5Bias(TABLE)
SLOPES = ALIBI.slopes()[:, None, None]


def offsets(q_len, k_len):
    return np.arange(k_len) - np.arange(k_len - q_len, k_len)[:, None]


def t5(r):
    return np.moveaxis(TABLE[T5.bucket(r)], -1, 0)


class KeyedByKeys:
    """A cache that forgets q_len: right on fresh instances only."""

    def __init__(self):
        self.cache = {}

    def __call__(self, q_len, k_len):
        return self.cache.setdefault(k_len, SLOPES * offsets(q_len, k_len))


class OneBuffer:
    """Every result is a view of one buffer."""

    def __init__(self):
        self.buffer = np.zeros((6, 300, 4200))

    def __call__(self, q_len, k_len):
        view = self.buffer[:, :q_len, :k_len]
        view[:] = SLOPES * offsets(q_len, k_len)
        return view


class Latched:
    """Slopes are divided by the longest length seen."""

    def __init__(self):
        self.longest = 5

    def __call__(self, q_len, k_len):
        self.longest = max(self.longest, k_len)
        return SLOPES * offsets(q_len, k_len) * (5 / self.longest)


@pytest.mark.parametrize("make", by_day([KeyedByKeys, OneBuffer, Latched], {KeyedByKeys}))
def test_state(make):
    report = check(make(), ALIBI, "bias", factory=make)
    assert report.codes[0] == "state", report


def test_state_of_slopes_and_buckets():
    calls = []
    slopes = check(lambda n: calls.append(n) or ALiBi(n).slopes() / len(calls), ALIBI, "slopes")
    assert slopes.codes == ["state"]
    calls.clear()
    report = check(lambda r: calls.append(1) or T5.bucket(r) + (len(calls) > 3), T5, "bucket")
    assert report.codes[0] == "state"


def test_refusals_are_limits_and_the_longest_call_is_found():
    def refuses(q_len, k_len):
        if k_len > 1000:
            raise IndexError("table of 1000 rows")
        return SLOPES * offsets(q_len, k_len)

    report = check(refuses, ALIBI, "bias")
    assert report.passed
    assert report.accuracy.highest == 999
    assert any("table of 1000 rows" in limit for limit in report.limits)


@pytest.mark.nightly
def test_square_calls_stand_in_where_queries_start_at_zero():
    def square(q_len, k_len):
        if q_len != k_len:
            raise ValueError("queries start at 0")
        return SLOPES * offsets(q_len, k_len)

    report = check(square, ALIBI, "bias")
    assert report.passed
    assert report.accuracy.highest == 599
    assert check(lambda q, k: square(q, k) * 2, ALIBI, "bias").codes == ["bias-scale"]


def test_buckets_of_one_shape_are_enough():
    def vectors(r):
        if np.ndim(r) != 1:
            raise ValueError("one row only")
        return T5.bucket(r)

    report = check(vectors, T5, "bucket")
    assert report.passed
    assert any(limit.startswith("2-d") for limit in report.limits)


def test_the_first_call_must_not_raise():
    for surface, encoding in (("bias", ALIBI), ("bias", T5), ("bucket", T5), ("slopes", ALIBI)):
        report = check(lambda *args: 1 / 0, encoding, surface)
        assert report.codes == ["raises"]
        assert report.verdict == "deviates"


@pytest.mark.parametrize("max_position", [0, 3, 4, 100])
def test_max_position(max_position):
    report = check(lambda q, k: t5(offsets(q, k)), T5, "bias", max_position=max_position)
    assert report.accuracy.highest <= max_position
    assert report.verdict == ("conforms" if max_position > 3 else "inconclusive")


@pytest.mark.nightly
def test_half_precision_outputs_are_judged_by_their_dtype():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")

    def narrow(q_len, k_len, scale=1.0):
        return (scale * SLOPES * offsets(q_len, k_len)).astype(ml_dtypes.bfloat16)

    assert check(narrow, ALIBI, "bias", dtype="bfloat16").passed
    report = check(lambda q, k: narrow(q, k, 1.25), ALIBI, "bias", dtype="bfloat16")
    assert report.codes == ["bias-scale"]
    assert "dtype" in check(narrow, ALIBI, "bias").codes
