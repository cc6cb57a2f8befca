"""Rotations that are wrong in some calls or elements only: the cause, the place and the remedy."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.rotary import turned
from tests.night import by_day

HALF = pr.RoPE(8, layout="half")
IMAGES = pr.MultiAxisRoPE(8, sections=(2, 2), layout="half", spacing="restart")


def eight_heads(x, positions):
    y = HALF.apply(x, positions)
    y[:, 8:] = x[:, 8:]
    return y


def by_memory(x, positions):
    return HALF.apply(x.ravel(order="K").reshape(x.shape), positions)


def joined(x, positions):
    return HALF.apply(x, positions).transpose(0, 2, 1, 3).reshape(x.shape)


def overwritten(x, positions):
    cos, sin = (t.astype(x.dtype) for t in HALF.cos_sin(positions, dtype="float64"))
    cos, sin = (t[:, None] if t.ndim == 3 else t for t in (cos, sin))
    a, b = x[..., :4], x[..., 4:]
    a = a * cos - b * sin
    return np.concatenate([a, b * cos + a * sin], axis=-1)


def tile(x, positions):
    """Read the positions of the last tile of 16 from the start of the list."""
    p, n = np.asarray(positions), x.shape[2]
    index = np.arange(n)
    return HALF.apply(x, p[..., np.where(index >= n // 16 * 16, index % 16, index)])


def one_axis(x, positions):
    at = np.asarray(positions)
    return IMAGES.apply(x, np.broadcast_to(at[0], at.shape) if x.shape[2] == 1 else at)


def backwards(x, positions):
    return HALF.apply(x, -np.asarray(positions) if x.shape[2] == 1 else positions)


CASES = {
    "heads": (eight_heads, HALF, "nothing is rotated, only in heads from 8 on", "too, by the"),
    "memory": (by_memory, HALF, "a transposed x is read in the order of its memory", "strides"),
    "joined": (joined, HALF, "heads and tokens of the result are exchanged by a reshape",
               "with a transpose"),
    "overwritten": (overwritten, HALF, "the first one's result, which has overwritten it",
                    "keep x1 until y2"),
    "tile": (tile, HALF, "the position of token s modulo 16, where the index in the call is past "
             "the last multiple of 16", "Use the declared position, also where"),
    "one axis": (one_axis, IMAGES, "axis 0 is used on every axis, only in calls with S = 1",
                 "on each axis"),
    "backwards": (backwards, HALF, "the other way, by -angle, only in calls with S = 1",
                  "Rotate by +angle"),
}  # fmt: skip


@pytest.mark.parametrize("case", by_day(CASES, ["joined"]))
def test_the_cause_and_its_remedy(case):
    function, encoding, words, remedy = CASES[case]
    finding = check(function, encoding, "apply").findings[0]
    assert words in finding.message
    assert remedy in finding.remedy


@pytest.mark.nightly
def test_an_error_of_the_last_tile_begins_at_no_position():
    """Errors of 3e-08 at the end of all contexts stood above "first error ... at position 0"."""
    accuracy = check(tile, HALF, "apply").accuracy
    assert max(accuracy.errors.values()) < 2**-9
    assert accuracy.degrades_at is None


@pytest.mark.parametrize(
    ("dtype", "kind", "severity"),
    [
        ("float64", np.float32, "error"),
        pytest.param("float32", np.int32, "note", marks=pytest.mark.nightly),
    ],
)
def test_positions_in_narrow_formats_show_past_2_to_the_24(dtype, kind, severity):
    def narrow(x, positions):
        held = np.asarray(positions).astype(kind).astype(np.float64)
        return HALF.apply(x, held)

    findings = check(narrow, HALF, "apply", dtype=dtype).findings
    assert [f.severity for f in findings if "past 2**" in f.message] == [severity]
    assert not check(HALF.apply, HALF, "apply", dtype=dtype).findings


@pytest.mark.parametrize(
    ("kept", "said", "remedy"),
    [
        (slice(0, 32), "32 pairs is rotated: channels 0-31 come out as passed, their partners "
         "32-63 turned", "compute output channels 0-31 too"),
        (slice(40, 64), "24 pairs is rotated: channels 40-63 come out as passed, their partners "
         "8-31 turned", "compute output channels 40-63 too"),
        ([5], "1 pair is rotated: channel 5 comes out as passed, its partner 37 turned",
         "compute output channel 5 too"),
    ],
    ids=["first halves", "pairs from 8 on", "one"],
)  # fmt: skip
def test_pairs_of_which_one_channel_is_returned_as_passed(kept, said, remedy):
    """Such channels were called rotated, and the others were to be rotated too."""

    def half_rotated(x, positions):
        y = pr.RoPE(64, layout="half").apply(x, positions)
        y[..., kept] = x[..., kept]
        return y

    report = check(half_rotated, pr.RoPE(64, layout="half"), "apply")
    assert report.findings[0].message == f"only one channel of {said}"
    assert remedy in report.findings[0].remedy
    assert "no channel pairs are rotated" not in str(report)


@pytest.mark.parametrize(
    ("used", "said"),
    [
        (lambda p: np.asarray(p, np.int64) // 4096, "another position than declared: 0 for 37"),
        (lambda p: np.where(np.asarray(p) < 5000, 0, p), "not rotated, as at position 0, where"),
        (np.zeros_like, "nothing is rotated: every frequency is 0"),
    ],
    ids=["whole blocks", "far tokens only", "nothing"],
)
def test_what_turns_far_tokens_does_not_rotate_nothing(used, said):
    """Nothing but near tokens was tried, and every frequency was said to be 0."""
    declared = pr.RoPE(8, layout="half")
    report = check(lambda x, p: declared.apply(x, used(p)), declared, "apply")
    assert said in report.findings[0].message
    where = "no channel pairs are rotated at positions [0, 1, 37, 211, 1021]"
    assert report.measured == where


@pytest.mark.parametrize("right_for", [None, 257], ids=["no call right", "one size right"])
def test_what_is_wrong_in_every_size_needs_no_more_sizes(right_for):
    """A compiler takes its time for each; where one size is right, others show the rule."""
    sizes = set()

    def minus(x, positions):
        sizes.add(x.shape[:3])
        sign = 1 if x.shape[2] == right_for else -1
        return HALF.apply(x, sign * np.asarray(positions))

    report = check(minus, HALF, "apply")
    only_here = {(1, 2, 55), (1, 1, 1100)}
    assert only_here < {size for size, *_ in turned.CALLS}
    assert bool(sizes & only_here) == (right_for is not None)
    if right_for is None:
        assert report.codes[0] == "sign"


def test_every_library_takes_the_positions():
    """PyTorch refuses arrays with negative strides; the diagnosis would end there."""
    for _, positions, *_ in (*turned.CALLS, *turned.FURTHER):
        assert all(stride >= 0 for stride in np.asarray(positions).strides)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_exchanged_results_of_a_pair_change_no_logit(layout):
    encoding = pr.RoPE(16, layout=layout)

    def exchanged(x, positions):
        y = np.asarray(encoding.apply(x, positions))
        if layout == "half":
            return np.concatenate([y[..., 8:], y[..., :8]], axis=-1)
        return y.reshape(*y.shape[:-1], 8, 2)[..., ::-1].reshape(y.shape)

    report = check(exchanged, encoding, "apply")
    assert report.verdict == "conforms", report
    (note,) = report.findings
    assert "the two results of a pair are exchanged" in note.message
    assert check(exchanged, encoding, "apply", strict=True).codes == ["output-layout"]
