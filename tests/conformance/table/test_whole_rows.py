"""A table that is reversed as a whole: recognised by few columns, and told from rows read back."""

import tracemalloc

import numpy as np
import pytest

from posenc_ref import Sinusoidal
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.probes import SCAN
from posenc_ref.conformance.table.diagnose_rows import reversed_length
from tests.conformance.handwritten import sinusoid

DIM = 64
TABLE = Sinusoidal(DIM)


def said(positions, rows=None):
    """What is said first of a table that reads other rows; it ends after ``rows``, if given."""
    fn = sinusoid(dim=DIM, positions=positions)

    def table(p):
        if rows is not None and p.max(initial=0) >= rows:
            raise IndexError("past the end")
        return fn(p)

    return check(table, TABLE, "table").findings[0]


@pytest.mark.parametrize("rows", [6, 17, 64, 5000])
def test_a_reversed_table_is_named_with_its_length(rows):
    finding = said(lambda p: rows - 1 - p, rows)
    assert finding.code == "wrong-row"
    assert finding.message.startswith(f"a table of {rows} rows is reversed")


@pytest.mark.parametrize("rows", [2, 3, 6, 16])
def test_a_table_answers_no_position_past_its_end(rows):
    finding = said(lambda p: rows - 1 - p)  # and goes on into negative rows
    assert finding.code == "wrong-row"
    assert "reversed" not in finding.message


@pytest.mark.parametrize("dim", [1, 2, 3, 16, 4096])
def test_the_length_is_found_whatever_the_width(dim):
    encoding = Sinusoidal(dim, odd="extra-sin", offset=2, scale=0.5)
    rows = encoding.table(np.arange(6999, 6982, -1))
    assert reversed_length(encoding, rows[0], len(rows)) == 7000


def test_a_wide_table_costs_little():
    encoding = Sinusoidal(4096)
    row = encoding.table(np.array([4999]))[0]
    tracemalloc.start()
    found = reversed_length(encoding, row, 17)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == 5000
    assert peak < 2**24  # a table of 16385 rows has 2**29 bytes


def test_the_first_visible_error_is_not_looked_for_among_thousands_of_positions_at_once():
    sizes = []
    wrong = sinusoid(dim=DIM, positions=lambda p: 1.5 * p)

    def table(p):
        sizes.append(p.size)
        return wrong(p)

    report = check(table, TABLE, "table")
    assert report.accuracy.degrades_at == 1
    assert max(sizes) < SCAN // 4


@pytest.mark.parametrize("first", [1, 255, 256, 257, 767, 768, 5000, SCAN - 1])
def test_the_first_visible_error_is_found_in_every_piece(first):
    fn = sinusoid(dim=DIM, after=lambda rows, p: rows + np.float32(0.01) * (p >= first)[:, None])
    assert check(fn, TABLE, "table").accuracy.degrades_at == first


def frequencies_of(exponents, base):
    def table(positions):
        angle = np.outer(np.asarray(positions, np.float64), base**-exponents)
        return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(len(angle), -1)

    return table


def test_a_logarithm_of_the_base_with_few_digits():
    fn = frequencies_of(np.arange(32) / 32, np.exp(9.21))
    (finding,) = check(fn, Sinusoidal(64), "table").findings
    assert finding.message == (
        "the base is 9996.6, declared 10000: log(10000) is taken as 9.21, not as 9.21034"
    )


def test_a_known_base_with_the_nearest_denominator():
    fn = frequencies_of(np.arange(32) / 31, 1000.0)
    (finding,) = check(fn, Sinusoidal(64), "table").findings
    assert "or it is 1000, and the exponent of pair k is k/31, not k/32" in finding.message
