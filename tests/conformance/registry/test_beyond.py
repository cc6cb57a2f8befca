"""Mistakes that no golden vector shows are found by the checks of every entry."""

import re

import numpy as np
import pytest

from posenc_ref import FIRE, Kerple, Shaw, Time2Vec
from posenc_ref.conformance.exact.numbers import Real
from posenc_ref.conformance.registry import entries, entry_of
from tests.conformance.registry.more_entry_checks import (
    HEADS,
    at_every_distance,
    at_fractions,
    learns_on_torch,
    rebuilt,
    takes_batched_positions,
    with_more_heads,
)

KERPLE = Kerple((0.5, 0.25), (1.5, 0.5))


def run_check(fn, cls):
    """Check the first example of a class."""
    (entry,) = [entry for entry in entries() if entry.encoding is cls]
    name = next(iter(entry.examples))
    fn(entry, name, entry.examples[name])


def rejects(fn, cls, said):
    with pytest.raises(AssertionError, match=said):
        run_check(fn, cls)


def test_a_head_axis_at_the_wrong_end_of_a_batch(monkeypatch):
    """It is first, before the batch: right for one row of positions."""

    def misplaced(self, offset):
        r1, r2 = (np.array(r)[:, None, None] for r in (self.r1, self.r2))
        return -r1 * np.log1p(r2 * np.abs(np.expand_dims(offset, axis=0)))

    right = KERPLE.bias(range(4), range(4))
    monkeypatch.setattr(Kerple, "_of_offset", misplaced)
    np.testing.assert_array_equal(KERPLE.bias(range(4), range(4)), right)
    with pytest.raises(ValueError, match="broadcast"):  # a batch of 3, as it is never the heads
        run_check(takes_batched_positions, Kerple)
    one = Kerple((0.5,), (1.5,))
    with pytest.raises(AssertionError, match=re.escape("(1, 3, 4, 4) for a batch of 3")):
        takes_batched_positions(entry_of(one), next(iter(entry_of(one).examples)), one)


def test_the_first_row_for_all_rows_of_a_batch(monkeypatch):
    right = Time2Vec.table

    def table(self, positions, **how):
        at = np.asarray(positions)
        rows = right(self, at[..., :1, :] if at.ndim > 1 else at, **how)
        return np.repeat(rows, 3, axis=0) if at.ndim > 1 else rows

    monkeypatch.setattr(Time2Vec, "table", table)
    rejects(takes_batched_positions, Time2Vec, "Arrays are not equal")


def test_the_positions_of_the_first_row_for_all_scores_of_a_batch(monkeypatch):
    right = Shaw.terms

    def terms(self, q, k, q_at, k_at, *, scale=None):
        first = (np.asarray(at)[0] if np.ndim(at) > 1 else at for at in (q_at, k_at))
        return right(self, q, k, *first, scale=scale)

    monkeypatch.setattr(Shaw, "terms", terms)
    rejects(takes_batched_positions, Shaw, "Arrays are not equal")


@pytest.mark.parametrize("fields", [("hidden",), ("hidden", "hidden_bias", "output")])
def test_learned_numbers_without_a_gradient(fields, monkeypatch):
    right = FIRE.bias

    def detached(self, *positions, **how):
        if not hasattr(self.hidden, "detach"):
            return right(self, *positions, **how)
        cut = self.replace(**{name: getattr(self, name).detach() for name in fields})
        return right(cut, *positions, **how)

    monkeypatch.setattr(FIRE, "bias", detached)
    rejects(learns_on_torch, FIRE, "no gradient reaches " + ", ".join(f"FIRE.{f}" for f in fields))


def changed(monkeypatch, change):
    """Change what KERPLE gives for an offset."""
    right = Kerple._of_offset
    monkeypatch.setattr(Kerple, "_of_offset", lambda self, r: change(self, right, r))


def test_fractions_taken_for_integers(monkeypatch):
    changed(monkeypatch, lambda self, right, r: right(self, np.floor(r)))
    rejects(at_fractions, Kerple, "units at positions")


def test_one_distance_of_many_a_little_off(monkeypatch):
    changed(monkeypatch, lambda self, right, r: right(self, r) * np.where(r == -97, 1.01, 1.0))
    rejects(at_every_distance, Kerple, "units at positions")


def test_heads_past_the_third(monkeypatch):
    def wrong(self, right, r):
        heads = np.where(np.arange(self.num_heads) > 2, 1.5, 1.0)
        return right(self, r) * heads[:, None, None]

    changed(monkeypatch, wrong)
    rejects(with_more_heads, Kerple, "units at positions")


def test_more_heads_go_on_from_those_that_are():
    more = rebuilt(KERPLE)
    assert more.r1 == (0.5, 0.25, 0.25, 0.125, 0.125, 0.0625)
    assert len(set(zip(more.r1, more.r2, strict=True))) == HEADS


def test_a_class_whose_heads_are_not_seen_needs_an_example_of_many(monkeypatch):
    monkeypatch.setattr(Kerple, "replace", lambda self, **changes: self)
    rejects(with_more_heads, Kerple, "Kerple cannot be made with 6 heads: give an example of 4")


def test_a_unit_below_the_range_of_files_asks_for_no_equality():
    """A in float32 would be 0, and the last bit of a value near 1e-100 would count."""
    tiny = np.array([1e-100, 0.0], dtype=object)
    read = Real(tiny, tiny, np.zeros(2, dtype=object)).output()
    assert list(read.terms > 0) == [True, False]
    assert read.score(np.array([1e-100 * (1 + 2.0**-52), 0.0]), "float64") <= 1
    assert np.isinf(read.score(np.array([1e-100, 1e-100]), "float64"))
    sine = Real(tiny, tiny, np.ones(2, dtype=object)).output()
    assert not sine.terms.any()  # as files have had it: of sin(pi), say, B is the unit
