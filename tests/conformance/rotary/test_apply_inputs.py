"""What ``apply`` may refuse, how far it is judged, and what is judged without a declaration."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.rotary import judge as judge_apply
from tests.conformance.handwritten import only, rope, run_of, short

DIM = 16
HALF = RoPE(DIM, layout="half")
RIGHT = rope()


def finding(fn, encoding=HALF, **kwargs):
    """The only error."""
    report = check(fn, encoding, "apply", **kwargs)
    assert report.verdict == "deviates", report
    assert len(report.codes) == 1, report
    return report.findings[0]


@pytest.mark.parametrize(
    ("fn", "limits"),
    [
        (
            only(lambda p: p.ndim == 1, RIGHT),
            ["per-row positions (B, S): "],
        ),
        (only(lambda p: p.min(initial=0) >= 0, RIGHT), ["negative positions"]),
        (only(lambda p: p.dtype.kind == "i", RIGHT), ["fractional positions"]),
        (
            lambda x, p: RIGHT(x, p) if x.size else 1 / 0,
            ["no tokens: refused (ZeroDivision", "an empty batch: refused (ZeroDivision"],
        ),
        (lambda x, p: RIGHT(x, p) if np.isfinite(x).all() else 1 / 0, ["NaN in x: refused"]),
        (short(2000, RIGHT), ["positions past 1999", "negative", "fractional"]),
        (
            only(lambda p: p.ndim == 1 and np.array_equal(p, np.arange(p.size)), short(500, RIGHT)),
            ["positions that do not start at 0", "positions past 499"],
        ),
    ],
    ids=["per row", "negative", "fractional", "empty", "NaN", "short", "prefix"],
)
def test_refusals_are_limits(fn, limits):
    report = check(fn, HALF, "apply")
    assert report.passed, report
    assert len(report.limits) >= len(limits)
    for limit in limits:
        assert any(said.startswith(limit) for said in report.limits), report.limits
        what, _, _ = limit.partition(":")
        shown = [line for line in str(report).splitlines() if line.startswith("limit     ")]
        assert any(what in line for line in shown)


def test_rows_of_positions_that_are_broadcast_along_the_heads_get_a_note():
    def fn(x, p):
        if p.ndim == 1:
            return RIGHT(x, p)
        if len(p) != x.shape[1]:
            raise ValueError(f"shapes do not match: {p.shape}, {x.shape}")
        by_head = [RIGHT(x[:, h : h + 1], row) for h, row in enumerate(p)]
        return np.concatenate(by_head, axis=1)

    report = check(fn, HALF, "apply")
    assert report.passed, report
    [note] = report.findings
    assert note.code == "position-range"
    assert "per-row positions (B, S) with B = H are accepted and answered wrongly" in note.message


@pytest.mark.parametrize("rows", [5, 8, 20, 40, 64, 512, 1000])
def test_a_table_of_any_length_is_judged_to_its_end(rows):
    report = check(short(rows, RIGHT), HALF, "apply", accept_limits=True)
    assert report.passed, report
    assert report.accuracy.highest == rows - 1
    assert "a pass below 1024 says little" in str(report)
    wrong = check(short(rows, rope(base=500.0)), HALF, "apply")
    assert wrong.codes == ["base"], wrong
    last = check(
        short(rows, rope(positions=lambda p: np.where(p == rows - 1, 0, p))),
        HALF,
        "apply",
    )
    assert last.verdict == "deviates"


@pytest.mark.parametrize(
    ("name", "change"), [("negative", lambda p: np.maximum(p, 0)), ("fractional", np.trunc)]
)
def test_positions_that_no_model_sends_are_a_note_if_they_are_wrong(name, change):
    report = check(rope(positions=change), HALF, "apply")
    assert report.passed, report
    (note,) = report.findings
    assert (note.code, note.severity) == ("position-range", "note")
    assert note.message.startswith(f"{name} positions")


def test_an_optional_shape_may_not_be_wrong():
    found = finding(lambda x, p: RIGHT(x, p) if x.size else np.zeros(3, x.dtype))
    assert found.code == "shape"
    assert found.evidence in ("no tokens", "an empty batch")


@pytest.mark.parametrize("most", [128, 3000, 200000])
def test_max_position(most):
    seen = []

    def spy(x, p):
        seen.append(int(np.max(p, initial=0)))
        return RIGHT(x, p)

    report = check(spy, HALF, "apply", max_position=most)
    assert report.passed, report
    assert max(seen) == most == report.accuracy.highest
    assert f"judged    up to position {most}" in str(report)
    assert all(length <= most + 1 for length in report.accuracy.errors)


def test_a_wrong_array_is_no_refusal():
    def truncates(x, p):
        return RIGHT(x, p) if np.max(p, initial=0) < 3000 else None

    assert finding(truncates).code == "shape"


@pytest.mark.nightly
def test_nan_at_long_positions():
    found = finding(lambda x, p: RIGHT(x, p) * (1 if np.max(p, initial=0) < 1500 else np.nan))
    assert found.code == "nonfinite"


# --- without an encoding -------------------------------------------------------------------------


@pytest.mark.parametrize("base", [10000.0, 3.0])
def test_any_rotation_passes_without_an_encoding(base):
    report = check(rope(base=base), None, "apply", head_dim=DIM)
    assert report.passed, report
    assert "nothing (properties only)" in str(report)


@pytest.mark.parametrize(
    ("fn", "code"),
    [
        (lambda x, p: x, "not-a-rotation"),
        (lambda x, p: 0 * x, "not-a-rotation"),
        (lambda x, p: x - x.mean(axis=-1, keepdims=True), "not-a-rotation"),
        (lambda x, p: np.abs(RIGHT(x, p)), "not-linear"),
        (lambda x, p: -RIGHT(x, p), "not-a-rotation"),
    ],
    ids=["identity", "zeros", "mean removed", "absolute values", "negated"],
)
def test_what_is_no_rotation_fails_without_an_encoding(fn, code):
    report = check(fn, None, "apply", head_dim=DIM)
    assert report.codes == [code], report


def test_dtypes_that_are_not_floating():
    for kind in (np.int64, np.complex64, bool, object):
        found = finding(lambda x, p, kind=kind: x.astype(kind))
        assert found.code == "dtype"
    assert finding(lambda x, p: RIGHT(x, p).astype(np.float16)).code == "dtype"
    assert check(lambda x, p: RIGHT(x, p).astype(np.float64), HALF, "apply").passed


@pytest.mark.nightly
def test_one_pair_and_many():
    for dim in (2, 4, 128):
        encoding = RoPE(dim, layout="half")
        assert check(RIGHT, encoding, "apply").passed
        assert check(rope(positions=lambda p: -p), encoding, "apply").codes == ["sign"]


def test_every_required_check_is_executed():
    run = run_of(RIGHT, HALF, head_dim=DIM)
    judge_apply.judge(run)
    assert set(judge_apply.REQUIRED) <= run.report.executed.keys()
    assert run.failures == []


def test_another_kernel_for_strided_arrays_may_round_otherwise_but_not_misread():
    """Elements that nearly cancel differ by far more than a rounding of themselves."""

    def rounded_once(x, positions):
        return HALF.apply(x.astype(np.float64), positions).astype(np.float32)

    def by_the_stride(otherwise):
        def fn(x, positions):
            return RIGHT(x, positions) if x.flags.c_contiguous else otherwise(x, positions)

        return fn

    def misread(x, positions):
        return RIGHT(np.resize(x.base if x.base is not None else x, x.shape), positions)

    assert check(by_the_stride(rounded_once), HALF, "apply").passed
    found = finding(by_the_stride(misread))
    assert "sliced x is read in the order of its memory" in found.message
