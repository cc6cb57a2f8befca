"""Rows at any position, out of functions that refuse some kinds of positions."""

import numpy as np
import pytest

from posenc_ref.conformance.harness.driver import Refused
from posenc_ref.conformance.harness.reach import Access, TableAccess
from tests.conformance.handwritten import HEAD_DIM, only, rope, run_of, short, sinusoid

AT = np.array([5, 0, 131, 7, 6])
RIGHT = rope()


def contiguous(p):
    return p.ndim == 1 and bool((np.diff(p) == 1).all())


def single(p):
    return p.size == 1


def from_zero(p):
    return p.ndim == 1 and np.array_equal(p, np.arange(p.size))


MODES = {
    "any": (lambda p: True, ""),
    "contiguous": (contiguous, "are not consecutive"),
    "single": (single, "are not consecutive"),
    "prefix": (from_zero, "do not start at 0"),
}


def access_to(fn, **kwargs):
    access = Access(run_of(fn, **kwargs), dim=HEAD_DIM)
    access.learn()
    return access


@pytest.mark.parametrize("mode", MODES)
def test_apply(mode):
    allowed, words = MODES[mode]
    access = access_to(only(allowed, RIGHT))
    assert access.mode == mode
    x = np.random.default_rng(0).standard_normal((3, 2, AT.size, HEAD_DIM)).astype(np.float32)
    np.testing.assert_array_equal(access.rows(x.astype(np.float64), AT), RIGHT(x, AT))
    window = np.arange(40, 45)
    np.testing.assert_array_equal(access.rows(x.astype(np.float64), window), RIGHT(x, window))
    assert access.run.ledger.highest == 131
    limits = access.run.report.limits
    assert len(limits) == bool(words)
    assert all(
        words in limit and "ValueError: positions not supported" in limit for limit in limits
    )


@pytest.mark.parametrize(("mode", "calls"), [("any", 1), ("contiguous", 1), ("single", 9)])
def test_windows_are_one_call_where_they_may_be(mode, calls):
    access = access_to(only(MODES[mode][0], RIGHT))
    before = access.run.driver.calls
    access.rows(np.ones((1, 1, 9, HEAD_DIM)), np.arange(1001, 1010))
    assert access.run.driver.calls - before == calls


def test_prefixes_are_sent_in_parts(monkeypatch):
    monkeypatch.setattr("posenc_ref.conformance.harness.reach._CHUNK", 132 * HEAD_DIM)
    access = access_to(only(from_zero, RIGHT))
    before = access.run.driver.calls
    x = np.random.default_rng(0).standard_normal((3, 1, AT.size, HEAD_DIM)).astype(np.float32)
    np.testing.assert_array_equal(access.rows(x.astype(np.float64), AT), RIGHT(x, AT))
    assert access.run.driver.calls - before == 3


@pytest.mark.parametrize("mode", ["any", "prefix"])
def test_tables(mode):
    fn = only(MODES[mode][0], sinusoid())
    run = run_of(fn, surface="table")
    access = TableAccess(run, read=lambda result, rows: run.driver.array(result))
    access.learn()
    assert access.mode == mode
    np.testing.assert_array_equal(access.rows(AT), sinusoid()(AT))
    assert len(run.report.limits) == (mode == "prefix")


@pytest.mark.parametrize("positions", [np.array([0.5]), np.array([-1, 3])])
def test_a_prefix_has_neither_fractions_nor_negative_positions(positions):
    access = access_to(only(from_zero, RIGHT))
    with pytest.raises(Refused, match="only calls from position 0 on"):
        access.rows(np.ones((1, 1, positions.size, HEAD_DIM)), positions)
    run = run_of(only(from_zero, sinusoid()), surface="table")
    table = TableAccess(run, read=lambda result, rows: run.driver.array(result))
    table.learn()
    with pytest.raises(Refused, match="only calls from position 0 on"):
        table.rows(positions)


# --- how far it goes -----------------------------------------------------------------------------


@pytest.mark.parametrize("allowed", [lambda p: True, contiguous, single, from_zero])
@pytest.mark.parametrize("rows", [11, 100, 2048, 5000])
def test_the_last_row_is_found(rows, allowed):
    access = access_to(only(allowed, short(rows, RIGHT)))
    assert access.reach(8192) == rows - 1
    last = access.run.report.limits[-1]
    assert last == f"positions past {rows - 1} are refused (IndexError: no such row among {rows})"
    calls = access.run.driver.calls
    assert access.reach(8192) == rows - 1
    assert access.reach(2**20) == rows - 1
    assert access.reach(9) == 9
    assert access.run.driver.calls == calls, "the answer is known by now"


def test_no_limit_where_nothing_is_refused():
    access = access_to(RIGHT)
    assert access.reach(2**20) == 2**20
    assert access.highest is None
    assert access.run.report.limits == []


def test_within():
    access = access_to(short(100, RIGHT))
    assert access.within(np.array([0, 99, 100, 1021])).tolist() == [0, 99]


def test_refused_positions_do_not_count_as_judged():
    access = access_to(short(100, RIGHT))
    with pytest.raises(Refused):
        access.rows(np.ones((1, 1, 1, HEAD_DIM)), np.array([100]))
    assert access.run.ledger.highest < 100


def test_max_position_is_the_end_without_a_limit():
    access = access_to(RIGHT, max_position=300)
    assert access.reach(131071) == 300
    assert access.within(np.array([300, 301])).tolist() == [300]
    assert access.run.report.limits == []


def test_malformed_rows_end_the_reach_too():
    access = access_to(lambda x, p: RIGHT(x, p) if p.max() < 50 else None)
    assert access.reach(1000) == 49
    assert "expected an array" in access.run.report.limits[0]
