"""Tables whose frequencies and angles are computed in half precision."""

import numpy as np
import pytest

from posenc_ref import Sinusoidal
from posenc_ref.conformance import check

DIM = 64


def bfloat16(values):
    """Round to 8 significant bits."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    return np.ldexp(np.rint(mantissa * 256), exponent - 8)


def in_bfloat16(positions):
    """KerasHub's `SinePositionEncoding` under `mixed_bfloat16`: every step is rounded."""
    exponents = bfloat16(bfloat16(np.arange(0, DIM, 2)) / DIM)
    frequencies = bfloat16(bfloat16(1 / 10000) ** exponents)
    angle = bfloat16(bfloat16(positions)[:, None] * frequencies)
    rows = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(-1, DIM)
    return bfloat16(rows).astype(np.float32)


def of_other_pairs(positions):
    """Angles of another pair, a few of which are right: not a matter of rounding."""
    frequencies = 10000.0 ** (-np.arange(0, DIM, 2) / DIM)
    angle = positions[:, None] ** 2 * frequencies / 3
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(-1, DIM).astype(np.float32)


@pytest.mark.parametrize(("fn", "named"), [(in_bfloat16, True), (of_other_pairs, False)])
def test_angles_in_half_precision_are_named(fn, named):
    (finding,) = check(fn, Sinusoidal(DIM), surface="table").findings
    assert ("half precision" in finding.message) == named, finding
    assert (finding.code == "angle-precision") == named


@pytest.mark.parametrize(("cut", "how"), [(np.floor, "down"), (np.rint, "to the nearest step")])
def test_angles_in_whole_radians(cut, how):
    """Slow columns change at far positions only; near 0, those of two pairs are equal."""

    def fn(positions):
        angle = cut(positions[:, None] * 10000.0 ** (-np.arange(0, DIM, 2) / DIM))
        return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(-1, DIM).astype(np.float32)

    (finding,) = check(fn, Sinusoidal(DIM), surface="table").findings
    assert finding.message == (
        f"angles are rounded {how}, in steps of 1 rad, without interpolation"
    )
