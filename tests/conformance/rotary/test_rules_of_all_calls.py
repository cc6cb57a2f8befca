"""A rule of positions is named only if it predicts every call that was judged, and says gaps."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.diagnosis.rule import DECLARED, find_rule

ROPE = RoPE(8, layout="half")


@pytest.mark.nightly
def test_tokens_past_1024_are_1024_back_not_modulo_128():
    def fn(x, positions):
        back = 1024 * ((np.arange(x.shape[2]) >= 1024) & (x.shape[2] > 1024))
        return ROPE.apply(x, np.asarray(positions) - back).astype(x.dtype)

    # Up to token 1151, "the position of token s modulo 128" gives the same numbers.
    assert "the declared position - 1024, where" in check(fn, ROPE, "apply").findings[0].message


@pytest.mark.nightly
def test_a_threshold_is_the_one_that_all_judged_calls_leave():
    def fn(x, positions):
        late = x.shape[0] == 2 and x.shape[2] > 16
        return ROPE.apply(x, np.asarray(positions) + late).astype(x.dtype)

    found = check(fn, ROPE, "apply").findings[0]
    assert found.message == (
        "the position used is the declared position + 1, where the length of the call is at least "
        "17 (8 is right) and the number of batch rows is 2"
    )


LENGTH, ROW = np.array([5, 8, 9, 17, 23, 5, 15, 17, 40]), np.array([1, 1, 1, 1, 1, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (LENGTH >= 17, "the length is at least 17 (15 is right)"),
        # 15 is right in row 0 only, where longer ones are right as well.
        ((LENGTH >= 17) & (ROW == 1), "the length is at least 17 (9 is right) and the row is 1"),
        (LENGTH <= 9, "the length is at most 9 (15 is right)"),
        (LENGTH <= 8, "the length is at most 8"),
    ],
)
def test_a_threshold_comes_with_the_nearest_right_value(wrong, words):
    at = {DECLARED: np.array([3, 10, 0, 1, 8, 6, 2, 9, 7]), "the length": LENGTH, "the row": ROW}
    rule = find_rule(at[DECLARED] + wrong, at)
    assert rule is not None
    assert rule.where == words


def test_one_wrong_number_has_no_rule():
    def fn(prompt, steps):
        late = 3 * ((np.arange(steps) == 7) & (steps == 20))
        return np.asarray(prompt)[..., None] + np.arange(steps) + late

    def ones(prompt, steps):
        return fn(prompt, steps) if np.ndim(prompt) else fn(prompt, steps).reshape(-1)

    (found,) = check(ones, None, "decode_positions").findings
    assert "consistent" not in found.message
    assert "no known mistake explains" in found.message


def test_the_remedy_of_a_rule_does_not_ask_for_what_is_done():
    def fn(lengths):
        parts = [np.arange(n) + (i == 2) for i, n in enumerate(lengths)]
        return np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int64)

    (found,) = check(fn, None, "packed").findings
    assert found.remedy.startswith("Subtract 1 where the number of the document is 2")


def test_the_heads_are_taken_for_the_tokens_from_the_smallest_position_on():
    def fn(x, positions):
        heads = np.min(positions, initial=2**20) + np.arange(x.shape[1])
        turned = ROPE.apply(np.swapaxes(x, 1, 2), heads)
        return np.swapaxes(turned, 1, 2).astype(x.dtype)

    found = check(fn, ROPE, "apply").findings[0]
    assert found.message == "the position used is the head + the smallest position of the call"
    assert found.code == "position-axis"


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (lambda p: p % 512, "(the declared position + the smallest position of the call) modulo"),
        (lambda p: np.minimum(p, 511), "smallest position of the call, clamped to at most 511"),
    ],
)
def test_a_prompt_that_is_counted_twice_is_cut_too(cut, words):
    def fn(x, positions):
        used = np.asarray(positions) + np.min(positions, initial=2**20)
        return ROPE.apply(x, cut(used)).astype(x.dtype)

    assert words in check(fn, ROPE, "apply").findings[0].message
