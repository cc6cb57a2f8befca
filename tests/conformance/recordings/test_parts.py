"""Parts of the judge of recordings, each against what it must say of a few numbers."""

from types import SimpleNamespace

import numpy as np
import pytest

from posenc_ref import MixedRoPE, MultiAxisRoPE, RoPE
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.recordings.against import _matched
from posenc_ref.conformance.recordings.angles import Angles, fit
from posenc_ref.conformance.recordings.call import Recorded
from posenc_ref.conformance.recordings.judge_part import seen_in
from posenc_ref.conformance.recordings.limits import open_questions
from posenc_ref.conformance.recordings.measure import Tokens, general
from posenc_ref.conformance.recordings.merge import merged


def test_reports_that_judge_nothing_merge_into_one_that_judges_nothing():
    reports = [
        (label, Report(label, "apply", "RoPE(4)", "numpy", "float32", required=("values",)))
        for label in ("layers.0 q", "layers.1 q")
    ]
    whole = merged("recording", "as declared", reports)
    assert (whole.missing, whole.subject, whole.encoding) == (["values"], "recording", "RoPE(4)")
    assert whole.measured == "layers.0 q: nothing"


def test_layers_of_one_recording_only_are_named():
    mine, others = (
        [SimpleNamespace(label=f"layers.{n}") for n in numbers] for numbers in ((3, 0, 1), (1, 2))
    )
    both, alone = _matched(mine, others, "a", "b")
    assert [(one.label, other.label) for one, other in both] == [("layers.1", "layers.1")]
    assert alone == [("a", "layers.3"), ("a", "layers.0"), ("b", "layers.2")]


def test_tokens_at_the_origin_alone_show_no_frequency():
    angles = Angles(np.ones((2, 1), complex), np.ones((2, 1), bool), np.zeros((2, 1)), "float32")
    phases = fit(angles).phases
    assert (phases.frequencies[0], phases.sigma[0]) == (0.0, np.pi)


def test_only_frequencies_within_their_error_of_0_cannot_be_told_from_0():
    said = []
    phases = SimpleNamespace(
        frequencies=np.array([1.0, 1e-3, 1e-6]), sigma=np.array([1e-6, 1e-5, 1e-6])
    )
    fitted = SimpleNamespace(phases=phases, period=np.full(3, 2 * np.pi))
    seen = SimpleNamespace(
        tokens=SimpleNamespace(positions=np.array([[0, 1, 2]])), fitted=fitted, certain=True
    )
    open_questions(SimpleNamespace(limit=said.append), RoPE(6, layout="half"), seen)
    assert said == [
        "positions 0..2 give the frequencies of 2 slow pairs (from pair 1 on) to 0.1 % or worse; "
        "those of 1 pairs (from pair 2 on) cannot be told from 0"
    ]


def test_pairs_whose_map_the_heads_do_not_determine_have_no_misfit():
    x = np.random.default_rng(0).standard_normal((1, 3, 4))
    x[0, 1:, 2:] = x[0, :1, 2:] * [[2.0], [3.0]]  # the same direction in every head
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    y = np.concatenate([x[..., :2] @ turn.T, x[..., 2:]], axis=-1)
    channels = tuple(np.array(c) for c in ([0, 2], [1, 3], [0, 2], [1, 3]))
    found, misfit = general(Tokens(x, y, np.zeros((1, 1)), "float64"), channels)
    off = np.abs(found[0] - [turn, np.eye(2)]).max()
    assert max(off, misfit) <= BUDGET["float64"] * ROUNDOFF["float64"]


def test_a_sequence_ends_where_a_position_does_not_follow():
    part = SimpleNamespace(positions=np.array([[4, 5, 6, 0, 1, 9]]), starts=None)
    call = SimpleNamespace(part=part, x=np.zeros((1, 1, 6, 2)), contiguous=False)
    tokens = Recorded.tokens(call)
    assert tokens.start.tolist() == [[[4, 4, 4, 0, 0, 9]]]
    assert tokens.index.tolist() == [[[0, 1, 2, 0, 1, 0]]]
    assert tokens.size.tolist() == [[[3, 3, 3, 2, 2, 1]]]


@pytest.mark.parametrize("mixed", [True, False])
def test_pairs_that_follow_two_axes_have_no_phases(mixed):
    rng = np.random.default_rng(0)
    encoding = MultiAxisRoPE(8, sections=(2, 2), layout="half")
    if mixed:
        encoding = MixedRoPE(8, rng.standard_normal((2, 4)) / 4, layout="half")
    at = np.stack(np.divmod(np.arange(40), 8))
    x = rng.standard_normal((1, 3, 40, 8))
    y = encoding.apply(x, at[:, None])
    tokens = Tokens(x[0].swapaxes(0, 1), y[0].swapaxes(0, 1), at.astype(float), "float64")
    seen = seen_in(tokens, encoding, 40)
    assert seen.certain
    assert (seen.measured.phases is None) is mixed
