"""``evict_keys``: the formula by matrices, our own function, and every named mistake."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import Truth
from posenc_ref.conformance import SURFACES, check
from posenc_ref.conformance.functions.function import PlainCall
from posenc_ref.conformance.functions.judge import ROWS
from posenc_ref.conformance.oracle.apply import apply_truth
from tests.night import by_day

YARN = pr.YaRN(8.0, 512)
DECLARED = {
    "partial": pr.RoPE(16, layout="half", rotary_dim=8),
    "yarn": pr.RoPE(16, layout="interleaved", scaling=YARN),
    "written": pr.RoPE(16, layout="half", output_layout="interleaved"),
    "axes": pr.MultiAxisRoPE(16, sections=(4, 4), layout="half"),
}


def test_every_key_ends_at_its_place_in_the_cache(rng):
    """Keys rotated to places 0 .. 6 equal the cache 0, 1, 2, 3, 6, 7, 8 of the paper, evicted."""
    rope = DECLARED["yarn"]
    raw = rng.standard_normal((1, 2, 9, 16))
    turned = np.stack([raw[..., p, :] @ rope.matrix(p).T for p in range(9)], axis=-2)
    out = pr.evict_keys(rope, turned, 4, 2)
    left = [0, 1, 2, 3, 6, 7, 8]
    want = np.stack(
        [raw[..., p, :] @ rope.matrix(place).T for place, p in enumerate(left)], axis=-2
    )
    truth = apply_truth(rope, raw[:, :, left], np.arange(7))
    assert Truth(want, truth.amplitude, truth.angle).score(out).max() < 16
    assert Truth(want, truth.amplitude, truth.angle).score(turned[:, :, left]).max() > 1e6
    np.testing.assert_array_equal(out[:, :, :4], turned[:, :, :4])


@pytest.mark.parametrize("name", DECLARED)
def test_our_own_function_conforms(name):
    report = check(
        SURFACES["evict_keys"].own(DECLARED[name], "float32"), DECLARED[name], "evict_keys"
    )
    assert report.passed, report
    assert report.accuracy.worst < 2


def mistakes(name):
    """Pairs of a declaration and the number of a mistake; the first of them by day."""
    cases = [(name, n) for n in range(len(list(ROWS["evict_keys"].mistakes(DECLARED[name]))))]
    return by_day(cases, cases[:2])


@pytest.mark.parametrize("case", [case for name in DECLARED for case in mistakes(name)])
def test_every_known_mistake_is_named(case):
    name, number = case
    encoding, row = DECLARED[name], ROWS["evict_keys"]
    own = SURFACES["evict_keys"].own(encoding, "float32")
    mistake = list(row.mistakes(encoding))[number]

    def fn(*arguments):
        expected = np.asarray(own(*arguments))
        truth = mistake.predict(PlainCall(row, encoding, arguments))
        return expected if truth is None else truth.value.astype(np.float32)

    report = check(fn, encoding, "evict_keys")
    if not report.passed:  # a layout may be that of the result
        assert report.codes == [mistake.code], (mistake.message, str(report))
        assert report.findings[0].message == mistake.message


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ((pr.ALiBi(2), np.ones((3, 16)), 1, 1), "encoding must be a rotary encoding"),
        ((DECLARED["partial"], np.ones((3, 16)), 2, 2), "kept \\+ dropped must be at most 3"),
        ((DECLARED["partial"], np.ones((3, 16)), -1, 2), "kept must be"),
        ((DECLARED["partial"], np.ones((3, 16)), 1, 0.5), "dropped must be"),
        ((DECLARED["partial"], np.ones((3, 8)), 1, 1), "x must have shape|head_dim"),
        (
            (pr.RoPE(16, layout="half", scaling=pr.DynamicNTK(2.0, 8)), np.ones((3, 16)), 1, 1),
            "do not depend on the length",
        ),
    ],
)
def test_a_wrong_argument_is_named(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        pr.evict_keys(*call)
