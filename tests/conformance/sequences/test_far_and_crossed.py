"""Wrong only at far positions in one form of call: of single rows, heads, tokens or positions."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE, RoPE
from posenc_ref.conformance import check

HALF = RoPE(32, layout="half")


def turned(where):
    """Return a rotation whose tokens are left as they are where ``where`` holds.

    ``where`` gets the positions (B, 1, S), the indices of rows, heads and tokens, and what the
    positions were passed as.
    """

    def fn(x, positions):
        p = np.asarray(positions)
        b, h, s = np.ogrid[: x.shape[0], : x.shape[1], : x.shape[2]]
        wide = np.broadcast_to(p, (x.shape[0], x.shape[2]))[:, None]
        wrong = np.broadcast_to(where(wide, b, h, s, p), x.shape[:3])
        return np.where(wrong[..., None], x, HALF.apply(x, p)).astype(x.dtype)

    return fn


def for_heads(at, first):
    return turned(lambda p, b, h, s, given: (p >= at) & (h >= first))


APPLY = {
    "a table of 512 rows for positions (B, S)": lambda p, b, h, s, given: (
        (p >= 512) & (given.ndim > 1)
    ),
    "batches that decode far out": lambda p, b, h, s, given: (
        (p >= 8000) & (given.ndim > 1) & (p.shape[-1] == 1)
    ),
    "int32 positions past 2**15": lambda p, b, h, s, given: (
        (p >= 2**15) & (given.dtype == np.int32)
    ),
    "the third head on, from 1024 on": lambda p, b, h, s, given: (p >= 1024) & (h >= 2),
    "the third row on, from 1024 on": lambda p, b, h, s, given: (p >= 1024) & (b >= 2),
    "tiles far out": lambda p, b, h, s, given: (p >= 16384) & (s >= 32),
    "one sequence that decodes far out": lambda p, b, h, s, given: (
        (p >= 500) & (p.shape == (1, 1, 1))
    ),
    "unsorted far positions": lambda p, b, h, s, given: (p >= 70000) & bool((np.diff(p) < 0).any()),
}


@pytest.mark.parametrize("case", APPLY)
def test_apply(case):
    assert check(turned(APPLY[case]), HALF, "apply").verdict == "deviates"


def test_queries_and_keys():
    one = turned(APPLY["a table of 512 rows for positions (B, S)"])

    def fn(q, k, q_positions, k_positions):
        return one(q, q_positions), one(k, k_positions)

    assert check(fn, HALF, "apply_qk").verdict == "deviates"


def test_offsets():
    one = for_heads(1024, 2)

    def fn(x, offset):
        return one(x, np.asarray(offset)[:, None] + np.arange(x.shape[2]))

    assert check(fn, HALF, "apply_offset").verdict == "deviates"


def test_calls():
    one = for_heads(1024, 2)

    def fn(calls):
        return [one(x, start + np.arange(x.shape[2])) for x, start in calls]

    assert check(fn, HALF, "calls").verdict == "deviates"


def test_chunks():
    one = turned(lambda p, b, h, s, given: (p >= 1024) & (b >= 1))

    def fn(x, chunks):
        ends = np.cumsum(chunks)
        parts = [
            one(x[:, :, e - n : e], np.arange(e - n, e)) for n, e in zip(chunks, ends, strict=True)
        ]
        return np.concatenate(parts, axis=2)

    assert check(fn, HALF, "decode").verdict == "deviates"


def test_shifted_keys():
    def fn(rotated_k, delta):
        y = np.array(HALF.apply(rotated_k, np.full(rotated_k.shape[2], delta)))
        y[:, 2:] = rotated_k[:, 2:] if abs(delta) > 1000 else y[:, 2:]
        return y

    assert check(fn, HALF, "shift_keys").verdict == "deviates"


def test_normed():
    one = turned(lambda p, b, h, s, given: p >= 4096)

    def fn(x, weight, positions):
        size = np.sqrt(np.mean(x.astype(float) ** 2, axis=-1, keepdims=True) + 1e-6)
        return one((weight * x / size).astype(x.dtype), positions)

    assert check(fn, HALF, "normed_apply").verdict == "deviates"


def test_attention():
    one = for_heads(1024, 8)

    def fn(q, k, v, q_positions, k_positions):
        group = q.shape[1] // k.shape[1]
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        logits = one(q, q_positions) @ one(k, k_positions).swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        logits = np.where(k_positions[None] <= q_positions[:, None], logits, -np.inf)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return (weights / weights.sum(axis=-1, keepdims=True) @ v).astype(q.dtype)

    assert check(fn, HALF, "attention").verdict == "deviates"


def test_several_axes():
    encoding = MultiAxisRoPE(32, sections=(4, 6, 6), layout="half")

    def fn(x, positions):
        wrong = (positions.max() >= 1024) & (x.shape[0] == x.shape[2] == 1)
        return x if wrong else encoding.apply(x, positions).astype(x.dtype)

    assert check(fn, encoding, "apply").verdict == "deviates"


def limited(x, p, rows):
    if np.max(p, initial=0) >= rows:
        raise IndexError(f"position {np.max(p)}")
    return HALF.apply(x, p).astype(x.dtype)


def limited_calls(rows, *, wrong):
    def fn(calls):
        each = [(x, start + np.arange(x.shape[2])) for x, start in calls]
        for x, p in each:
            limited(x, p, rows)
        at = [p - 64 if wrong and len(x) == 3 and p[0] == 64 else p for x, p in each]
        return [limited(x, p, rows) for (x, _), p in zip(each, at, strict=True)]

    return fn


def limited_queries(rows, *, wrong):
    def fn(q, k, q_positions, k_positions):
        grouped = q.shape[1] == 4 * k.shape[1] and k.shape[1] > 1
        moved = wrong and grouped and q_positions.ndim == 1 and q_positions[0] > 30
        limited(k, k_positions, rows)
        return limited(q, q_positions, rows), HALF.apply(k, k_positions + moved).astype(k.dtype)

    return fn


def limited_offsets(rows, *, wrong):
    def fn(x, offset):
        p = np.asarray(offset)[:, None] + np.arange(x.shape[2])
        limited(x, p, rows)
        first = wrong and len(x) == 5 and x.shape[2] > 1 and offset[0] != offset[1]
        return limited(x, np.broadcast_to(p[:1], p.shape) if first else p, rows)

    return fn


LIMITED = {
    "calls": limited_calls,
    "apply_qk": limited_queries,
    "apply_offset": limited_offsets,
}


@pytest.mark.parametrize("rows", [600, 2048])
@pytest.mark.parametrize("surface", LIMITED)
def test_a_refused_far_call_costs_no_near_pair(surface, rows):
    """Every pair of the levels that are accepted is judged, and mistakes at near ones show."""
    assert check(LIMITED[surface](rows, wrong=True), HALF, surface).verdict == "deviates"
    right = check(LIMITED[surface](rows, wrong=False), HALF, surface)
    assert right.verdict == "conforms"
    (crossed,) = (line for line in str(right).splitlines() if line.startswith("crossed"))
    met, _, wanted = crossed.split()[1:4]
    assert met == wanted


def test_a_norm_is_not_asked_past_the_maximum():
    asked = []

    def fn(x, weight, positions):
        asked.append(positions.max())
        size = np.sqrt(np.mean(x.astype(float) ** 2, axis=-1, keepdims=True) + 1e-6)
        return HALF.apply((weight * x / size).astype(x.dtype), positions)

    assert check(fn, HALF, "normed_apply", max_position=1023).verdict == "conforms"
    assert max(asked) == 1023


@pytest.mark.parametrize("last", [140, 300])
def test_no_call_is_made_past_the_maximum(last):
    asked = []

    def fn(calls):
        asked.extend(start + x.shape[2] - 1 for x, start in calls)
        return [limited(x, start + np.arange(x.shape[2]), last + 1) for x, start in calls]

    assert check(fn, HALF, "calls", max_position=last).verdict == "conforms"
    assert max(asked) == last
