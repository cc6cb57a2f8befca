"""Causes in sequences of calls and of chunks: what is kept, where it is written, what is added."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check

ROPE = pr.RoPE(8, layout="interleaved")
SHORT, LONG = (1.0, 1.1, 1.2, 1.3), (1.0, 3.0, 5.0, 9.0)
GROWING = pr.RoPE(8, layout="half", scaling=pr.LongRoPE(SHORT, LONG, 24, factor=2.0))


def first(fn, surface, encoding=ROPE):
    report = check(fn, encoding, surface)
    assert report.verdict == "deviates"
    return report.findings[0]


def turned(x, positions, encoding=ROPE):
    return encoding.apply(x, np.broadcast_to(positions, x.shape[:1] + x.shape[2:3]))


def chunked(offset):
    """Return a decoder whose chunk j starts at ``offset(lengths of the chunks before)``."""

    def fn(x, chunks):
        parts, at = [], 0
        for j, n in enumerate(chunks):
            parts.append(turned(x[:, :, at : at + n], offset(chunks[:j]) + np.arange(n)))
            at += n
        return np.concatenate(parts, axis=2)

    return fn


def test_only_the_last_chunks_are_counted():
    found = first(chunked(lambda before: sum(before[-3:])), "decode")
    assert found.message == "the offset of a chunk is the length of the three chunks before alone"


def test_a_table_that_grows_with_the_sequence():
    def fn(x, chunks):
        table, parts, at = np.arange(0), [], 0
        for n in chunks:
            if at + n > table.size:
                more = max(at + n, 2 * table.size) - table.size
                table = np.append(table, np.arange(more))
            parts.append(turned(x[:, :, at : at + n], table[at : at + n]))
            at += n
        return np.concatenate(parts, axis=2)

    found = first(fn, "decode")
    assert found.code == "state"
    assert found.message.startswith("rows that are added to a kept table")
    assert "doubles its length, are numbered from 0 again" in found.message


@pytest.mark.parametrize(("one", "words"), [(True, "one token"), (False, "several tokens")])
def test_the_length_of_the_step_chooses_the_list_in_some_chunks(one, words):
    def fn(x, chunks):
        parts, at = [], 0
        for n in chunks:
            seen = n if (n == 1) == one else at + n
            e = GROWING.replace(
                scaling=GROWING.scaling.replace(policy="long" if seen > 24 else "short")
            )
            parts.append(turned(x[:, :, at : at + n], at + np.arange(n), e))
            at += n
        return np.concatenate(parts, axis=2)

    found = first(fn, "decode", GROWING)
    assert found.message.endswith(f"those for the length of the chunk alone, if it has {words}")


@pytest.mark.parametrize(("by", "since"), [(-1, 1), (1, 1), (1, 2)])
def test_keys_in_other_slots(by, since):
    def fn(k, chunks):
        right, out, at = turned(k, np.arange(k.shape[2])), np.zeros_like(k), 0
        for j, n in enumerate(chunks):
            for i in range(at, at + n):
                to = i + by * (j >= since)
                if 0 <= to < k.shape[2]:
                    out[:, :, to] = right[:, :, i]
            at += n
        return out

    found = first(fn, "key_cache")
    which = "the third chunk and later ones" if since == 2 else "chunks after the first"
    assert found.message.startswith(f"the keys of {which} are written one slot")


def in_turn(call):
    """Return a function of calls; ``call(state, x, offset)`` returns the positions."""

    def fn(calls):
        state = {}
        return [turned(x, call(state, x.shape[2], int(at))) for x, at in calls]

    return fn


def last_equal(state, n, at):
    if state.get("n") != n:
        state |= {"n": n, "kept": at + np.arange(n)}
    return state["kept"]


def added_up(state, n, at):
    kept = state.setdefault("kept", np.arange(8192))
    if at + n > kept.size:
        return at + np.arange(n)
    kept[:n] += at
    return kept[:n]


def summed(state, n, at):
    state["sum"] = state.get("sum", 0) + at
    return state["sum"] + np.arange(n)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (last_equal, "a call gets the angles of the call before, if it is as long"),
        (added_up, "the offsets of earlier calls stay in a kept array of positions, in calls that"),
        (summed, "the offsets of all calls so far are added up"),
    ],
)
def test_what_is_kept_between_calls(call, words):
    found = first(in_turn(call), "calls")
    assert found.code == "state"
    assert found.message.startswith(words)


def test_offsets_are_tiled_over_rows_and_heads():
    def fn(x, offset):
        b, h, n = x.shape[:3]
        start = np.tile(np.broadcast_to(offset, b), h).reshape(b, h, 1)
        z = np.float64(x).reshape(b, h, n, -1, 2) @ [1, 1j]
        z = z * np.exp(1j * (start + np.arange(n))[..., None] * 10000.0 ** (-np.arange(4) / 4))
        return np.float32(np.stack([z.real, z.imag], -1).reshape(x.shape))

    found = first(fn, "apply_offset")
    assert found.message.startswith("row b and head h start at offset[(b H + h) modulo B]")


def test_offsets_are_taken_as_one_for_each_token():
    def fn(x, offset):
        index = np.arange(x.shape[2])
        start = offset if offset.size == index.size else offset[:, None]
        return turned(x, start + index)

    found = first(fn, "apply_offset")
    assert found.code == "row-offset"
    assert found.message.endswith("offset[i] + i, as if there were one offset for each token")


def test_single_tokens_after_the_first_chunk_are_not_counted():
    fn = chunked(lambda before: sum(n for j, n in enumerate(before) if n > 1 or not j))
    found = first(fn, "decode")
    assert found.message == (
        "the position used is the declared position - the number of earlier chunks of one token, "
        "after the first chunk"
    )


def at_length(x, start, length):
    return GROWING.apply(x, start + np.arange(x.shape[2]), seq_len=int(length))


@pytest.mark.parametrize(
    ("older", "words"),
    [
        (True, "with the chunk after their own only"),
        (False, "with the last chunk, if they are those of the chunk before it"),
    ],
)
def test_keys_that_are_stored_rotated_until_the_next_chunk(older, words):
    def fn(x, chunks):
        ends = np.cumsum(chunks).tolist()
        parts = []
        for j, (n, end) in enumerate(zip(chunks, ends, strict=True)):
            k = x[:, :, end - n : end]
            lengths = ends[j : j + 2] if older or j == len(ends) - 2 else ends[-1:]
            for length in lengths:
                k = at_length(k, end - n, max(length, 1))
            parts.append(k)
        return np.concatenate(parts, axis=2)

    found = first(fn, "key_cache", GROWING)
    assert found.message.startswith(f"cached keys are rotated again {words}")


@pytest.mark.parametrize(
    ("last", "words"),
    [(False, "the first `dropped` keys after the gap"), (True, "the last `dropped` keys")],
)
def test_some_of_the_keys_after_a_gap_move_back(last, words):
    def fn(k, kept, dropped):
        out = pr.evict_keys(ROPE, k, kept, dropped)
        count = out.shape[2]
        i = np.arange(count) - kept
        moves = (i >= 0) & ((i >= count - kept - dropped) if last else (i < dropped))
        raw = np.concatenate([k[:, :, :kept], k[:, :, kept + dropped :]], axis=2)
        return np.where(moves[:, None], out, raw)

    assert first(fn, "evict_keys").message.startswith(f"{words} move back; the others")
