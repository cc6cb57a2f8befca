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


def on_permuted_weights(x, p):
    """Half-split weights, permuted for interleaved pairs: q and k stay in that order."""
    return HALF.replace(layout="interleaved").apply(x[..., np.argsort(OTHER)], p)


def moved_and_clamped(x, p):
    return moved(x, np.minimum(p, 700))


def moved_and_stuck(x, p):
    """Calls of one token are rotated to position 0."""
    return moved(x, p if x.shape[2] > 1 else 0 * np.asarray(p))


@pytest.mark.parametrize("fn", [moved, on_permuted_weights])
def test_another_order_of_the_channels_conforms_and_is_said(fn):
    report = check(fn, HALF, "apply", max_position=1023)
    assert report.passed, report
    assert notes(report) == ["harmless-convention"]
    (found,) = report.findings
    assert found.equivalent == ("output-layout",)
    assert "logits do not, if queries and keys both go through this function" in found.message
    assert report.accuracy.worst < 128
    strict = check(fn, HALF, "apply", max_position=1023, strict=True)
    assert strict.codes == ["output-layout"]
    assert notes(strict) == ["harmless-convention"]
    assert strict.executed["logits"] > 5


def test_the_remedy_follows_the_declaration():
    """DeepSeek-V3 in transformers reads pairs and writes halves: writing back is the mistake."""
    declared = RoPE(D, layout="interleaved", output_layout="half")
    for fn, encoding, remedy in (
        (
            declared.replace(output_layout=None).apply,
            declared,
            "to the declared channels, 0 and 16",
        ),
        (moved, HALF, "back to the channels it was read from"),
    ):
        report = check(fn, encoding, "apply", max_position=255, strict=True)
        assert report.codes == ["output-layout"]
        assert remedy in report.findings[0].remedy


def test_the_order_is_put_back_in_merged_heads():
    def merged(x, p):
        heads = x.reshape(*x.shape[:2], -1, D).transpose(0, 2, 1, 3)
        return moved(heads, p).transpose(0, 2, 1, 3).reshape(x.shape)

    report = check(merged, HALF, "apply", tensor_layout="bs(hd)", max_position=1023)
    assert (report.verdict, notes(report)) == ("conforms", ["harmless-convention"]), report


def test_another_origin_is_an_error_and_its_logits_are_a_note():
    report = check(later, HALF, "apply", max_position=1023)
    assert report.codes == ["position-origin"]
    assert notes(report) == ["harmless-convention"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("fn", "code"),
    [
        (moved_and_clamped, "position-range"),
        (moved_and_stuck, "decode-offset"),
        (lambda x, p: moved(x, p + (np.asarray(p) > 100)), "wrong-row"),
    ],
    ids=["clamped", "stuck", "late"],
)
def test_another_mistake_is_named_whatever_the_order(fn, code):
    """The order of the channels is harmless, and would come first."""
    report = check(fn, HALF, "apply", max_position=1023)
    assert code in report.codes, report
    assert "output-layout" not in report.codes
    (note,) = [f for f in report.findings if f.severity == "note"]
    assert note.message.startswith("the order of the channels changes no logit, if queries and")
    assert check(fn, HALF, "apply", max_position=1023, strict=True).codes[0] == "output-layout"


@pytest.mark.parametrize(
    "fn",
    [
        backwards, moved_at_odd_positions, moved_and_clamped, moved_and_stuck,
        HALF.replace(layout="interleaved").apply,
    ],
)  # fmt: skip
def test_nothing_is_excused_where_logits_differ(fn):
    report = check(fn, HALF, "apply", max_position=1023)
    assert report.verdict == "deviates"


@pytest.mark.parametrize(("fn", "passed"), [(moved, True), (later, True), (backwards, False)])
def test_both_sides_of_apply_qk(fn, passed):
    def both(q, k, a, b):
        return fn(q, a), fn(k, b)

    report = check(both, HALF, "apply_qk")
    assert report.passed == passed
    assert notes(report) == ["harmless-convention"] * passed
    # The errors of tensors must not read as errors of a function that conforms.
    label = "errors    of tensors, from the convention in the note, at the end of a context of 4Ki"
    assert (label in str(report)) == passed
    assert not passed or "first error over" not in str(report)
    assert report.accuracy.degrades_at == 0 or not passed
    strict = check(both, HALF, "apply_qk", strict=True)
    assert label not in str(strict)
    assert strict.verdict == "deviates"
    assert "harmless-convention" not in strict.codes


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
