"""Causes in what is kept: when cached keys are rotated anew, kept frequencies, last rows."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.oracle.calls import at_length
from posenc_ref.conformance.sequences import chunked

SHORT, LONG = (1.0, 1.1, 1.2, 1.3), (1.0, 3.0, 5.0, 9.0)
GROWING = pr.RoPE(8, layout="half", scaling=pr.LongRoPE(SHORT, LONG, 24, factor=2.0))


def cache(anew, encoding=GROWING):
    """Return a cache whose keys are rotated anew if ``anew(before, after)``."""

    def fn(k, chunks):
        at, parts = 0, []
        for n in chunks:
            first, at = at, at + n
            if anew(first, at):
                first, parts = 0, []
            parts.append(encoding.apply(k[:, :, first:at], np.arange(first, at), seq_len=at))
        return np.concatenate(parts, axis=2)

    return fn


@pytest.mark.parametrize(
    ("anew", "words"),
    [
        (
            lambda a, b: a < 24 < b,
            "only by a chunk that begins at fewer than 24 keys and ends at more (never, if one "
            "ends at exactly 24)",
        ),
        (lambda a, b: b == 25, "only when their number is exactly 25"),
        (lambda a, b: b - a == 1, "only by chunks of one token"),
        (lambda a, b: b // 16 > a // 16, "only when their number reaches a multiple of 16"),
    ],
)
def test_keys_that_are_rotated_anew_after_some_chunks_only(anew, words):
    (found,) = check(cache(anew), GROWING, "key_cache").findings
    assert found.code == "stale-cache"
    assert found.message == (
        f"cached keys are rotated again {words}; keys inserted between have the frequencies of "
        "their own length"
    )
    assert "further calls agree" in found.evidence


@pytest.mark.parametrize(("every", "nth"), [(2, "second"), (3, "third")])
def test_keys_that_are_rotated_anew_by_every_nth_chunk(every, nth):
    """Such a cache passed: all chunks that were made ended with one that rotates anew."""

    def fn(k, chunks):
        at, parts = 0, []
        for number, n in enumerate(chunks, 1):
            first, at = at, at + n
            if number % every == 0:
                first, parts = 0, []
            parts.append(GROWING.apply(k[:, :, first:at], np.arange(first, at), seq_len=at))
        return np.concatenate(parts, axis=2)

    (found,) = check(fn, GROWING, "key_cache").findings
    assert found.message.startswith(f"cached keys are rotated again only by every {nth} chunk")


def test_keys_that_are_rotated_anew_past_the_trained_length_are_right():
    assert check(cache(lambda a, b: a <= 24 < b), GROWING, "key_cache").verdict == "conforms"


def test_chunks_are_predicted_once_for_all_mistakes(monkeypatch):
    """Many mistakes give chunks the same frequencies; this one has no name."""
    made = []

    def counted(encoding, x, positions, length):
        made.append(length)
        return at_length(encoding, x, positions, length)

    monkeypatch.setattr(chunked, "at_length", counted)
    (found,) = check(cache(lambda a, b: a <= 48 < b), GROWING, "key_cache").findings
    assert found.message.startswith("consistent with a part of the results")
    assert len(made) < 6000


def in_turn(chooses, encoding=GROWING):
    """Return calls whose frequencies are chosen anew if ``chooses(start, end, kept)``."""

    def fn(calls):
        kept, results = 0, []
        for x, start in calls:
            end = start + x.shape[2]
            kept = end if not kept or chooses(start, end, kept) else kept
            results.append(encoding.apply(x, np.arange(start, end), seq_len=kept))
        return results

    return fn


DYNAMIC = pr.RoPE(8, layout="half", scaling=pr.DynamicNTK(3.0, 48))


@pytest.mark.parametrize(
    ("chooses", "words"),
    [
        (lambda a, b, kept: b > kept or b < 48, "longest call so far are kept, until a call ends "
         "before 48"),
        (lambda a, b, kept: b > kept or b <= 48, "longest call so far are kept, until a call ends "
         "at 48 or before"),
        (lambda a, b, kept: b > kept or a == 0, "longest call so far are kept, until a call begins "
         "at 0"),
        (lambda a, b, kept: b - a > 1, "first call are kept, until a call has several tokens"),
    ],
)  # fmt: skip
def test_frequencies_that_are_kept_until_some_call(chooses, words):
    (found,) = check(in_turn(chooses, DYNAMIC), DYNAMIC, "calls").findings
    assert (found.code, found.message) == (
        "state",
        f"the frequencies of the {words} and chooses them anew",
    )
    assert "further calls agree" in found.evidence


@pytest.mark.parametrize("at_least", [2, 3])
def test_batch_rows_that_decide_refute_a_rule_of_lengths(at_least):
    def fn(calls):
        kept, results = 0, []
        for x, start in calls:
            end = start + x.shape[2]
            kept = end if not kept or len(x) >= at_least else kept
            results.append(DYNAMIC.apply(x, np.arange(start, end), seq_len=kept))
        return results

    (found,) = check(fn, DYNAMIC, "calls").findings
    message = "a call that is right by itself is wrong after other calls"
    assert (found.code, found.message) == ("state", message)


def test_calls_in_turn_that_refute_a_rule_are_not_wrong_by_themselves():
    """Only an earlier call makes a call wrong here, by a rule without a name."""
    quarter = in_turn(lambda a, b, kept: b > kept or 4 * b < kept, DYNAMIC)
    (found,) = check(quarter, DYNAMIC, "calls").findings
    message = "a call that is right by itself is wrong after other calls"
    assert (found.code, found.message) == ("state", message)


@pytest.mark.parametrize(
    ("grown", "words"),
    [
        (lambda old, end: max(old, end), ""),
        (lambda old, end: max(old, 1 << (end - 1).bit_length()), ", whose length is a power of 2"),
    ],
)
def test_a_single_token_gets_the_last_row_of_a_table(grown, words):
    plain = pr.RoPE(8, layout="interleaved")

    def fn(calls):
        rows, results = 0, []
        for x, start in calls:
            rows = grown(rows, start + x.shape[2])
            at = np.arange(start, start + x.shape[2])
            results.append(plain.apply(x, np.array([rows - 1]) if at.size == 1 else at))
        return results

    found = check(fn, plain, "calls").findings[0]
    message = f"a call of one token gets the last row of a kept table{words}, not its own"
    assert (found.code, found.message) == ("state", message)
