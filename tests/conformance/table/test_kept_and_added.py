"""Kept tables, rows from the wrong end of one, sums of angles, and what a few rows do not show."""

import numpy as np
import pytest

from posenc_ref import Learned, Sinusoidal
from posenc_ref.conformance import check

SINES = Sinusoidal(16)
W = np.array(SINES.frequencies())
WEIGHT = np.random.default_rng(4).standard_normal((100, 8)).astype(np.float32)


def tiled(p, *, sign=-1.0, by=1.0, tile=48):
    """Return the rows of sums of two angles; 1, -1 are right."""
    p = np.asarray(p)
    (sa, ca), (sb, cb) = ((np.sin(x), np.cos(x)) for x in (
        np.multiply.outer(at, W) for at in (p // tile * tile, p % tile)))  # fmt: skip
    out = np.stack([sa * cb + by * ca * sb, ca * cb + sign * sa * sb], axis=-1)
    return out.reshape(len(p), 16)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sign": 1.0}, "in tiles of 48 positions, but cos(a + b) = cos a cos b + sin a sin b"),
        ({"sign": 0.0, "tile": 64}, "in tiles of 64 positions, but cos(a + b) = cos a cos b;"),
        ({"by": -1.0, "tile": 32}, "but sin(a + b) = sin a cos b - cos a sin b;"),
    ],
)
def test_a_wrong_term_of_an_addition_theorem(changes, words):
    assert check(tiled, SINES, "table").verdict == "conforms"
    found = check(lambda p: tiled(p, **changes), SINES, "table").findings
    assert words in found[0].message


def test_rows_that_later_rows_contradict_are_no_cause():
    def wrong(p):
        out = np.array(SINES.table(p))
        late = np.asarray(p) >= 64
        out[late, 1::2] = np.cos(np.multiply.outer(np.asarray(p)[late] * 1.1 + 2, W)) ** 3
        return out

    found = check(wrong, SINES, "table").findings
    assert found[0].code == "inaccurate"
    assert "share one frequency" not in found[0].message


class Kept:
    """Adds rows of a table that is as long as its first call, and padded with zeros."""

    def __init__(self):
        self.table = None

    def __call__(self, x):
        n = x.shape[1]
        if self.table is None:
            self.table = SINES.table(np.arange(n))
        more = np.zeros((max(n - len(self.table), 0), 16))
        return (x + np.concatenate([self.table, more])[:n]).astype(x.dtype)


def test_a_table_of_the_length_of_the_first_call():
    found = check(Kept(), SINES, "add", factory=Kept).findings
    assert found[0].code == "state"
    assert found[0].message == (
        "tokens from 5 on have no rows, nothing is added to them: the table of 5 rows that the "
        "first call makes is kept for longer calls"
    )
    found = check(Kept(), SINES, "add").findings  # no fresh instance shows it
    assert "consistent with a table that it makes" in found[0].message


def test_a_short_table_is_no_state():
    def five(x):
        rows = SINES.table(np.arange(x.shape[1])) * (np.arange(x.shape[1]) < 5)[:, None]
        return (x + rows).astype(x.dtype)

    found = check(five, SINES, "add", factory=lambda: five).findings
    assert found[0].message == "nothing is added, only in tokens from 5 on"


def test_the_last_rows_of_a_table():
    text = "the last S rows of the table are used, table[-S:] in place of table[:S]"
    found = check(lambda x: x + WEIGHT[-x.shape[1] :], Learned(WEIGHT), "add").findings
    assert found[0].message == text
    found = check(lambda n: WEIGHT[-n:], Learned(WEIGHT), "rows").findings
    assert found[0].message == text


def test_an_offset_that_is_added_twice_and_rows_that_wrap_round():
    found = check(lambda p: WEIGHT[2:][(p + 2) % 98], Learned(WEIGHT, offset=2), "table").findings
    assert found[0].message == (
        "the row used is that of (the declared position + 2) modulo 98 (2, the offset of the "
        "table, is added twice)"
    )


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda t: t * np.tile([-1, 1], 8), "bucket-sign", "the position has the opposite sign"),
        (lambda t: t * np.tile([1, -1], 8), "amplitude", "of the cosines has the opposite sign"),
        (lambda t: t[:, ::-1], "layout", "the columns are permuted: in order, they are the decl"),
        (lambda t: t.reshape(-1, 8, 2)[:, ::-1].reshape(-1, 16), "layout", "declared columns 14,"),
        (lambda t: np.where(np.arange(16) % 2, np.abs(t), t), "sign", "absolute cosines"),
    ],
)
def test_columns_are_called_exchanged_only_if_they_are(change, code, words):
    """Negated sines and reversed columns were "cos comes first", or rows of other positions."""
    (found,) = check(lambda p: change(SINES.table(p)), SINES, "table").findings
    assert found.code == code
    assert words in found.message


def test_one_call_that_is_right_says_nothing_about_the_others():
    """A call with every position has the right rows; this was "other rows in calls of one"."""
    found = check(lambda p: WEIGHT[p - p.size], Learned(WEIGHT), "table").findings
    assert "calls with more positions are right" not in found[0].message
    found = check(lambda p: WEIGHT[np.maximum(p, 1)], Learned(WEIGHT), "table").findings
    assert (
        found[0].message == "the row used is that of the declared position, clamped to at least 1"
    )
    found = check(
        lambda p: WEIGHT[np.maximum(p - 2, 0)], Learned(WEIGHT, offset=2), "table"
    ).findings
    assert found[0].message.endswith("(2, the offset of the table, is subtracted, not added)")


@pytest.mark.parametrize(
    ("columns", "place", "words"),
    [
        (np.arange(16) >= 8, lambda p: p + 1, "in columns 8-15, the row used is that of the "
         "declared position + 1"),
        (np.arange(16) % 2 == 1, lambda p: p // 2, "in odd columns, the row used is that of the "
         "declared position // 2"),
    ],
)  # fmt: skip
def test_rows_of_some_columns_only(columns, place, words):
    def wrong(p):
        return np.where(columns, SINES.table(place(np.asarray(p))), SINES.table(p))

    (found,) = check(wrong, SINES, "table").findings
    assert found.message == words


def test_a_library_that_refuses_negative_strides_has_causes_too():
    torch = pytest.importorskip("torch", reason="NumPy allows negative strides")
    weight = torch.from_numpy(WEIGHT[2:])

    def wrong(p):
        return weight[(p + 2) % 98]

    found = check(wrong, Learned(WEIGHT, offset=2), "table", backend="torch").findings
    assert "modulo 98 (2, the offset of the table, is added twice)" in found[0].message
