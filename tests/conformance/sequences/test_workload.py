"""The calls that each judge of sequences makes of its own, written out: none is lost unnoticed."""

from itertools import combinations, product

import numpy as np
import pytest

from posenc_ref import DynamicNTK, RoPE
from posenc_ref.conformance.harness.probes import GENERIC, SIZES, WIDE
from posenc_ref.conformance.sequences import (
    cases_qk,
    judge_calls,
    judge_chunks,
    judge_offsets,
    judge_qk,
    judge_shift,
    judge_vjp,
)
from tests.conformance.handwritten import run_of
from tests.conformance.sequences.test_calls import own

D = 8
HALF = RoPE(D, layout="half")
GROWING = RoPE(D, layout="half", scaling=DynamicNTK(2.0, 64))


def asked(judge, surface, note, monkeypatch, encoding=HALF, highest=None, **settings):
    """What ``note(arguments)`` returns for each call of the judge, before it judges as apply.

    ``highest`` is the largest position, as the report is to say.
    """
    for module in (judge_calls, judge_chunks, judge_offsets, judge_qk, judge_shift, judge_vjp):
        monkeypatch.setattr(module, "judge_as_apply", lambda *args: None)
    # Crossed sizes: test_crossing.py.
    for module in (judge_calls, judge_chunks, judge_offsets, judge_shift):
        monkeypatch.setattr(module, "drive_crossed", lambda *args: [])
    for module in (judge_calls, judge_chunks, judge_offsets):  # test_far_and_crossed.py
        monkeypatch.setattr(module, "reached", lambda *args: ())
    seen, right = [], own(surface, encoding)

    def fn(*args):
        seen.append(note(*args))
        return right(*args)

    run = run_of(fn, encoding, surface, head_dim=D, **settings)
    judge(run)
    assert not run.failures
    assert not run.report.findings
    assert highest in (None, run.ledger.highest)
    return seen


def chunked(x, chunks):
    return (*x.shape[:2], *chunks)


REQUIRED = [
    (2, 3, 5), (2, 3, 1, 1, 1, 1, 1, 1), (2, 3, 5, 1, 1, 1), (2, 3, 3, 2, 1, 4), (2, 3, 4, 4),
    (2, 3, 1, 6, 1, 5), (2, 3, 33, 1, 1, 1, 1),
]  # fmt: skip
LONG = [
    (1, 2, 2, 0, 3), (1, 2, 1000, 1, 1, 22), (1, 2, 4093, 1, 1, 1, 1, 3), (1, 2, 8190, 1, 1, 1),
    (1, 2, 32766, 1, 1),
]  # fmt: skip
AGAIN = [(2, 3, 5)] * 3  # the first call, and two that must not change what it returned


@pytest.mark.parametrize("judge", [judge_chunks.judge_decode, judge_chunks.judge_key_cache])
def test_chunks(judge, monkeypatch):
    surface = judge.__name__.removeprefix("judge_")
    seen = asked(judge, surface, chunked, monkeypatch, highest=32767)
    assert seen == [*REQUIRED, *LONG, *AGAIN]
    bound = asked(judge, surface, chunked, monkeypatch, max_position=1023)
    assert bound == [*REQUIRED, *LONG[:2], *AGAIN]


#: Lengths around the original one, 64, and its multiples.
LENGTHS = (32, 63, 64, 65, 66, 96, 128, 129, 192, 256)


def test_chunks_around_a_change_of_the_frequencies(monkeypatch):
    seen = asked(
        judge_chunks.judge_decode, "decode", chunked, monkeypatch, GROWING, max_position=1100
    )
    around = [(n - 3, 1, 1, 1, 1, 1) for n in LENGTHS]
    around += [chunks for n in LENGTHS for chunks in ((n - 4, 8), (n - 5, 2, 7))]
    around += [(n // 2, (n + 1) // 2 - 1, 2, 1) for n in LENGTHS]
    assert sorted(seen[7:-3]) == sorted([*LONG[:2], *((1, 2, *chunks) for chunks in around)])
    totals = [sum(chunks[2:]) for chunks in seen[8:-3]]
    assert totals == sorted(totals)


OFFSETS = [
    *(((b, h, s), [0] * b) for b, h, s in SIZES),
    ((2, 3, 5), [6, 6]), ((3, 2, 1), [37, 37, 37]), ((1, 2, 4), [1021]),
    ((1, 2, 130), [41]),  # longer than a tile
    ((2, 3, 5), [3, 9]), ((4, 2, 1), [7, 12, 0, 3]), ((2, 2, 2), [1, 5]),
    ((4, 3, 2), [5, 300, 0, 41]), ((3, 1, 4), [4093, 17, 65530]),
    ((3, 2, 1), [37, 37, 37]),  # the same token in every row
]  # fmt: skip


def test_offsets(monkeypatch):
    seen = asked(
        judge_offsets.judge,
        "apply_offset",
        lambda x, o: (x.shape[:3], o.tolist()),
        monkeypatch,
        highest=65533,
    )
    assert seen == [*OFFSETS, *[OFFSETS[0]] * 3]


def test_calls(monkeypatch):
    def sizes(calls):
        return [(*x.shape[:3], int(offset)) for x, offset in calls]

    seen = asked(judge_calls.judge, "calls", sizes, monkeypatch, highest=65549)
    assert seen[:-1] == [
        [(2, 3, 5, 0)],
        [(2, 3, 6, 7)],
        [(3, 2, 1, 37)],
        [(1, 2, 11, 20), (1, 2, 11, 50), (1, 2, 11, 0)],
        [(1, 2, 4, 0), (1, 2, 96, 0), (1, 2, 4, 0)],
        [(2, 3, 6, 0), (2, 3, 1, 6), (2, 3, 1, 7), (2, 3, 2, 8)],
        [(1, 2, 5, 0), (1, 2, 3, 0), (1, 2, 1, 5), (1, 2, 1, 3)],
        [(1, 2, 6, 2), (1, 2, 6, 2), (1, 2, 6, 2)],
        [(1, 2, 6, 2), (1, 2, 6, 2), (1, 2, 6, 2)],
        [(1, 2, 3, 4), (3, 2, 3, 4), (2, 1, 3, 4)],
        [(1, 1, 8, 0), (1, 1, 8, 8), (1, 1, 8, 16), (1, 1, 8, 0)],
        [(1, 2, 4, 0), (1, 2, 3, 5000), (1, 2, 4, 0), (1, 2, 3, 9)],
        [(1, 2, 9, 5), (1, 2, 9, 261), (1, 2, 9, 4101), (1, 2, 9, 65541)],
        [(1, 1, 3, 0), (1, 1, 2049, 0), (1, 1, 3, 0)],
    ]
    assert seen[-1] == [(2, 3, 5, 0)]
    more = asked(judge_calls.judge, "calls", sizes, monkeypatch, GROWING)[14:-1]
    assert more == [
        *([(1, 2, 4, 0), (1, 2, 3, n - 3), (1, 2, 4, 0), (1, 2, 4, 9)] for n in LENGTHS if n > 32),
        [(1, 2, 3, 253), (1, 2, 4, 125)],
        [
            *[(1, 2, 3, 189), (1, 2, 4, 124), (1, 2, 4, 60)],
            *[(1, 2, 4, 124), (1, 2, 3, 60), (1, 2, 4, 124)],
        ],
        [(1, 2, 3, 189), (1, 2, 1, 128), (1, 2, 1, 67), (1, 2, 1, 5), (1, 2, 3, 71)],
    ]


def test_an_x_that_is_changed_in_place_is_noticed(monkeypatch):
    monkeypatch.setattr(judge_calls, "judge_as_apply", lambda *args: None)
    right = own("calls", HALF)

    def changed(calls):
        outputs = right(calls)
        calls[-1][0][...] = 0
        return outputs

    for fn, mutated in ((right, None), (changed, "x")):
        run = run_of(fn, HALF, "calls", head_dim=D)
        judge_calls.judge(run)
        assert run.driver.mutated == mutated


def test_a_short_result_is_named_before_it_is_compared(monkeypatch):
    monkeypatch.setattr(judge_calls, "judge_as_apply", lambda *args: None)
    run = run_of(lambda calls: [x[:, :, 1:] for x, _ in calls], HALF, "calls", head_dim=D)
    judge_calls.judge(run)
    (finding,) = run.report.findings
    assert finding.code == "shape"
    assert finding.message == "expected shape (2, 3, 5, 8), as x has, got (2, 3, 4, 8)"


def test_the_first_gradient_is_named_if_its_repetition_differs(monkeypatch):
    monkeypatch.setattr(judge_vjp, "judge_as_apply", lambda *args: None)
    seen = []

    def turned(x, at, dy):  # by +angle, and otherwise the second time
        seen.append(dy.shape)
        return HALF.apply(dy, at) + (seen.count(dy.shape) > 2)

    run = run_of(turned, HALF, "apply_vjp", head_dim=D)
    judge_vjp.judge(run)
    (state,) = [found for found in run.report.findings if found.code == "state"]
    last = SIZES[0][2] - 1
    assert state.evidence.startswith(f"B, H, S = {SIZES[0]} at 0..{last}, replayed")


def test_equal_calls_get_equal_values_but_in_one_sequence(monkeypatch):
    def same(calls):
        return [bool(np.array_equal(x, calls[0][0])) for x, _ in calls]

    seen = asked(judge_calls.judge, "calls", same, monkeypatch)
    assert seen[7:9] == [[True, True, True], [True, False, False]]


def test_shifts(monkeypatch):
    seen = asked(
        judge_shift.judge,
        "shift_keys",
        lambda x, delta: (x.shape[:3], int(delta)),
        monkeypatch,
        highest=100003,
    )
    deltas = [1, 3, 7, -1, -7, 211, -512, 4096, -4093, 100003, -70001]
    assert seen == [
        *((SIZES[i % len(SIZES)], delta) for i, delta in enumerate(deltas)),
        *((size, 37 + i) for i, size in enumerate(WIDE)),
    ]


def test_gradients(monkeypatch):
    seen = asked(
        judge_vjp.judge,
        "apply_vjp",
        lambda x, at, dy: (x.shape[:3], at.tolist()),
        monkeypatch,
        highest=max(size[2] for size in SIZES) - 1,
    )
    first = [(size, list(range(size[2]))) for size in SIZES]
    assert seen == [*first, first[0]]


#: B, key heads, S, query heads per key head, further keys, and the form of the positions.
FACTORS = (
    (1, 2, 3), (1, 2, 3), (1, 2, 5, 17, 129), (1, 2, 4), (0, 3),
    ("from 0", "later", "rows", "keys first"),
)  # fmt: skip


def factors(q, k, q_at, k_at):
    """The factors of a call, from its shapes and positions alone."""
    first, last = (np.ravel(k_at)[0], np.ravel(q_at)[-1] - np.ravel(k_at)[-1])
    form = (
        "rows" if np.ndim(q_at) == 2 else "keys first" if last else "later" if first else "from 0"
    )
    return q[0], k[1], q[2], q[1] // k[1], k[2] - q[2], form


def test_queries_and_keys(monkeypatch):
    def sizes(q, k, q_at, k_at):
        return q.shape[:3], k.shape[:3], q_at.tolist(), k_at.tolist()

    last = 131142  # that of the keys of a call around 2**17
    seen = asked(judge_qk.judge, "apply_qk", sizes, monkeypatch, highest=last)
    first = [(size, size, list(range(size[2])), list(range(size[2]))) for size in SIZES]
    rows = [[4, 9, 2, 0, 31], [7, 1, 8, 40, 3]]
    generic = sorted(GENERIC.tolist())
    moved = [*generic[-3:], *generic[:-3]]
    n, wide = len(generic), list(range(300))
    q_at = [[12, 3, 50, 9], [40, 2, 8, 41], [3, 61, 5, 22], [25, 7, 1, 30]]
    k_at = [[41, 3, 9, 42], [26, 8, 2, 31], [13, 4, 51, 10], [4, 62, 6, 23]]
    shared = [
        ((4, h, 4), (4, kv, 4), *at)
        for h, kv in ((6, 6), (2, 1), (6, 2))
        for at in ((q_at, k_at), ([7, 8, 9, 10], [2, 3, 4, 5]))
    ] + [((4, 7, 4), (4, 7, 4), q_at, k_at)]
    n_own = len(first) + 15
    crossed = seen[n_own:-1]
    assert [*seen[:n_own], seen[-1]] == [
        *first,
        ((2, 6, 4), (2, 2, 4), [0, 1, 2, 3], [0, 1, 2, 3]),
        ((3, 4, 2), (3, 1, 2), [0, 1], [0, 1]),
        ((2, 3, 4), (2, 3, 4), [7, 8, 9, 10], [7, 8, 9, 10]),
        ((2, 3, 4), (2, 3, 4), [7, 8, 9, 10], [2, 3, 4, 5]),
        ((2, 3, 1), (2, 3, 10), [9], list(range(10))),
        ((2, 3, 5), (2, 3, 5), rows, [[9, 3, 10, 42, 5], [6, 11, 4, 2, 33]]),
        *shared,
        ((1, 2, n), (1, 2, n), generic, moved),
        ((1, 2, 300), (1, 1, 300), wide, wide),
        first[0],
    ]
    per_row = [[3, 4, 5, 6, 7], [14, 15, 16, 17, 18]]
    assert crossed[0] == ((2, 3, 5), (2, 3, 5), per_row, per_row)
    assert len(crossed) < 30
    met = {pair for call in crossed for pair in combinations(enumerate(factors(*call)), 2)}
    wanted = {
        ((i, a), (j, b))
        for (i, some), (j, more) in combinations(enumerate(FACTORS), 2)
        for a, b in product(some, more)
    }
    assert wanted - met == {((2, 129), (3, 4))}  # more than 400 tokens of all heads
    (grid,) = [case for case in cases_qk._optional(3, 0, 99) if "(A, B, S)" in case[0]]
    _, shapes, q_at, k_at = grid
    assert (shapes, q_at.shape, k_at.shape) == (((2, 3, 5), (2, 3, 5)), (3, 2, 5), (3, 2, 5))
    assert not any("(A, B, S)" in case[0] for case in cases_qk._optional(1, 0, 99))
