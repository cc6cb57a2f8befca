"""Functions of ``apply`` that are right in a fresh process, and wrong after certain calls."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.driver import Driver
from posenc_ref.conformance.rotary.diagnose_state import bounds, grown_from_zero
from posenc_ref.conformance.rotary.turned import Turned

ROPE = pr.RoPE(8, layout="half")
GROWING = pr.RoPE(8, layout="half", scaling=pr.DynamicNTK(2.0, 24))


class FromZero:
    """A table whose added rows are numbered from 0."""

    def __init__(self):
        self.rows = np.zeros(0, int)

    def __call__(self, x, positions):
        p = np.asarray(positions)
        if p.dtype.kind == "f" or p.min(initial=0) < 0:
            raise ValueError("positions are row numbers")
        more = int(p.max(initial=-1)) + 1 - self.rows.size
        self.rows = np.append(self.rows, np.arange(max(more, 0)))
        return ROPE.apply(x, self.rows[p])


class Compounding:
    """Dynamic NTK whose base is multiplied again in every long call."""

    def __init__(self):
        self.base = 10000.0

    def __call__(self, x, positions):
        length = int(np.max(positions, initial=0)) + 1
        if length <= 24:
            return ROPE.apply(x, positions)
        alpha = 2.0 * length / 24 - 1
        self.base = min(self.base * alpha ** (8 / 6), 1e30)
        return ROPE.replace(base=self.base).apply(x, positions)


def test_the_driver_lists_the_rows_that_calls_needed():
    driver = Driver(lambda x, positions: x)
    for top in (4, 2, 9, 9, 30):
        driver.apply(np.zeros((1, 1, 1, 8)), np.array([top]))
    assert driver.needed == [5, 10, 31]
    assert bounds(driver.needed, 8, lambda old, needed: 2 * old).tolist() == [0, 8, 16, 32]


def test_the_prediction_of_a_table_that_grew():
    fn, x = FromZero(), np.ones((1, 2, 12, 8))
    for n in (3, 7, 12):
        y = fn(x[:, :, :n], np.arange(n))
    call = Turned(ROPE, x, np.arange(12), needed=(3, 7, 12))
    mistake = next(iter(grown_from_zero([call])))
    assert mistake.code == "state"
    error = np.abs(mistake.predict(call).value - y).max()
    assert error <= BUDGET["float64"] * ROUNDOFF["float64"]


def test_a_table_with_a_least_number_of_rows_is_known():
    """Calls of ``apply`` had a list of their own, without it."""
    call = Turned(ROPE, np.ones((1, 2, 40, 8)), np.arange(40), needed=(5, 40))
    found = {
        m.message.partition(" are numbered")[0]: m.predict(call).value
        for m in grown_from_zero([call])
    }
    rows = ROPE.apply(call.x, np.r_[:16, :24])
    least = found["rows that are added to a kept table that has at least 16 rows"]
    assert np.abs(least - rows).max() <= BUDGET["float64"] * ROUNDOFF["float64"]


def test_positions_modulo_one_number_need_no_table():
    call = Turned(ROPE, np.ones((1, 2, 12, 8)), np.arange(500, 512) + 12, needed=(524,))
    found = [m.message for m in grown_from_zero([call])]
    assert found
    assert not [text for text in found if "begins with 512 rows" in text]


@pytest.mark.nightly
def test_rows_are_numbered_from_zero_again():
    found = check(FromZero(), ROPE).findings[0]
    assert found.code == "state"
    assert "numbered from 0 again" in found.message
    assert not found.reproduce  # in a fresh process, that call is right


@pytest.mark.nightly
def test_a_base_that_compounds():
    found = check(Compounding(), GROWING).findings[0]
    assert found.code == "state"
    assert "the same call gives other values when it is made again" in found.message
    assert not found.reproduce
    assert check(GROWING.apply, GROWING).verdict == "conforms"


@pytest.mark.parametrize(("first", "repeated"), [(5, True), (16, True), (12, False)])
def test_a_table_that_is_doubled_until_it_suffices(first, repeated):
    class Doubled:
        """A table whose added rows are numbered from 0 again, at every doubling or once."""

        rows = np.arange(first)

        def __call__(self, x, positions):
            p, size = np.asarray(positions), self.rows.size
            while p.max(initial=0) >= size:
                size *= 2
                if repeated:
                    self.rows = np.append(self.rows, np.arange(size // 2))
            self.rows = np.append(self.rows, np.arange(size - self.rows.size))
            return ROPE.apply(x, self.rows[p])

    message = check(Doubled(), ROPE, "apply").findings[0].message
    assert f"begins with {first} rows" in message
    assert ("again and again" in message) == repeated
    assert "are numbered from 0 again" in message


class Grows:
    """A kept table of ``rows(positions)`` whose added rows are numbered from 0 again."""

    def __init__(self, rows, first):
        self.rows, self.kept = rows, rows(np.arange(first))

    def table(self, positions):
        p = np.asarray(positions)
        if p.dtype.kind != "i" or p.min(initial=0) < 0 or p.max(initial=0) > 5000:
            raise IndexError("not a row")
        missing = p.max(initial=-1) + 1 - len(self.kept)
        self.kept = np.concatenate([self.kept, self.rows(np.arange(max(missing, 0)))])
        return self.kept[p]

    def add(self, x):
        return (x + self.table(np.arange(x.shape[1]))).astype(x.dtype)

    def cos_sin(self, positions):
        return np.split(self.table(positions), 2, axis=1)


def cosines_and_sines(positions):
    angle = np.asarray(positions)[:, None] * ROPE.frequencies()
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=1)


SINES = pr.Sinusoidal(16)


@pytest.mark.parametrize("first", [0, 100])
@pytest.mark.parametrize(
    ("surface", "encoding", "rows"),
    [
        ("table", SINES, SINES.table),
        ("add", SINES, SINES.table),
        ("cos_sin", ROPE, cosines_and_sines),
    ],
)
def test_added_rows_of_a_table_of_each_surface(surface, encoding, rows, first):
    report = check(getattr(Grows(rows, first), surface), encoding, surface)
    assert report.codes == ["state"]
    begun = f" that begins with {first} rows" * bool(first)
    assert f"a kept table{begun} are numbered from 0 again" in report.findings[0].message
