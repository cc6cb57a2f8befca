"""Mistakes that need two facts of a call at once are caught, and located."""

import numpy as np
import pytest

from posenc_ref import RoPE, scores
from posenc_ref.conformance import check
from tests.night import by_day

ENCODING = RoPE(16, layout="half")


def first_row_in_decoding(x, positions):
    """A decoding batch shares the position of its first row."""
    shared = positions.ndim == 2 and x.shape[2] == 1
    return ENCODING.apply(x, positions[0] if shared else positions)


def tail_of_a_view(x, positions):
    """The vectorised loop over tokens leaves the remainder of a transposed view unrotated."""
    y, rest = ENCODING.apply(x, positions), x.shape[2] % 8
    if rest and not x.flags.c_contiguous:
        y[:, :, -rest:] = x[:, :, -rest:]
    return y


def many_heads_of_one_token(x, positions):
    """A kernel for decoding takes eight heads at a time, and drops the others."""
    y = ENCODING.apply(x, positions)
    if x.shape[2] == 1:
        y[:, 8:] = x[:, 8:]
    return y


WRONG = {
    first_row_in_decoding: (
        "row-offset",
        "the same token of row 0, where the length of the call is 1",
    ),
    tail_of_a_view: ("wrong-row", "the last S mod 8 tokens of a call, in calls with x"),
    many_heads_of_one_token: (
        "position-axis",
        "as at position 0, where the length of the call is 1 and the head is at least 8",
    ),
}


@pytest.mark.parametrize(
    "fn", by_day(WRONG, {first_row_in_decoding}), ids=lambda fn: getattr(fn, "__name__", "")
)
def test_two_facts_at_once(fn):
    report = check(fn, ENCODING, "apply")
    code, words = WRONG[fn]
    assert report.verdict == "deviates", report
    assert words in str(report.findings[0]), report
    assert code == report.codes[0], report


class Cache:
    """Keeps cos and sin in the dtype of the first call."""

    def __init__(self):
        self.kept = None

    def __call__(self, x, positions):
        if self.kept is None:
            angle = np.arange(2**12)[:, None] * ENCODING.frequencies()
            self.kept = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
        cos, sin = (table[positions] for table in self.kept)
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def test_two_dtypes_on_one_instance():
    report = check(Cache(), ENCODING, "apply", factory=Cache)
    assert report.codes == ["state"], report
    assert "after a call in float16" in report.findings[0].message


def logits(q, k, order):
    """Return logits of fewer key heads than query heads, repeated in an order."""
    group = q.shape[1] // k.shape[1]
    k = order(k, group)
    n_q, n_k = q.shape[2], k.shape[2]
    return scores(ENCODING, q, k, range(n_k - n_q, n_k), range(n_k))


def test_query_heads_take_the_key_head_of_their_group():
    right = check(lambda q, k: logits(q, k, lambda k, n: np.repeat(k, n, 1)), ENCODING, "scores")
    assert right.passed, right
    assert any("query heads per key head" in text for text in right.crossed)
    wrong = check(
        lambda q, k: logits(q, k, lambda k, n: np.tile(k, (1, n, 1, 1))), ENCODING, "scores"
    )
    assert wrong.findings[0].message == "query head h uses the key head h modulo H_kv", wrong


def test_fewer_key_heads_may_be_refused():
    def alike(q, k):
        if q.shape[1] != k.shape[1]:
            raise ValueError("as many heads of k as of q")
        return logits(q, k, lambda k, n: k)

    report = check(alike, ENCODING, "scores")
    assert report.passed, report
    assert sum("fewer key heads than query heads" in limit for limit in report.limits) == 1


def test_keys_of_a_group_in_apply_qk():
    def wrong(q, k, q_at, k_at):
        grouped = q.shape[1] > k.shape[1] > 1
        keys = ENCODING.apply(k, k_at)
        if grouped:
            keys[:, 1:] = ENCODING.apply(k[:, 1:], k_at + 1)
        return ENCODING.apply(q, q_at), keys

    report = check(wrong, ENCODING, "apply_qk")
    assert "all heads but 0, in calls with H / H_kv >= 2" in str(report.findings[0]), report


def test_empty_documents_before_several_others():
    def wrong(lengths):
        ends = np.cumsum(lengths)
        starts = np.r_[0, ends[:-1]]
        if np.any(lengths == 0) and lengths.size > 3:  # the next start is looked up by its number
            starts = starts[np.searchsorted(starts, starts)] - (lengths == 0).cumsum()
        return np.arange(ends[-1] if ends.size else 0) - np.repeat(starts, lengths)

    report = check(wrong, None, "packed")
    assert report.verdict == "deviates", report
    assert "empty documents before several others" in str(report.findings[0]), report
