"""The positions and lengths that known mistakes predict, written out for small calls.

The encoding has one pair of angle p, and every x is (1, 0): a result is (cos p, sin p).
"""

import numpy as np
import pytest

from posenc_ref import DynamicNTK, MultiAxisRoPE, RoPE, YaRN
from posenc_ref.accuracy import budget
from posenc_ref.conformance.oracle.transforms import alike
from posenc_ref.conformance.sequences.cache_mistakes import cache_mistakes
from posenc_ref.conformance.sequences.call_mistakes import InTurn, state_mistakes
from posenc_ref.conformance.sequences.cases_qk import Side
from posenc_ref.conformance.sequences.chunk_mistakes import chunk_mistakes
from posenc_ref.conformance.sequences.chunked import Chunked
from posenc_ref.conformance.sequences.judge_shift import Moved
from posenc_ref.conformance.sequences.judge_shift import _mistakes as shift_mistakes
from posenc_ref.conformance.sequences.offset_mistakes import Offset, offset_mistakes
from posenc_ref.conformance.sequences.qk_mistakes import qk_mistakes

ONE = RoPE(2, layout="half")
#: Two pairs, an offset and an attention factor.
SCALED = alike(MultiAxisRoPE(4, sections=(1, 1), layout="half", offset=0.5, scaling=YaRN(8.0, 512)))
LONGER = RoPE(4, layout="half", scaling=DynamicNTK(2.0, 4))
NOT_ROTATED, ZERO = np.array([1.0, 0.0]), np.array([0.0, 0.0])


def units(b, h, s, pairs=1):
    """x (B, H, S, D): every pair of every token is (1, 0)."""
    return np.broadcast_to(np.repeat(NOT_ROTATED, pairs), (b, h, s, 2 * pairs)).copy()


def turned(positions, shape, theta=(1.0,)):
    """The results (B, H, S, D) of these tokens at positions that broadcast to (B, H, S)."""
    angle = np.broadcast_to(np.asarray(positions, float), shape)[..., None] * np.asarray(theta)
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)


def predicted(found, call, message):
    """The result that the mistake of this message predicts; one mistake has this message."""
    (mistake,) = [one for one in found if one.message == message]
    return mistake.predict(call)


def agrees(truth, expected):
    assert truth.value.shape == expected.shape
    assert truth.score(expected).max() <= budget("float64")


def chunked(chunks, b=2, h=2, judged=None, encoding=ONE, cache=False):
    x = units(b, h, sum(chunks), encoding.head_dim // 2)
    return Chunked(encoding, x, chunks, cache, judged)


#: What is predicted for chunks of 3, 2, 1 and 1 tokens.
CHUNKS = {
    "every chunk is rotated as if it started at 0": [0, 1, 2, 0, 1, 0, 0],
    "the offset of a chunk counts the chunk's own tokens": [3, 4, 5, 5, 6, 6, 7],
    "the offset of a chunk counts the chunk's own tokens, except for the first chunk": [
        0, 1, 2, 5, 6, 6, 7,
    ],
    "chunks after the first start one position late": [0, 1, 2, 4, 5, 6, 7],
    "chunks after the first start one position early": [0, 1, 2, 2, 3, 4, 5],
    "every chunk adds one position too many to later chunks": [0, 1, 2, 4, 5, 7, 9],
    "every chunk adds one position too few to later chunks": [0, 1, 2, 2, 3, 3, 3],
    "the offset of a chunk is the number of earlier chunks": [0, 1, 2, 1, 2, 2, 3],
    "the offset of a chunk is the number of earlier chunks times the chunk's own length": [
        0, 1, 2, 2, 3, 2, 3,
    ],
    "all later chunks start where the first one ends": [0, 1, 2, 3, 4, 3, 3],
    "the offset of a chunk is the length of the previous chunk alone": [0, 1, 2, 3, 4, 2, 1],
    "each chunk after the first adds 1 to the offset, not its length": [0, 1, 2, 3, 4, 4, 5],
    "all tokens of a chunk get its first position": [0, 0, 0, 3, 3, 5, 6],
    "all tokens of a chunk get its last position": [2, 2, 2, 4, 4, 5, 6],
    "single tokens are rotated as if they stood at 0": [0, 1, 2, 3, 4, 0, 0],
    "a chunk gets the angles of the first equally long chunk": [0, 1, 2, 3, 4, 5, 5],
    "the offset is added twice": [0, 1, 2, 6, 7, 10, 12],
    "every position is one too large": [1, 2, 3, 4, 5, 6, 7],
    "every position is one too small": [-1, 0, 1, 2, 3, 4, 5],
}  # fmt: skip


@pytest.mark.parametrize("message", CHUNKS)
def test_wrong_positions_of_chunks(message):
    call, shape = chunked((3, 2, 1, 1)), (2, 2, 7)
    agrees(predicted(chunk_mistakes(), call, message), turned(CHUNKS[message], shape))
    last = chunked((3, 2, 1, 1), judged=2)
    agrees(predicted(chunk_mistakes(), last, message), turned(CHUNKS[message][-2:], (2, 2, 2)))


def test_angles_of_equally_long_chunks():
    text = "a{} chunk gets the angles of the first equally long chunk{}"
    call, shape = chunked((1, 2, 1, 1)), (2, 2, 5)
    found = predicted(chunk_mistakes(), call, text.format("", ""))
    agrees(found, turned([0, 1, 2, 0, 0], shape))
    found = predicted(chunk_mistakes(), call, text.format(" later", " after the prompt"))
    agrees(found, turned([0, 1, 2, 3, 3], shape))


@pytest.mark.parametrize(("name", "n"), [("bfloat16", 257), ("float16", 2049)])
def test_rounded_positions_of_chunks(name, n):
    call = chunked((n, 2), 1, 1, judged=2)
    start, positions = f"the start of a chunk is held in {name}", f"positions are held in {name}"
    agrees(predicted(chunk_mistakes(), call, start), turned([n - 1, n], (1, 1, 2)))
    agrees(predicted(chunk_mistakes(), call, positions), turned([n - 1, n + 1], (1, 1, 2)))


def test_heads_and_rows_of_single_tokens():
    text = "in chunks of one token, the {} index is added to the position"
    call, single = chunked((2, 1)), np.array([0, 0, 1])
    head, row = np.indices((2, 2, 3))[1::-1]
    added = predicted(chunk_mistakes(), call, text.format("head"))
    agrees(added, turned(np.arange(3) + single * head, (2, 2, 3)))
    added = predicted(chunk_mistakes(), call, text.format("row"))
    agrees(added, turned(np.arange(3) + single * row, (2, 2, 3)))
    expected = turned(np.arange(3), (2, 2, 3))
    for what, result in (("not rotated", NOT_ROTATED), ("zero", ZERO)):
        expected[1, :, 2] = result
        text = f"with one token per row, all rows but the first are {what}"
        agrees(predicted(chunk_mistakes(), call, text), expected)


def test_all_tokens_are_judged_unless_the_sequence_is_longer():
    for judged in (None, 7, 40):
        assert chunked((3, 2, 1, 1), judged=judged).truth().value.shape == (2, 2, 7, 2)
    agrees(chunked((3, 4), judged=5).truth(), turned(np.arange(2, 7), (2, 2, 5)))


@pytest.mark.parametrize(
    ("found", "what", "lengths"),
    [
        (chunk_mistakes, "the length of the chunk alone", (3, 2, 1, 1)),
        (chunk_mistakes, "the length of the first chunk", (3, 3, 3, 3)),
        (chunk_mistakes, "the length before the chunk", (3, 3, 5, 6)),
        (chunk_mistakes, "the original length", (1, 1, 1, 1)),
        (chunk_mistakes, "the length of the whole sequence", (7, 7, 7, 7)),
        (cache_mistakes, "", (3, 5, 6, 7)),
    ],
)
def test_frequencies_of_other_lengths(found, what, lengths):
    text = f"the frequencies of every chunk are those for {what}"
    text = text if what else (
        "cached keys keep the frequencies of the length at which they were inserted"
    )  # fmt: skip
    x, starts = np.random.default_rng(1).normal(size=(1, 1, 7, 4)), (0, 3, 5, 6, 7)
    call = Chunked(LONGER, x, (3, 2, 1, 1), found is cache_mistakes)
    parts = [
        LONGER.apply(x[:, :, a:b], np.arange(a, b), seq_len=n)
        for a, b, n in zip(starts, starts[1:], lengths, strict=False)
    ]
    agrees(predicted(found(), call, text), np.concatenate(parts, axis=2))
    assert predicted(found(), chunked((3, 2, 1, 1)), text) is None


@pytest.mark.parametrize(
    ("message", "times"),
    [
        ("the whole cache is rotated again with every chunk", (4, 3, 2, 1)),
        (
            "keys are rotated when they are inserted, and the whole cache again with every chunk",
            (5, 4, 3, 2),
        ),
        ("every key is rotated twice", (2, 2, 2, 2)),
        ("keys are rotated again when the next chunk arrives", (2, 2, 2, 1)),
        (
            "the first chunk is not rotated; every later chunk rotates the whole cache",
            (3, 3, 2, 1),
        ),
    ],
)
def test_keys_that_are_rotated_several_times(message, times):
    theta, m = SCALED.frequencies(), SCALED.attention_factor()
    assert m > 1.1
    n = np.repeat(times, (3, 2, 1, 1))
    expected = turned(n * (np.arange(7) + 0.5), (2, 2, 7), theta) * (m**n)[:, None]
    for judged in (None, 2):
        call = chunked((3, 2, 1, 1), judged=judged, encoding=SCALED, cache=True)
        agrees(predicted(cache_mistakes(), call, message), expected[:, :, -(judged or 7) :])


def test_keys_of_which_some_are_rotated():
    call = chunked((3, 2, 1, 1), cache=True)
    right = turned(np.arange(7), (2, 2, 7))
    for which, kept in (("last", np.s_[6:]), ("first", np.s_[:3])):
        expected = units(2, 2, 7)
        expected[:, :, kept] = right[:, :, kept]
        text = f"only the keys of the {which} chunk are rotated"
        agrees(predicted(cache_mistakes(), call, text), expected)


#: What is predicted for rows of three tokens with the offsets 4, 9, 0 and 6: the first positions.
OFFSETS = {
    "the offset is not used: every call starts at 0": [0, 0, 0, 0],
    "every row starts where the first one does": [4, 4, 4, 4],
    "every row starts where the last one does": [6, 6, 6, 6],
    "every row starts at the largest offset": [9, 9, 9, 9],
    "every row starts at the smallest offset": [0, 0, 0, 0],
    "row b starts at the offset of row b + 1": [9, 0, 6, 4],
    "row b starts at the offset of row b - 1": [6, 4, 9, 0],
    "the rows' offsets are taken in the reverse order": [6, 0, 9, 4],
    "the offset of a call counts the call's own tokens": [7, 12, 3, 9],
    "the offset counts calls, not tokens": [12, 27, 0, 18],
    "calls with an offset start one position late": [5, 10, 0, 7],
    "calls with an offset start one position early": [3, 8, 0, 5],
    "the offset is added twice": [8, 18, 0, 12],
    "every position is one too large": [5, 10, 1, 7],
    "every position is one too small": [3, 8, -1, 5],
    "tokens are counted through all rows of the batch": [4, 12, 6, 15],
}
ROWS = Offset(ONE, units(4, 2, 3), np.array([4, 9, 0, 6]))


@pytest.mark.parametrize("message", OFFSETS)
def test_wrong_offsets(message):
    starts = np.array(OFFSETS[message])[:, None, None]
    agrees(predicted(offset_mistakes(), ROWS, message), turned(starts + np.arange(3), (4, 2, 3)))


def test_other_indices_in_place_of_the_token_index():
    row, head, _ = np.indices((4, 2, 3))
    start = np.array([4, 9, 0, 6])[:, None, None]
    for message, positions in (
        ("the offset is used as the position of every token", start),
        ("the head index is added to the offset, in place of the token index", start + head),
        ("the head index is used as the position", head),
        ("the row index is used as the position", row),
    ):
        agrees(predicted(offset_mistakes(), ROWS, message), turned(positions, (4, 2, 3)))


def test_what_earlier_calls_leave_behind():
    sequence = (((1, 1, 2), 4), ((1, 1, 3), 7), ((1, 1, 2), 1))
    third = InTurn(ONE, units(1, 1, 2), np.array([1]), 2, sequence)
    for message, start in (
        ("a call gets the angles of the first equally long call", 4),
        ("the tokens of earlier calls are added to the offset", 6),
        ("a call goes on where the one before it ended", 5),
        ("the offset of the first call is kept", 4),
    ):
        expected = turned([start, start + 1], (1, 1, 2))
        agrees(predicted(state_mistakes(ONE), third, message), expected)
    second = InTurn(ONE, units(1, 1, 3), np.array([7]), 1, sequence)  # the first call is shorter
    text = "a call gets the angles of the first equally long call"
    agrees(predicted(state_mistakes(ONE), second, text), turned([7, 8, 9], (1, 1, 3)))
    text = "the frequencies of the longest call so far are kept"
    assert text not in [one.message for one in state_mistakes(ONE)]
    x = np.random.default_rng(1).normal(size=(1, 1, 2, 4))
    for index, length in ((0, 6), (1, 10), (2, 10)):
        call = InTurn(LONGER, x, np.array([1]), index, sequence)
        expected = LONGER.apply(x, np.arange(1, 3), seq_len=length)
        agrees(predicted(state_mistakes(LONGER), call, text), expected)


@pytest.mark.parametrize(
    ("message", "angle", "factor"),
    [
        ("keys move the other way: by -delta", lambda i: -5 + 0 * i, 0),
        ("keys stay where they are", lambda i: 0 * i, 0),
        (
            "keys are rotated anew, to delta + index, although they are rotated already",
            lambda i: 5 + i,
            0,
        ),
        ("delta is applied twice", lambda i: 10 + 0 * i, 0),
        ("keys move one position too far", lambda i: 6 + 0 * i, 0),
        ("the offset 0.5 of the positions is added to delta", lambda i: 5.5 + 0 * i, 0),
        ("the attention factor m = {m:.6g} is applied a second time", lambda i: 5 + 0 * i, 1),
        ("the attention factor m is divided out", lambda i: 5 + 0 * i, -1),
    ],
)
def test_wrong_shifts(message, angle, factor):
    theta, m = SCALED.frequencies(), SCALED.attention_factor()
    call = Moved(SCALED, units(2, 2, 3, 2), 5)
    expected = turned(angle(np.arange(3)), (2, 2, 3), theta) * m**factor
    agrees(predicted(shift_mistakes(SCALED), call, message.format(m=m)), expected)


def test_wrong_queries_and_keys():
    q_at, k_at = np.array([3, 5]), np.array([[1, 2], [7, 8]])
    q = Side(ONE, units(2, 2, 2), q_at, k_at, keys=False, length=9)
    k = Side(ONE, units(2, 2, 2), k_at, q_at, keys=True, length=9)
    right = {False: q_at, True: k_at[:, None]}  # by Side.keys
    row, head, index = np.indices((2, 2, 2))
    changes = {
        "{} are rotated as if they started at 0": (index, index),
        "all rows of {} get the positions of the first one": (None, k_at[0]),
        "the head index is used as the position of {}": (head, head),
        "the row index is used as the position of {}": (row, row),
        "{} turn the other way: by -angle": (-q_at, -k_at[:, None]),
    }
    others = (
        ("queries get the positions of the keys", k_at[:, None]),
        ("keys get the positions of the queries", q_at),
    )
    for side, (message, positions) in zip((q, k), others, strict=True):
        agrees(predicted(qk_mistakes(ONE), side, message), turned(positions, (2, 2, 2)))
        for text, wrong in changes.items():
            for name, sides in (("queries", [0]), ("keys", [1]), ("queries and keys", [0, 1])):
                if text.startswith("{} turn") and len(sides) == 1:
                    text = "queries and keys turn opposite ways: {} by -angle"
                found = predicted(qk_mistakes(ONE), side, text.format(name))
                positions = wrong[side.keys] if side.keys in sides else right[side.keys]
                if positions is None:
                    assert found is None
                else:
                    agrees(found, turned(positions, (2, 2, 2)))
                if "turn opp" in text:
                    text = "{} turn the other way: by -angle"
        for name, one in (("queries", q), ("keys", k)):
            found = predicted(qk_mistakes(ONE), side, f"{name} are not rotated")
            kept = units(2, 2, 2) if one is side else turned(right[side.keys], (2, 2, 2))
            agrees(found, kept)
