"""Two mistakes that functions of tests/authors make at once are both named."""

import pytest

from posenc_ref.conformance import check
from tests.authors import case
from tests.night import by_day

#: Words of the first two findings, or of one finding that has both.
CASES = {
    "aa/a11-081": ("starts at its start + frames * max(height, width)", "columns are counted"),
    "x/a8-071": ("padding is counted like text", "rope_deltas is left out"),
    "z/b1-051": ("seconds are truncated", "go on at the length of the row, padding included"),
    "ae/a15-115": ("each goes on after the largest position of the one before", "height and width"),
    "ae/a15-068": ("query i has the position of key i", "c is left out"),
    "z/b1-023": ("query i has the position of key i", "max_distance is 128, declared 64"),
    "ad/a14-106": ("scale_base is 256, declared 512", "gamma is 0.5, declared 0.4"),
    "u/a5-210": ("exponent of pair i is divided by 31", "the offset query - key is 1 too large"),
    "y/a9-023": ("the rotation turns the other way", "the length of the previous chunk alone"),
    "ad/a14-065": ("the axes are in the order (1, 0)", "start at 0, declared 1"),
    "af/a16-075": ("the largest end of the ramp is d/2 - 1", "the blend f / factor ** w is linear"),
    "af/a16-081": ("put in the order (d/2, 2, heads)", "the axis 2 of the rows"),
    "af/a16-086": ("the norm subtracts the mean", "multiplies only the 32 channels"),
    "ag/a17-096": ("are one fewer at the start", "the activation is left out"),
    "ad/a14-100": ("permuted by exchanging its halves", "the rotation turns the other way"),
}
#: Those of less than half a second.
DAY = {"aa/a11-081", "x/a8-071", "z/b1-051", "ae/a15-115", "ad/a14-065", "ad/a14-100",
       "af/a16-081", "af/a16-086"}  # fmt: skip


@pytest.mark.parametrize("name", by_day(CASES, DAY))
def test_both_mistakes_are_named(name):
    one = case(name)
    settings = one.get("settings", {})
    report = check(one["fn"], one["encoding"], one["surface"], name=name, **settings)
    found = [finding.message for finding in report.findings[:2]]
    for words in CASES[name]:
        assert any(words in message for message in found), found
    assert not any("consistent with a part" in message for message in found)
