"""Two mistakes at once: one in the rotation, and one in a sequence, an offset or one of q and k."""

import numpy as np
import pytest

from posenc_ref import DynamicNTK, RoPE, XPos
from posenc_ref.conformance import check

HALF = RoPE(16, layout="half")
INTERLEAVED = HALF.replace(layout="interleaved")
BASE = HALF.replace(base=500000.0)
REVERSED = 10000.0 ** (-np.arange(8)[::-1] / 8)


def by(encoding, x, p):
    return encoding.apply(x, p).astype(np.float32)


def decoded(encoding, start):
    """Return a function whose chunk begins at ``start(first position, chunk number)``."""

    def fn(x, chunks):
        parts, at = [], 0
        for j, n in enumerate(chunks):
            parts.append(by(encoding, x[:, :, at : at + n], start(at, j) + np.arange(n)))
            at += n
        return np.concatenate(parts, axis=2)

    return fn


def counted_less(x, chunks):
    """Rotate interleaved pairs; the first chunk counts one token too few."""
    parts, at, count = [], 0, 0
    for n in chunks:
        parts.append(by(INTERLEAVED, x[:, :, at : at + n], count + np.arange(n)))
        at, count = at + n, count + n if count else n - 1
    return np.concatenate(parts, axis=2)


def sorted_rows(x, offset):
    a = (np.sort(offset)[:, None] + np.arange(x.shape[2]))[:, None, :, None] * REVERSED
    u, v = x[..., :8], x[..., 8:]
    turned = u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)
    return np.concatenate(turned, axis=-1).astype(np.float32)


def kept_offset(calls):
    """Rotate interleaved pairs; the offset of the first call is kept."""
    start = calls[0][1]
    return [by(INTERLEAVED, x, start + np.arange(x.shape[2])) for x, _ in calls]


def kept_results(calls):
    """Keep the offset of equally long calls, and one array for results of one shape."""
    starts, results = {}, {}
    out = []
    for x, offset in calls:
        start = starts.setdefault(x.shape[2], offset)
        y = results.setdefault(x.shape, np.empty(x.shape, np.float32))
        y[...] = by(HALF, x, start + np.arange(x.shape[2]))
        out.append(y)
    return out


def scaled_queries(q, k, q_positions, k_positions):
    """Scale the queries; count grouped keys from the first query."""
    if k.shape[1] < q.shape[1]:
        k_positions = np.asarray(k_positions) - np.asarray(q_positions)[..., :1]
    return by(HALF, q * np.float32(0.25), q_positions), by(HALF, k, k_positions)


def other_base_of_row_0(q, k, q_positions, k_positions):
    """Rotate by another base; all rows of keys have the positions of row 0."""
    k_positions = np.asarray(k_positions)
    if k_positions.ndim > 1:
        k_positions = np.broadcast_to(k_positions[:1], k_positions.shape)
    return by(BASE, q, q_positions), by(BASE, k, k_positions)


CASES = {
    "decode": (
        decoded(INTERLEAVED, lambda at, j: at - (j > 0)), "decode",
        ("pairs are interleaved", "chunks after the first start one position early"),
    ),
    "decode-count": (
        counted_less, "decode", ("pairs are interleaved", "every chunk that finds a count of 0"),
    ),
    "key-cache": (
        decoded(BASE, lambda at, j: 0), "key_cache",
        ("the base is 500000", "every chunk is rotated as if it started at 0"),
    ),
    "offset": (sorted_rows, "apply_offset", ("has the frequency of pair", "offsets are sorted")),
    "calls": (kept_offset, "calls", ("pairs are interleaved", "offset of the first call")),
    "kept": (kept_results, "calls", ("does not stay as it is", "first equally long call")),
    "queries": (
        scaled_queries, "apply_qk",
        ("multiplied by 0.25", "positions of keys count from the first of the queries"),
    ),
    "keys": (
        other_base_of_row_0, "apply_qk",
        ("the base is 500000", "keys: the position used is the position of the same token of row"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fn", "surface", "words"), CASES.values(), ids=CASES)
def test_both_are_named(fn, surface, words):
    text = "\n".join(f.message for f in check(fn, HALF, surface).findings)
    assert all(said in text for said in words), text
    assert "consistent with a part" not in text


def test_a_rest_without_a_name_is_said():
    odd = decoded(INTERLEAVED, lambda at, j: at * at % 7)
    (found,) = check(odd, HALF, "decode").findings
    assert found.message.startswith("consistent with a part of the results: pairs are interleaved")


def turned_and_decayed(x, p, zeta, scale_base, sign=1):
    p = np.asarray(p)[..., None]
    a, size = sign * p * HALF.frequencies(), zeta ** (p / scale_base)
    a, size = (t[:, None] if t.ndim == 3 else t for t in (a, size))
    u, v = x[..., :8], x[..., 8:]
    turned = u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)
    return np.concatenate([size * t for t in turned], axis=-1).astype(np.float32)


XPOS, ZETA = XPos(16, layout="half"), 2 * np.arange(8) / 16 + 0.4


def test_the_turn_and_the_decay_of_keys_alone():
    def fn(q, k, q_positions, k_positions):
        zeta = ZETA / 1.4
        turned = turned_and_decayed(q, q_positions, zeta, 512, -1)
        return turned, turned_and_decayed(k, k_positions, zeta, -256, -1)

    one, two = check(fn, XPOS, "apply_qk").findings
    assert one.message == "the rotation turns the other way"
    assert two.message == "keys only: scale_base is 256, declared 512"


def test_the_decay_of_each_other_with_another_scale_base():
    def fn(q, k, q_positions, k_positions):
        zeta = ZETA / 1.4
        turned = turned_and_decayed(q, q_positions, zeta, -256)
        return turned, turned_and_decayed(k, k_positions, zeta, 256)

    (found,) = check(fn, XPOS, "apply_qk").findings
    assert "queries and keys have each other's decay; and scale_base is 256" in found.message


def test_two_steps_of_xpos():
    def one(x, p):
        return turned_and_decayed(x, p, ZETA, 512)

    (found,) = check(lambda q, k, a, b: (one(q, a), one(k, b)), XPOS, "apply_qk").findings
    assert "is not divided by 1 + gamma" in found.message
    assert "keys have the decay of queries" in found.message
    assert "zeta" in found.remedy


def test_keys_stored_rotated_past_the_trained_length():
    declared = RoPE(16, layout="half", scaling=DynamicNTK(2.0, 64))

    def fn(k, chunks):
        store, ends = k[:, :, :0], np.cumsum(chunks)
        for n, end in zip(chunks, ends, strict=True):
            store = np.concatenate([store, k[:, :, end - n : end]], axis=2)
            w = declared.frequencies(int(end))
            out = by(HALF, store, np.arange(end)) if not end else turned(store, w)
            if end > n and end > 64:
                store = np.concatenate([store[:, :, : end - n], out[:, :, end - n :]], axis=2)
        return out

    def turned(x, w):
        a = np.arange(x.shape[2])[:, None] * w
        u, v = x[..., :8], x[..., 8:]
        parts = u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)
        return np.concatenate(parts, axis=-1).astype(np.float32)

    (found,) = check(fn, declared, "key_cache").findings
    assert "ended past the original length and was not the first" in found.message


def test_a_bound_between_two_calls_is_exact():
    fn = decoded(HALF, lambda at, j: 0)

    def moved(x, chunks):
        at = np.arange(sum(chunks))
        return by(HALF, x, at + (at >= 61))

    assert check(fn, HALF, "decode").findings
    (found,) = check(moved, HALF, "decode").findings
    assert found.message.endswith("where the declared position is at least 61")


def test_a_kept_table_of_other_rows_is_not_a_wrong_shape():
    class Kept:
        def __init__(self):
            self.tables = {}

        def __call__(self, q, k, q_positions, k_positions):
            at = self.tables.setdefault(k.shape[2], (np.asarray(q_positions), k_positions))
            turned = []
            for x, p in zip((q, k), at, strict=True):
                a = np.asarray(p)[..., None] * HALF.frequencies()
                a = a[:, None] if a.ndim == 3 else a
                u, v = x[..., :8], x[..., 8:]
                parts = u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)
                turned.append(np.concatenate(parts, axis=-1).astype(np.float32))
            return turned

    (found,) = check(Kept(), HALF, "apply_qk", factory=Kept).findings
    assert found.code == "state"
    assert "the table of an earlier call is kept" in found.message
