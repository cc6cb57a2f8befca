"""What writes large tables and biases: NumPy, Numba, and Numba's loops in Python."""

import sys

import pytest

from posenc_ref.backends.kernels import numba_loops, phasor_factors, phasors


@pytest.fixture(
    params=[
        "numpy",
        "numba",
        pytest.param("numba's loop in Python", marks=pytest.mark.nightly),
    ]
)
def by(request, monkeypatch):
    """The library that writes large tables; here small ones count as large."""
    monkeypatch.setattr(phasor_factors, "BLOCK", 16 * 8 * 64)  # several blocks
    monkeypatch.setattr(phasors, "second_level", lambda: 8 * 16 * 8 * 20)  # in pieces of 20 rows
    monkeypatch.setattr(numba_loops, "LEAST", 1)
    monkeypatch.setattr(numba_loops, "_ROWS", 700)
    if request.param == "numpy":
        monkeypatch.delitem(sys.modules, "numba", raising=False)
        return "numpy"
    __import__("numba")
    if request.param != "numba":
        compiled = numba_loops._compiled  # a loop over pointers is no Python
        monkeypatch.setattr(
            numba_loops, "_compiled", lambda f: compiled(f) if f.__name__ == "apart" else f
        )
    return "numba"
