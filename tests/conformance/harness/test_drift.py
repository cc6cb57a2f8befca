"""What every call changes in what a function keeps: multiplied, added to, or not the same twice."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check

SINES = pr.Sinusoidal(16)
ROPE = pr.RoPE(16, layout="half")
ALIBI = pr.ALiBi(4)


class Kept:
    """Rows that every call changes before or after it reads them."""

    def __init__(self, change):
        self.rows, self.change = SINES.truth(np.arange(300)).value.copy(), change

    def table(self, positions):
        p = np.asarray(positions)
        if p.dtype.kind != "i" or p.min(initial=0) < 0:
            raise IndexError("not a row")
        found = self.rows[p]
        self.change(self.rows, p)
        return found

    def add(self, x):
        return (x + self.table(np.arange(x.shape[1]))).astype(x.dtype)


def halved(rows, p):
    rows[: p.max(initial=0) + 1] *= 0.5


def raised(rows, p):
    rows += 0.25


def doubled(rows, p):
    rows[np.unique(p)] += SINES.truth(np.unique(p)).value


def drifting_bias(change):
    slopes = 2.0 ** -np.arange(2.0, 10.0, 2.0)[:, None, None]

    def bias(q_len, k_len):
        nonlocal slopes
        distance = np.abs(np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len))
        found = -slopes * distance
        slopes = change(slopes)
        return found

    return bias


def drifting_ids():
    kept = np.zeros((64, 4096), int)

    def position_ids(attention_mask):
        mask = np.asarray(attention_mask)
        ids = kept[: mask.shape[0], : mask.shape[1]] if mask.ndim == 2 else kept[0, : mask.size]
        ids += np.where(mask == 1, np.cumsum(mask, axis=-1) - 1, 0)
        return ids.copy()

    return position_ids


def counting_ids():
    seen = 0

    def position_ids(attention_mask):
        nonlocal seen
        mask = np.asarray(attention_mask)
        ids = np.where(mask == 1, np.cumsum(mask, axis=-1) - 1, 0) + seen
        seen += mask.shape[-1]
        return ids

    return position_ids


def drifting_rotation():
    size = 1.0

    def apply(x, positions):
        nonlocal size
        found = size * ROPE.apply(x, positions)
        size *= 2
        return found.astype(x.dtype)

    return apply


def noisy():
    rng = np.random.default_rng(0)
    return lambda positions: SINES.truth(positions).value * (1 + rng.integers(2) / 4)


CASES = {
    "halved rows": (Kept(halved).table, SINES, "table", "it multiplies what is kept by 0.5"),
    "raised rows": (Kept(raised).table, SINES, "table", "it adds 0.25 to what is kept"),
    "summed rows": (Kept(doubled).table, SINES, "table", "it adds its own result to what"),
    "halved sum": (Kept(halved).add, SINES, "add", "it multiplies what is kept by 0.5"),
    "summed sum": (Kept(doubled).add, SINES, "add", "it adds its own result to what"),
    "slopes": (drifting_bias(lambda s: 3 * s), ALIBI, "bias", "multiplies what is kept by 3"),
    "ids": (drifting_ids(), None, "position_ids", "it adds its own result to what is kept"),
    "count": (counting_ids(), None, "position_ids", "it adds 4 to what is kept"),
    "rotation": (drifting_rotation(), ROPE, "apply", "it multiplies what is kept by 2"),
    "noise": (noisy(), SINES, "table", "the same call gives other values after other calls"),
    "squares": (drifting_bias(np.square), ALIBI, "bias", "changes after other calls"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_every_call_changes(name):
    fn, encoding, surface, words = CASES[name]
    report = check(fn, encoding, surface)
    assert report.codes == ["state"]
    assert words in report.findings[0].message


def by_length(rotate):
    """Return ``apply`` that keeps the positions of the first call of every number of tokens."""
    kept = {}

    def apply(x, positions):
        p = np.asarray(positions)
        p = p if p.ndim == 1 else p[0]
        return rotate(x, kept.setdefault(p.size, p)).astype(x.dtype)

    return apply


def coarse(x, positions):
    angle = ((positions * 64) // 64 + 1 / 64)[:, None] * ROPE.frequencies() * (1 + 2**-9)
    first, second = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


@pytest.mark.parametrize("rotate", [ROPE.apply, coarse])
def test_tables_that_are_kept_by_the_number_of_tokens(rotate):
    """With wrong values, the tokens seemed to be counted from 0 in every call."""
    first = check(by_length(rotate), ROPE, "apply").findings[0]
    assert first.code == "state"
    assert first.message.endswith("the result of an earlier call of the same length")


@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_an_index_in_the_call_is_no_state(factor):
    def apply(x, positions):
        return ROPE.apply(x, factor * np.arange(x.shape[2])).astype(x.dtype)

    report = check(apply, ROPE, "apply")
    assert "state" not in report.codes
    assert report.findings[-1].message == "the position used is the index in the call"
