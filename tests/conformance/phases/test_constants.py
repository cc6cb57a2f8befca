"""Wrong constants within the tolerance are recognised, and roundings of float32 are not."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.probes import TELLING
from posenc_ref.conformance.phases.constants import recognise
from posenc_ref.conformance.phases.declaration import declare
from posenc_ref.conformance.phases.rounding_model import fit
from tests.conformance.handwritten import rope

D = 64
ENCODING = RoPE(D, layout="half")
W = ENCODING.frequencies()
K = np.arange(D // 2)


def power(base, kind=np.float32):
    """The frequencies as code computes them in one dtype."""
    exponent = np.arange(0, D, 2, dtype=kind) / kind(D)
    return (kind(1) / kind(base) ** exponent).astype(np.float64)


def rule(w, kind=np.float64, at=TELLING):
    """The rule that is found in the angles of frequencies ``w``."""
    angle = at[:, None].astype(kind) * w.astype(kind)
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    angles = fit(at, cos, sin, W, "float32")
    assert angles is not None
    found = recognise(angles, declare(ENCODING).schedule)
    return None if found is None else (found.code, found.message)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("w", "expected"),
    [
        (power(9999.9, np.float64), ("base", "the base is 9999.9, declared 10000")),
        (power(10001), ("base", "the base is 10001, declared 10000")),
        (
            np.array([float(f"{w:.6g}") for w in W]),
            ("angle-precision", "frequencies are rounded to 6 significant digits"),
        ),
        (np.round(W, 7), ("angle-precision", "frequencies are rounded to 7 decimals")),
        (
            1.00001 * W,
            ("position-scale", "every frequency is 1.00001 times the declared one"),
        ),
    ],
)
def test_a_wrong_constant_is_named_with_its_digits(w, expected, kind):
    assert rule(w, kind) == expected


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    "w",
    [
        W,
        W.astype(np.float32).astype(np.float64),
        power(10000),
        np.exp(-np.float32(np.log(1e4)) * np.float32(K) / np.float32(D // 2)).astype(float),
        np.array([float(f"{w:.8g}") for w in W]),
        W * (1 + 40 * 2.0**-24 * np.sin(7.0 * K)),
        np.where(K == 3, W * 1.00001, W),
    ],
)
def test_roundings_and_unruly_errors_are_no_constant(w, kind):
    assert rule(w, kind) is None


def test_short_calls_tell_no_constants_apart():
    assert rule(power(10000), np.float32, TELLING[TELLING < 300]) is None


def test_the_report_names_the_constant_and_the_first_position():
    """Brute force over every position finds 4001."""
    table = np.array([float(f"{w:.6g}") for w in W], np.float32)
    report = check(rope(frequencies=table), ENCODING, "apply")
    (found,) = (f for f in report.findings if f.severity == "error")
    assert (found.code, found.message) == (
        "angle-precision", "frequencies are rounded to 6 significant digits",
    )  # fmt: skip
    assert found.evidence.endswith("first error over 2**-9 at position 4001")
    assert report.accuracy.precision == ""
