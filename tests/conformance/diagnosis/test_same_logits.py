"""Tensors that differ while logits agree: excused where both sides are seen, remarked on else."""

import numpy as np
import pytest

from posenc_ref import RoPE, permute_weights
from posenc_ref.conformance import check

D = 32
HALF = RoPE(D, layout="half")
OTHER = np.r_[0:D:2, 1:D:2]


def moved(x, p):
    """Right, with the channels of the output in another order."""
    return HALF.apply(x, p)[..., OTHER]


def backwards(x, p):
    return HALF.replace(sign=-1).apply(x, p)


def later(x, p):
    """The first token stands at 1."""
    return HALF.apply(x, p + 1)


def moved_at_odd_positions(x, p):
    y, odd = HALF.apply(x, p), (np.asarray(p) % 2 == 1)[..., :, None]
    odd = odd if np.ndim(p) == 1 else odd[:, None]
    return np.where(odd, y[..., OTHER], y)


def notes(report):
    return [f.code for f in report.findings if f.severity == "note"]


@pytest.mark.parametrize(
    ("fn", "code"), [(moved, "output-layout"), (later, "position-origin")], ids=["moved", "later"]
)
def test_one_map_is_an_error_and_its_logits_are_a_note(fn, code):
    report = check(fn, HALF, "apply", max_position=1023)
    assert report.codes == [code]
    assert notes(report) == ["harmless-convention"]
    assert report.executed["logits"] > 5


@pytest.mark.parametrize("fn", [backwards, moved_at_odd_positions])
def test_no_note_where_logits_differ(fn):
    report = check(fn, HALF, "apply", max_position=1023)
    assert report.verdict == "deviates"
    assert notes(report) == []


@pytest.mark.parametrize(("fn", "passed"), [(moved, True), (later, True), (backwards, False)])
def test_both_sides_of_apply_qk(fn, passed):
    report = check(lambda q, k, a, b: (fn(q, a), fn(k, b)), HALF, "apply_qk")
    assert report.passed == passed
    assert notes(report) == ["harmless-convention"] * passed


@pytest.mark.parametrize(("fn", "passed"), [(moved, True), (later, True), (backwards, False)])
def test_scores_see_nothing_of_it(fn, passed):
    def scores(q, k):
        at = np.arange(k.shape[2])
        turned = fn(q, at[-q.shape[2] :]), fn(k, at)
        return turned[0] @ np.swapaxes(turned[1], -1, -2) * D**-0.5

    assert check(scores, HALF, "scores").passed == passed


def test_no_other_permutation_of_weights_is_excused():
    """Another order of pairs gives them other frequencies, another order in a pair turns it."""

    def swapped(w, heads):
        rows = permute_weights(w, heads, source="half", target="interleaved")
        return rows.reshape(heads, -1, 2, w.shape[-1])[:, :, ::-1].reshape(w.shape)

    report = check(swapped, None, "permute_weights")
    assert report.codes == ["permutation"]
    assert notes(report) == []
