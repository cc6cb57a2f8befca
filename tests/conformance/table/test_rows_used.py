"""Rows of other positions are decoded, and a rule is reported that gives all of them."""

import numpy as np
import pytest

from posenc_ref import (
    AxialLearned,
    FourierFeatures,
    Learned,
    Sinusoidal,
    Sinusoidal2D,
    Sinusoidal3D,
)
from posenc_ref.conformance import check

SINES = Sinusoidal(24)
WEIGHT = np.random.default_rng(5).standard_normal((42, 8)).astype(np.float32)


def first(fn, encoding, surface="table"):
    report = check(fn, encoding, surface)
    assert report.verdict == "deviates"
    return report.findings[0]


def sines(p):
    return SINES.table(p).astype(np.float32)


@pytest.mark.nightly
def test_the_last_tile_read_from_the_end():
    def add(x):
        s = x.shape[1]
        p = np.arange(s)
        if s > 16 and s % 16:
            p[s // 16 * 16 :] = np.arange(s % 16) + s - 16
        return x + sines(p)

    found = first(add, SINES, "add")
    assert found.message == (
        "the row used is that of the start of the last 16 tokens + the declared position modulo "
        "16, where the index in the call is past the last multiple of 16 and the declared "
        "position is at least 16 (12 is right)"
    )


@pytest.mark.nightly
def test_rows_that_lag():
    found = first(lambda n: sines(np.arange(n) - np.arange(n) // 64), SINES, "rows")
    assert found.message == (
        "the row used is that of the declared position - the declared position // 64"
    )
    assert found.remedy.startswith("Take the row of the declared position")


def test_a_clamp_one_row_short():
    found = first(lambda p: WEIGHT[np.minimum(p + 2, 40)], Learned(WEIGHT, offset=2))
    assert "clamped to at most 40" in found.message
    assert found.remedy == "Do not clamp row numbers to 40: the last row of the table is 41."


def test_a_single_position_without_the_offset():
    found = first(lambda p: WEIGHT[p + 2 * (p.size > 1)], Learned(WEIGHT, offset=2))
    assert (found.code, found.message) == (
        "decode-offset",
        "a call with one position gets rows shifted by 0, declared 2; calls with more positions "
        "are right",
    )
    assert found.evidence.startswith("position 39 alone gets row 39, declared row 41")
    found = first(lambda p: WEIGHT[p if p.size > 1 else np.minimum(p, 38)], Learned(WEIGHT))
    assert found.code == "decode-offset"
    assert found.evidence.startswith("position 41 alone gets row 38, declared row 41")


def test_a_table_that_clamps_positions_past_its_end_is_judged_to_its_end():
    weight = np.random.default_rng(7).standard_normal((500, 4)).astype(np.float32)
    report = check(lambda p: weight[np.minimum(p, 499)], Learned(weight), "table")
    assert report.verdict == "conforms"
    assert "judged    up to position 499" in str(report)


def test_a_table_that_takes_positions_from_0_on_only_is_right():
    def whole(p):
        if (p != np.arange(p.size)).any():
            raise ValueError("positions must be 0, 1, 2, ...")
        return WEIGHT[: p.size]

    assert check(whole, Learned(WEIGHT), "table").verdict == "conforms"


def test_rows_that_wrap_round():
    found = first(lambda p: WEIGHT[(np.asarray(p) - 1) % 42], Learned(WEIGHT))
    assert "-1 rows" in found.message
    assert "wrap round" in found.message


def test_exact_float64_rows_are_right():
    weight = np.random.default_rng(6).standard_normal((20, 8))
    assert check(lambda p: weight[p], Learned(weight), "table").verdict == "conforms"


ODD = Sinusoidal(17, layout="concat", odd="zero-pad", offset=2.0)
FLAT = AxialLearned((WEIGHT[:6], WEIGHT[6:15]), flat=True)
VIDEO = Sinusoidal3D((4, 6, 6))
BANDS = FourierFeatures.perceiver(4, (16, 16))


def odd_between(p):
    t = ODD.table(p)
    return np.insert(t[:, :-1], 8, 0, axis=1).astype(np.float32)


def odd_filled(p):
    t = ODD.table(p)
    t[:, -1] = np.sin((np.asarray(p) + 2.0) * 10000.0**-1.0 * 10000.0 ** (0.5 / 8.5))
    return t.astype(np.float32)


def spaced(coordinates):
    w = np.repeat(np.geomspace(1, 8, 4)[None], 2, 0)
    x = np.asarray(coordinates, np.float64)
    angle = np.pi * (x.T[:, :, None] * w).reshape(x.shape[1], -1)
    return np.concatenate([x.T, np.sin(angle), np.cos(angle)], 1).astype(np.float32)


@pytest.mark.parametrize(
    ("fn", "encoding", "words"),
    [
        (odd_between, ODD, "the column of zeros is column 8, between"),
        (odd_filled, ODD, "the last column holds sines of one more frequency"),
        (
            lambda p: np.concatenate(
                [WEIGHT[:6][np.asarray(p) % 6], WEIGHT[6:15][np.asarray(p) // 6]], -1
            ),
            FLAT,
            "the first axis runs fastest",
        ),
        (
            lambda p: Sinusoidal3D((6, 4, 6)).table(p).astype(np.float32),
            VIDEO,
            "the columns of the axes are time 6, height 4, width 6",
        ),
        (spaced, BANDS, "spaced geometrically"),
    ],
    ids=["zeros between", "zeros filled", "flat split", "sections", "bands"],
)
def test_other_causes_of_tables(fn, encoding, words):
    assert words in first(fn, encoding).message


def test_rows_computed_one_from_another():
    w = SINES.frequencies().astype(np.float64)
    turn = np.exp(1j * w).astype(np.complex64)
    rows = np.empty((5100, 12), np.complex64)
    rows[0] = 1
    for p in range(1, 5100):
        rows[p] = rows[p - 1] * turn
    table = np.stack([rows.imag, rows.real], -1).reshape(5100, 24)
    found = first(lambda p: table[p], SINES)
    assert found.message.startswith("rows are computed one from another")


def test_columns_sorted_by_coordinate():
    nerf = FourierFeatures.nerf(3, include_input=False)
    order = np.argsort([j % 3 for j in range(nerf.dim)], kind="stable")
    found = first(lambda p: nerf.table(p)[:, order].astype(np.float32), nerf)
    assert "sorted by coordinate" in found.message
    assert found.remedy.startswith("Order the columns as declared: of each 3 rows")


@pytest.mark.nightly
def test_two_facts_of_sums_and_grids_meet():
    def add(x):
        return x + sines(np.arange(x.shape[1]) + (x.shape[0] == 5 and x.shape[1] == 31))

    assert check(add, SINES, "add").verdict == "deviates"
    table = Sinusoidal2D(16)

    def grid(h, w):
        p = table.grid_positions(h, w)
        return table.table(p[::-1] if (h, w) == (7, 16) else p).astype(np.float32)

    assert check(grid, table, "grid").verdict == "deviates"


IMAGE = Sinusoidal2D(16)


@pytest.mark.parametrize(
    ("places", "words"),
    [
        pytest.param(
            lambda y, x, h, w: (y, np.where(x >= 8, x - 8, x)),
            "the column - 8, where the column",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            lambda y, x, h, w: (y % 8, x),
            "the row used is the row modulo 8",
            marks=pytest.mark.nightly,
        ),
        (lambda y, x, h, w: (y, np.where(y % 2, w - 1 - x, x)), "every other row of patches"),
    ],
    ids=["from column 8", "rows wrap", "to and fro"],
)
def test_patches_at_other_places(places, words):
    def grid(h, w):
        y, x = IMAGE.grid_positions(h, w)
        return IMAGE.table(np.stack(places(y, x, h, w))).astype(np.float32)

    assert words in first(grid, IMAGE, "grid").message


def test_exchanged_columns_are_those_that_differ():

    def exchanged(p):
        rows = sines(p)
        rows[:, [4, 5]] = rows[:, [5, 4]]
        return rows

    found = first(exchanged, SINES)
    assert (found.code, found.message) == ("layout", "columns 4 and 5 are exchanged")
    assert found.remedy.startswith("Order the columns as declared: column 2k is the sine of pair k")


def test_rows_and_sums_are_not_told_to_rotate():
    for fn in (lambda p: sines(np.minimum(p, 511)), lambda p: np.float32(0.8) * sines(p)):
        found = first(fn, SINES)
        assert "rotate" not in found.remedy, found


def test_a_modulus_alone_is_simpler_than_one_of_a_sum():
    """The last rows past the last multiple of 128 have the positions of the first tile."""

    def fn(positions):
        past = positions.size // 128 * 128
        return sines(np.r_[positions[:past], positions[: positions.size - past]])

    message = first(fn, SINES).message
    assert message.startswith("the row used is that of the declared position modulo 128, where")


@pytest.mark.parametrize("surface", ["table", "rows"])
def test_rows_of_zeros_in_the_last_tile(surface):
    def fn(p):
        n = p if surface == "rows" else len(p)
        rows = sines(np.arange(n) if surface == "rows" else p)
        rows[n // 8 * 8 :] = 0
        return rows

    found = first(fn, SINES, surface)
    assert found.message.startswith(
        "rows are zeros, where the index in the call is past the last multiple of 8"
    )


@pytest.mark.parametrize(
    ("zero", "listed"),
    [
        (lambda p: (p == 11) | (p == 13), "11, 13;"),
        (lambda p: p % 7 == 3, "3, 10, 17, 24, 31, 38, 45, 52, 59, 66, 73, ..., "),
    ],
)
def test_rows_of_zeros_without_a_short_rule_are_listed(zero, listed):
    found = first(lambda p: np.where(zero(p)[:, None], 0, sines(p)), SINES)
    assert found.code == "wrong-row"
    assert found.message.startswith(
        f"rows are zeros, where the declared position is one of {listed}"
    )


def test_rows_of_a_grown_table_are_counted_from_0():
    class Table:
        kept = sines(np.arange(20))

        def __call__(self, n):
            more = sines(np.arange(max(n - len(self.kept), 0)))
            self.kept = np.concatenate([self.kept, more])
            return self.kept[:n]

    found = first(Table(), SINES, "rows")
    assert found.code == "state"
    assert "that begins with 20 rows are numbered from 0 again" in found.message


def test_an_offset_twice_of_a_table_that_begins_again():
    moved = np.roll(WEIGHT, -2, axis=0)  # the padding rows are last, and the offset is kept
    found = first(lambda n: moved[np.arange(n) + 2], Learned(WEIGHT, offset=2), "rows")
    assert found.message == (
        "the table's offset 2 is added twice; past the last row, the table begins again"
    )
