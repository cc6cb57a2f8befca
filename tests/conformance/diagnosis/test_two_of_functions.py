"""Two mistakes that are made at once in a plain function, or in a table, are both named."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check

RNG = np.random.default_rng(3)
AXES = pr.AxialLearned(
    (RNG.normal(size=(8, 6)), RNG.normal(size=(16, 10))), order=(0, 1), flat=True
)
WAVES = pr.Time2Vec(RNG.normal(size=9), RNG.normal(size=9), function="cos")
TOKENS = pr.Learned(RNG.normal(size=(64, 4)), padding_idx=1)


def index(window, *, by=None, columns=False):
    h, w = window
    y, x = np.divmod(np.arange(h * w), w)
    if columns:
        x, y = np.divmod(np.arange(h * w), h)
    return (y[:, None] - y + h - 1) * (2 * w - 1 if by is None else by(h, w)) + x[:, None] - x


def ids(mask, *, first=0, right=False):
    if not right:
        return np.maximum(np.cumsum(mask, axis=-1) - 1, 0) + first
    place = np.arange(mask.shape[-1]) + first
    return np.where(place - first < mask.sum(axis=-1, keepdims=True), place, 0)


def axes(p, *, factors=False, columns=False):
    first, last = (np.asarray(t) for t in AXES.tables)
    a, b = (p % 8, p // 8) if factors else (p // 16, p % 16)
    parts = [first[a], last[b]]
    return np.concatenate(parts[::-1] if columns else parts, axis=-1)


def waves(p, *, inside=False, wave=np.cos):
    w, b = WAVES.weight, WAVES.bias
    t = np.asarray(p, np.float64)[:, None]
    z = w * (t + b) if inside else w * t + b
    return np.concatenate([z[:, :1], wave(z[:, 1:])], axis=1)


def shards(bounds, size, rank, *, on=False, exchanged=False):
    found = []
    for start, n in zip(bounds[:-1], np.diff(bounds), strict=True):
        chunk = n // (2 * size)
        both = [np.arange(chunk) + c * chunk for c in (rank, 2 * size - 1 - rank)]
        found += [p + start * on for p in (both[::-1] if exchanged else both)]
    return np.concatenate(found)


def tokens(of, *, first=2, zero=1):
    real = of != 1
    return np.where(real, np.cumsum(real, axis=-1) + first - 1, zero)


CASES = {
    "an index": (
        index, None, "relative_index", {"by": lambda h, w: w, "columns": True},
        "the tokens are numbered column by column", "the factor of dy is w, not 2w - 1",
    ),
    "positions of a mask": (
        ids, None, "position_ids", {"first": 1, "right": True},
        "the count takes the real tokens to come first", "the first number is 1, not 0",
    ),
    "ranks": (
        shards, None, "shard_positions", {"on": True, "exchanged": True},
        "the order of the chunks is exchanged", "has the start of the document added",
    ),
    "token ids": (
        tokens, TOKENS, "ids_from_tokens", {"first": 3, "zero": 0},
        "the first number is 3, not 2", "the row of padding is 0, not 1",
    ),
    "axes": (
        axes, AXES, "table", {"factors": True, "columns": True},
        "columns belong to the axes (1, 0), declared (0, 1)",
        "the split of flat positions takes the remainder by 8 for the first table",
    ),
    "phases": (
        waves, WAVES, "table", {"inside": True, "wave": np.sin},
        "sin is used, declared cos", "w (t + b), not w t + b",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_both_mistakes_are_named(name):
    function, encoding, surface, changes, *words = CASES[name]
    assert check(function, encoding, surface).verdict == "conforms"
    found = check(lambda *a: function(*a, **changes), encoding, surface).findings
    text = "; ".join(one.message for one in found)
    assert all(word in text for word in words), text
    assert "consistent" not in text
    assert all(one.remedy for one in found)


def test_a_third_mistake_leaves_both_unnamed():
    def wrong(window):
        return index(window, by=lambda h, w: w, columns=True) // 3

    (found,) = check(wrong, None, "relative_index").findings
    assert "no known mistake explains" in found.message
