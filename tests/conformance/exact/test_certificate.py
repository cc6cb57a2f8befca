"""The certified table: complete, passing, and able to fail; and the arithmetic behind it."""

import re
import sys
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from posenc_ref import ALiBi, T5Bias, angles
from posenc_ref.accuracy import ROUNDOFF, budget
from posenc_ref.angles import ERROR_BOUND
from posenc_ref.conformance.exact.certificate import (
    WIDE,
    Row,
    certify,
    dtypes,
    format_table,
    position_ranges,
)
from posenc_ref.conformance.exact.digits import DIGITS, exact_bucket, mpmath, nearest_quarter_turns
from posenc_ref.conformance.exact.numbers import exactly
from posenc_ref.conformance.registry import entries
from tests.conformance.exact.fixed_point import BITS, Exact, exact_cos_sin, geometric

#: Positions in each range; `posenc accuracy` takes 48.
FEW = 4


@pytest.fixture(scope="module")
def rows():
    """The rows of all entries, by night: by day tests/conformance/registry certifies each."""
    return certify(entries(), FEW)


@pytest.mark.nightly
def test_everything_is_certified(rows):
    assert [row for row in rows if not row.passed] == []
    for row in rows:
        assert row.elements > 0
        assert np.isfinite(row.error)
        if row.dtype in ROUNDOFF:
            assert row.score <= budget(row.dtype)


@pytest.mark.nightly
def test_the_table_is_complete(rows):
    ranges = set(position_ranges(WIDE[0], 8))
    assert len(ranges) == 7
    for e in WIDE:
        found = {(row.dtype, row.positions) for row in rows if row.encoding.startswith(repr(e))}
        assert found == {(dtype, where) for dtype in dtypes() for where in ranges}
    for entry in entries():
        for name in entry.examples:
            (near, *far) = dict.fromkeys(
                row.positions for row in rows if row.encoding == f"{entry.name}: {name}"
            )
            assert near == "as in its vectors"
            assert far in ([], ["up to 2**20"], ["up to 2**20", "up to 2**40"])
    assert any(row.encoding.startswith("T5Bias(") for row in rows)
    claimed = [row for row in rows if row.claimed == ERROR_BOUND]
    assert {row.dtype for row in claimed} == {"float64"}


@pytest.mark.nightly
def test_table_as_text(rows):
    text = format_table(rows)
    assert "FAILS" not in text
    assert "at most 2 * 2**-53" in text
    lines = text.splitlines()
    assert len(lines) == len({(row.encoding, row.positions) for row in rows}) + 3
    assert all(
        len(re.split(" {2,}", line)) == len(re.split(" {2,}", lines[0])) for line in lines[:-2]
    )
    assert "equal: no error" in lines[-2]
    assert "n/a: " in lines[-1]
    bad = Row("X", "float32", "0 .. 1", 1, 1.0, 129.0)
    assert "129.00 FAILS" in format_table([bad])


def naive_cos_sin(positions, t, xp, device=None, offset=0.0, axes=None):
    at = positions[..., None] if axes is None else np.moveaxis(positions[axes], 0, -1)
    angle = (at + offset) * ((t.t1 + t.t2 + t.t3) * (2 * np.pi))
    return np.cos(angle), np.sin(angle)


def naive_slopes(self):
    return 2.0 ** (-8 * np.arange(1, self.num_heads + 1) / self.num_heads)


def test_a_wrong_specification_fails(monkeypatch):
    """Float64 angles, naive slopes and one bucket that starts late: each is found."""
    bucket = T5Bias.bucket
    monkeypatch.setattr(angles, "cos_sin", naive_cos_sin)
    monkeypatch.setattr(ALiBi, "slopes", naive_slopes)
    monkeypatch.setattr(T5Bias, "bucket", lambda self, r: bucket(self, r - (r == 64)))
    wrong = {"RoPE", "Sinusoidal", "ALiBi", "T5Bias", "Sandwich", "DETRSine"}
    right = {"Learned", "SwinBias", "Shaw", "Kerple", "CoPE"}
    judged = [entry for entry in entries() if entry.name in wrong | right]
    failed = [row.encoding for row in certify(judged, FEW) if not row.passed]
    assert {re.split(r"\W", name)[0] for name in failed} == wrong
    assert "ALiBi: alibi-6" in failed
    assert sum(name.startswith("T5Bias(") for name in failed) == 2  # causal: later keys share one


def test_without_mpmath_the_way_to_get_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpmath", None)
    with pytest.raises(ImportError, match=r'pip install "posenc-ref\[cli\]"'):
        certify(entries())


# -- the arithmetic --------------------------------------------------------------------------


def taylor(x, terms):
    """cos and sin of a small Decimal by their series."""
    term, cos, sin = Decimal(1), Decimal(0), Decimal(0)
    for n in range(terms):
        cos, sin = (cos + term, sin) if n % 2 == 0 else (cos, sin + term)
        term = term * x / (n + 1) * (-1 if n % 2 else 1)
    return cos, sin


def test_cos_and_sin_against_the_series():
    cos, sin = exact_cos_sin([1, -3], geometric(1.0, [Fraction(0)]))
    with localcontext() as context:
        context.prec = 60
        for i, p in enumerate((1, -3)):
            for fixed, want in zip((cos, sin), taylor(Decimal(p), 80), strict=True):
                assert abs(int(fixed[i, 0]) - int(want * 2**BITS)) <= 2


def test_an_error_of_a_millionth_of_a_rounding_shows():
    third = np.array([(1 << BITS) // 3], dtype=object)
    truth = Exact(third)
    assert truth.hi[0] == 1 / 3
    want = abs(Fraction(1 / 3) - Fraction(1, 3))
    assert float(truth.error(np.array([1 / 3]))[0]) == float(want)
    assert truth.worst(np.array([np.nan]), np.ones(1)) == (np.inf, np.inf)
    assert truth.worst(np.zeros((0, 1)), np.ones(1)) == (0.0, 0.0)


def test_the_certificate_sees_such_an_error_too():
    with mpmath().mp.workdps(DIGITS):
        truth = exactly([mpmath().mp.mpf(1) / 3]).output()
    error = abs(Fraction(1 / 3) - Fraction(1, 3))
    assert truth.worst(np.array([1 / 3]), "float64")[0] == float(error)
    assert truth.worst(np.array([np.nan]), "float64") == (np.inf, np.inf)
    assert exactly(np.zeros((0, 1))).output().worst(np.zeros((0, 1)), "float64") == (0.0, 0.0)


def test_positions_near_quarter_turns():
    """355 is the numerator of 355/113 = pi, so 355 radians are nearly 113 half turns."""
    found = nearest_quarter_turns(geometric(1.0, [Fraction(0)])[0])
    assert 355 in found
    assert found == sorted(found)
    assert found[-1] > 2**35


def test_ties_of_buckets_are_decided():
    """At n = 16, 32 and 64 the logarithm is a whole number."""
    buckets = [exact_bucket(-n, 32, 128, True) for n in (15, 16, 31, 32, 63, 64, 90, 91, 9999)]
    assert buckets == [9, 10, 11, 12, 13, 14, 14, 15, 15]
    assert exact_bucket(5, 32, 128, True) == 21
    assert exact_bucket(5, 32, 128, False) == 0
