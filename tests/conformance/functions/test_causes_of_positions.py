"""Causes of wrong positions that depend on the shape of the call, or on the call before."""

import numpy as np

import posenc_ref as pr
from posenc_ref.conformance import check


def first(fn, surface):
    report = check(fn, None, surface)
    assert report.verdict == "deviates"
    return report.findings[0]


def test_a_square_mask_is_summed_down_its_rows():
    def fn(mask):
        return np.add.accumulate(mask, axis=int(len(mask) != mask.shape[1])) - 1

    found = first(fn, "position_ids")
    assert found.message == (
        "the result is the number of real tokens above, in the same column, where the length of "
        "the row equals the number of rows"
    )


def test_rows_with_as_many_tokens_share_the_positions_of_the_first():
    def fn(mask):
        p = np.array([[max(sum(row[: i + 1]) - 1, 0) for i in range(len(row))] for row in mask])
        return p[[0] * len(p)] if np.ptp(mask.sum(-1)) == 0 else p

    found = first(fn, "position_ids")
    assert "the position of the same token of row 0, where the most real tokens" in found.message
    assert "consistent with" in found.message  # two calls only are wrong


def test_documents_that_are_longer_than_the_first_start_again():
    def fn(lengths):
        n = [int(x) for x in lengths]
        return np.array([i % n[0] if n[0] else i for size in n for i in range(size)], int)

    found = first(fn, "packed")
    assert found.message == (
        "the result is the declared value modulo the length of the first document"
    )


def test_one_more_for_a_batch_of_prompts():
    def fn(prompt, steps):
        start = prompt if np.isscalar(prompt) else np.asarray(prompt)[:, None] + 1
        return start + np.arange(steps)

    found = first(fn, "decode_positions")
    assert found.message.endswith(
        "the declared value + 1, where the number of axes of the prompt lengths is 1"
    )


def test_a_counter_that_is_kept_for_the_next_prompt():
    class Counter:
        end = 0

        def __init__(self, least):
            self.least = least

        def __call__(self, prompt, steps):
            if np.ndim(prompt):
                self.end = 0
                return np.add.outer(prompt, np.arange(steps))
            start = max(self.end, prompt) if self.least or not self.end else self.end
            self.end = start + steps
            return np.arange(start, self.end)

    for least, words in ((True, ", if its prompt is shorter"), (False, "")):
        found = first(Counter(least), "decode_positions")
        assert (found.code, found.message) == (
            "state",
            f"a call goes on at the position at which the call before ended{words}",
        )


def test_right_positions_conform():
    for surface in ("position_ids", "packed", "decode_positions"):
        assert check(getattr(pr, surface), None, surface).verdict == "conforms"


def packed(number):
    """Return a function of lengths whose document i of n tokens has ``number(n, lengths[:i])``."""

    def fn(lengths):
        n = [int(x) for x in lengths]
        each = [np.asarray(number(m, n[:i])) for i, m in enumerate(n)]
        return np.concatenate([*each, np.zeros(0)]).astype(int)

    return fn


def test_documents_are_numbered_backwards():
    found = first(packed(lambda n, before: np.arange(n)[::-1]), "packed")
    assert found.message == "every document is numbered backwards, from its last token"
    assert found.remedy.startswith("Count up from the first token of every document")


def test_documents_after_an_empty_one_start_late():
    found = first(packed(lambda n, before: np.arange(n) + (0 in before)), "packed")
    assert found.message == "documents after an empty one start at 1"


def test_a_rule_for_every_result_precedes_a_mistake_that_explains_some():
    found = first(packed(lambda n, before: np.arange(n) + 2 * (0 in before)), "packed")
    assert found.message == (
        "the result is the declared value + 2, where the number of empty documents before is at "
        "least 1"
    )


def test_positions_limited_to_the_number_of_real_tokens():
    def fn(mask):
        start, most = np.argmax(mask, axis=1)[:, None], mask.sum(axis=1, keepdims=True) - 1
        return np.clip(np.arange(mask.shape[1]) - start, 0, np.maximum(most, 0))

    found = first(fn, "position_ids")
    assert found.message.startswith("only padding on the left is not counted, and positions past")


def test_jumps_by_the_length_of_the_wrong_document():
    def fn(lengths):
        n = np.asarray(lengths)
        step = np.ones(n.sum(), int)
        step[0] = 0
        step[np.cumsum(n)[:-1]] = 1 - n[1:]
        return np.cumsum(step)

    assert first(fn, "packed").message.startswith("positions jump back by the length of the docum")


def test_a_cause_is_sought_though_some_results_have_another_shape():
    def fn(lengths):
        last = len(lengths) if len(lengths) < 3 else 2  # the others are forgotten
        return np.concatenate([np.arange(1, n + 1) for n in lengths[:last]])

    report = check(fn, None, "packed")
    assert report.findings[0].message == "documents start at 1"
    assert any("expected shape" in limit for limit in report.limits)


def test_a_cause_is_sought_though_some_calls_raise():
    def fn(mask):
        return np.cumsum(np.reshape(mask, (-1, 9) if len(mask) == 7 else mask.shape), axis=-1)

    report = check(fn, None, "position_ids")
    assert report.findings[0].message == "real tokens are counted from 1"
    assert any("cannot reshape" in limit for limit in report.limits)
