"""Wrong rows that depend on the call, not on the position alone: tails, views, kinds of numbers."""

import numpy as np
import pytest

from posenc_ref import Sinusoidal
from posenc_ref.conformance import check

DIM = 16
W = 10000.0 ** (-np.arange(0, DIM, 2) / DIM)


def interleaved(positions):
    angle = np.asarray(positions, np.float64)[:, None] * W
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(-1, DIM).astype(np.float32)


def concatenated(positions):
    return np.concatenate([interleaved(positions)[:, part::2] for part in (0, 1)], axis=1)


def first(report):
    assert report.verdict == "deviates"
    return report.findings[0]


def of(surface, rows):
    """The function of a surface that uses ``rows(positions)``."""
    return {
        "rows": lambda n: rows(np.arange(n)),
        "table": rows,
        "add": lambda x: x + rows(np.arange(x.shape[-2])),
    }[surface]


@pytest.mark.parametrize("surface", ["rows", "table", "add"])
@pytest.mark.parametrize("block", [64, 8])
def test_the_last_block_counts_from_0(surface, block):
    def rows(positions):
        used = np.array(positions, np.float64)
        full = used.size // block * block
        used[full:] -= full
        return interleaved(used)

    finding = first(check(of(surface, rows), Sinusoidal(DIM), surface))
    assert finding.code == "wrong-row"
    assert f"past the last multiple of {block}" in finding.message


VIEWED = {
    "interleaved": (interleaved, "even and odd columns"),
    "concat": (concatenated, "first and second half"),
}


@pytest.mark.parametrize("surface", ["rows", "table"])
@pytest.mark.parametrize("layout", VIEWED)
def test_stacked_sines_and_cosines_that_are_viewed(surface, layout):
    right, words = VIEWED[layout]

    def rows(positions):
        made = right(positions)
        parts = [made[:, :8], made[:, 8:]] if layout == "concat" else [made[:, ::2], made[:, 1::2]]
        return np.stack(parts).reshape(-1, DIM)

    finding = first(check(of(surface, rows), Sinusoidal(DIM, layout=layout), surface))
    assert finding.code == "layout"
    assert words in finding.message


def test_the_declared_numbers_in_other_places():
    def rows(positions):
        return concatenated(positions).T.reshape(-1, DIM)

    finding = first(check(rows, Sinusoidal(DIM), "table"))
    assert finding.code == "layout"
    assert "in other places" in finding.message


def test_integers_that_are_not_scaled():
    def rows(positions):
        p = np.asarray(positions)
        return interleaved(p * 1000.0 if p.dtype.kind == "f" else p)

    finding = first(check(rows, Sinusoidal(DIM, position_scale=1000.0), "table"))
    assert finding.code == "position-scale"
    assert "integer positions" in finding.message
    assert "the factor 1000 on positions is missing" in finding.message


def test_a_factor_on_positions_that_is_missing():
    finding = first(check(interleaved, Sinusoidal(DIM, position_scale=1000.0), "table"))
    assert finding.message == "the declared factor 1000 is missing"
    assert finding.remedy == "Multiply the positions by 1000 exactly once."
