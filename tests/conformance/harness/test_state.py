"""Each check of state and of robustness catches what every other check lets through."""

import numpy as np
import pytest

from posenc_ref import DynamicNTK, Learned, RoPE, Sinusoidal
from posenc_ref.conformance import check
from posenc_ref.conformance.rotary import judge as judge_apply
from tests.conformance.handwritten import HEAD_DIM, rope, run_of, sinusoid

ENCODING = RoPE(HEAD_DIM, layout="half")
RIGHT = rope()


class Latches:
    """Positions 0..3 come out other than at first, once a position past 1000 was seen."""

    def __init__(self):
        self.latched = False

    def __call__(self, x, p):
        p = np.asarray(p)
        short = np.array_equal(p, np.arange(4))
        y = RIGHT(x, p + 1 if self.latched and short else p)
        self.latched = self.latched or p.max(initial=0) > 1000
        return y


class KeyedByLength:
    """Calls of 11 to 14 tokens get the angles of the first call of their length."""

    def __init__(self):
        self.cache = {}

    def __call__(self, x, p):
        p = np.asarray(p)
        if p.ndim == 1 and 11 <= p.size <= 14:
            p = self.cache.setdefault(p.size, p.copy())
        return RIGHT(x, p)


class OneBuffer:
    """Calls of one shape return the same array."""

    def __init__(self):
        self.out = {}

    def __call__(self, x, p):
        out = self.out.setdefault(x.shape, np.empty_like(x))
        out[...] = RIGHT(x, p)
        return out


def poisoned(x, p):
    """A NaN anywhere is spread over its sequence by a product with 0."""
    return RIGHT(x, p) + 0 * x.sum(axis=2, keepdims=True)


def restores_the_norm(x, p):
    """Divides by the norm, which is 0 for a zero token."""
    y = RIGHT(x.astype(np.float64), p)
    with np.errstate(invalid="ignore"):
        ratio = np.linalg.norm(x, axis=-1, keepdims=True) / np.linalg.norm(
            y, axis=-1, keepdims=True
        )
    return (y * ratio).astype(x.dtype)


def bias_for_empty_tokens(x, p):
    """A token of zeros is taken for a mask and gets ones."""
    return np.where((x == 0).all(axis=-1, keepdims=True), np.float32(1), RIGHT(x, p))


def clips(x, p):
    """Clips what is larger than random numbers are."""
    return RIGHT(np.clip(x, -40, 40), p)


def drops_small_tokens(x, p):
    """Tokens shorter than 1/4 are taken for padding."""
    return RIGHT(x, p) * (np.linalg.norm(x, axis=-1, keepdims=True) >= 0.25)


def ignores_strides(x, p):
    """Walks through memory with the strides of a C array, unless it is a Fortran one."""
    if x.flags.f_contiguous:
        return RIGHT(x, p)
    strides = np.empty(x.shape, np.int8).strides
    strides = tuple(x.itemsize * s for s in strides)
    return RIGHT(np.lib.stride_tricks.as_strided(x, x.shape, strides), p)


def reads_in_memory_order(x, p):
    """Flattens in the order of the memory, whatever that is."""
    return RIGHT(x.ravel(order="K").reshape(x.shape), p)


def findings(fn, **kwargs):
    """The codes and messages of a run, and the cases that failed without one."""
    run = run_of(fn, ENCODING, **kwargs)
    judge_apply.judge(run)
    failed = [failure.case for failure in run.failures]
    return [(f.code, f.message) for f in run.report.findings if f.code != "inaccurate"], failed


FOUND = {
    Latches: ("state", "the same call gives other values after other calls"),
    KeyedByLength: (
        "state",
        "a call at other positions returns the result of an earlier call of the same length",
    ),
    OneBuffer: ("state", "an earlier result is overwritten by the next call"),
    poisoned: ("nonfinite", "a NaN in one token changes other tokens"),
    restores_the_norm: ("nonfinite", "a token of zeros does not come out as zeros"),
    bias_for_empty_tokens: ("not-linear", "a token of zeros does not come out as zeros"),
    clips: ("not-linear", "the output of 1.07374e+09 x is not 1.07374e+09 times the output of x"),
    drops_small_tokens: (
        "not-linear",
        "the output of 0.015625 x is not 0.015625 times the output of x",
    ),
}


@pytest.mark.parametrize("make", FOUND, ids=lambda make: make.__name__)
def test_the_only_finding(make):
    fn = make() if isinstance(make, type) else make
    assert findings(fn) == ([FOUND[make]], [])


@pytest.mark.parametrize(
    ("fn", "case"),
    [(ignores_strides, "strided"), (reads_in_memory_order, "Fortran order, read-only")],
    ids=["strides", "memory order"],
)
def test_the_only_failure(fn, case):
    found, failed = findings(fn)
    strides = {"strided", "heads and tokens transposed", "reversed heads"}
    assert case in failed
    crossed = {name for name in failed if name.endswith((", x transposed", ", x sliced"))}
    assert set(failed) <= strides | {"Fortran order, read-only"} | crossed
    ((code, message),) = found
    assert code == "wrong-row"
    assert message.endswith("is read in the order of its memory, as if it were contiguous")
    assert check(fn, ENCODING, "apply").codes == ["wrong-row"]


def test_every_check_is_counted():
    run = run_of(RIGHT, ENCODING)
    judge_apply.judge(run)
    # replay, kept result, three calls of one length, three more at equal low bits, two dtypes
    assert run.report.executed["state"] == 13
    assert run.report.executed["robustness"] == 11
    assert run.report.findings == run.failures == run.report.limits == []


def test_in_place_and_read_only_is_a_limit():
    def in_place(x, p):
        x[...] = RIGHT(x, p)
        return x

    report = check(in_place, ENCODING, "apply", inplace=True)
    assert report.passed, report
    assert [limit for limit in report.limits if limit.startswith("x in Fortran order, read-only")]
    assert check(in_place, ENCODING, "apply").codes == ["mutates-input"]


@pytest.mark.parametrize("late", [False, True], ids=["from the first call", "after the first"])
def test_a_table_that_depends_on_calls(late):
    class Advances:
        seen = 0

        def __call__(self, p):
            offset, self.seen = self.seen, self.seen + (late and 1)
            return sinusoid()(np.asarray(p) + offset)

    report = check(Advances(), Sinusoidal(HEAD_DIM), "table")
    assert report.codes == (["state"] if late else [])


def test_a_cache_of_tables_keyed_by_length():
    class Cached:
        def __init__(self):
            self.tables = {}

        def __call__(self, p):
            if not 11 <= len(p) <= 14:
                return sinusoid()(p)
            return self.tables.setdefault(len(p), sinusoid()(p))

    report = check(Cached(), Sinusoidal(HEAD_DIM), "table")
    assert [f.message for f in report.findings] == [FOUND[KeyedByLength][1]]


def test_frequencies_that_change():
    class Drifts:
        scale = 1.0

        def __call__(self):
            self.scale, scale = 2.0, self.scale
            return ENCODING.frequencies() * scale

    report = check(Drifts(), ENCODING, "frequencies", dtype="float64")
    assert report.codes == ["state"]


def test_steps_of_decoding_that_keep_a_position():
    """Single tokens get the position of the step before while it is less than 4 behind."""
    kept = []

    def apply(x, p):
        p = np.asarray(p)
        if p.shape == (1,):
            if not (kept and kept[0] <= p[0] < kept[0] + 4):
                kept[:] = p
            p = np.array(kept)
        return RIGHT(x, p)

    (found,) = check(apply, ENCODING, "apply").findings
    assert (found.code, found.message) == (
        "state", "a call of one token returns the result of an earlier call at position 70"
    )  # fmt: skip


def test_single_tokens_without_the_offset_of_a_learned_table():
    weight = np.random.default_rng(0).normal(size=(130, 4)).astype(np.float32)

    def table(p):
        p = np.asarray(p)
        return weight[p + 2 * (p.size > 1)]

    declared = Learned(weight, offset=2)
    (found,) = check(table, declared, "table").findings
    assert found.code == "decode-offset"
    assert found.message.startswith("a call with one position gets rows shifted by 0, declared 2;")
    assert check(lambda p: weight[np.asarray(p) + 2], declared, "table").passed


def test_frequencies_of_the_longest_call_are_kept_for_another_long_one():
    """A dynamic schedule that starts anew only within the trained length."""
    declared = RoPE(HEAD_DIM, layout="half", scaling=DynamicNTK(2.0, 64))

    def calls(given):
        longest, results = 64, []
        for x, start in given:
            end = start + x.shape[2]
            longest = max(longest, end) if end > 64 else 64
            results.append(declared.apply(x, np.arange(start, end), seq_len=longest))
        return results

    report = check(calls, declared, "calls")
    assert report.codes == ["state"]
    assert "length 256, then 129" in str(report)


def test_a_library_without_float16_is_judged_whole():
    pytest.importorskip("array_api_strict", reason="it has no float16")
    report = check(ENCODING.apply, ENCODING, "apply", backend="array_api_strict")
    assert (report.verdict, report.limits) == ("conforms", [])
