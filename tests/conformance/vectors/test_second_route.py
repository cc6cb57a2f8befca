"""The truths of the files are those of a second route, which shares only the inputs with the first.

`posenc vectors --generate` computes truths in 50-digit mpmath.  The second route is the
specification's own decimal arithmetic.
"""

from decimal import Decimal

import numpy as np
import pytest

from posenc_ref.conformance import load_vectors
from posenc_ref.conformance.exact.digits import DIGITS, mpmath
from posenc_ref.conformance.vectors.make.generate import AGREEMENT
from tests.conformance.vectors.second_route import ROUTES, values

CASES = load_vectors()


def differs(case):
    """Where the second route differs from the file by more than 2**-90 of the element's size."""
    found = values(case.surface, case.encoding, case.inputs)
    for (name, truth), value in zip(case.truth.items(), found, strict=True):
        value = np.asarray(value, dtype=object)
        if value.shape != truth.shape:
            return f"{name}: shape {truth.shape} in the file, {value.shape} by the second route"
        for at in np.ndindex(truth.shape):
            seen = truth.judged is None or np.broadcast_to(truth.judged, truth.shape)[at]
            if not (seen or truth.whole) or agrees(truth, value[at], at):
                continue
            return f"{name} at {at}: {truth.hi[at]} in the file, {value[at]} by the second route"
    return ""


def agrees(truth, value, at):
    """Whether one element agrees; integers and numbers that are not computed are equal."""
    with (mp := mpmath().mp).workdps(DIGITS):
        other = mp.mpf(str(value) if isinstance(value, Decimal) else value)
        error = abs(mp.mpf(truth.hi[at]) + mp.mpf(truth.lo[at]) - other)
        return bool(error * 2**AGREEMENT <= truth.terms[at] + truth.angle[at])


def sample():
    """The case with the fewest numbers for each surface and class of encoding and of scaling."""
    smallest = {}
    for case in CASES:
        e = case.encoding
        key = (case.surface, type(e), type(getattr(e, "scaling", None)))
        size = sum(truth.hi.size for truth in case.truth.values())
        if key not in smallest or size < smallest[key][0]:
            smallest[key] = size, case
    return [case for _, case in smallest.values()]


def test_the_sample_has_every_surface():
    assert {case.surface for case in sample()} == {case.surface for case in CASES}


def test_both_routes_agree_on_a_sample():
    assert {case.id: found for case in sample() if (found := differs(case))} == {}


@pytest.mark.nightly
def test_both_routes_agree():
    assert {case.id: found for case in CASES if (found := differs(case))} == {}


def test_a_second_route_that_differs_beyond_float64_is_found(monkeypatch):
    (case,) = [case for case in CASES if case.id == "alibi-12-slopes-all"]
    right = ROUTES["slopes"]
    assert differs(case) == ""
    monkeypatch.setitem(ROUTES, "slopes", lambda e, i: right(e, i) * (1 + Decimal(2) ** -80))
    assert "slopes at (0,): 0.5 in the file, 0.5000" in differs(case)
    monkeypatch.setitem(ROUTES, "slopes", lambda e, i: right(e, {"num_heads": 8}))
    assert "shape (12,) in the file, (8,) by the second route" in differs(case)
