"""Judge all encodings at once, on NumPy: by 50-digit formulas and by the golden vectors."""

from __future__ import annotations

import importlib.util
import time

from posenc_ref.accuracy import budget

from .record import Outcome

CERTIFICATE = "certificate"  #: the group that judges posenc_ref with 50 digits
GOLDEN = "golden vectors"  #: the group that judges posenc_ref by the stored vectors
NO_MPMATH = 'mpmath is not installed; pip install "posenc-ref[cli]"'


def certificate(full: bool) -> Outcome:
    """Return the outcome of comparing every encoding with formulas computed with 50 digits."""
    blank = Outcome("certificate", CERTIFICATE, label="all encodings, NumPy")
    if importlib.util.find_spec("mpmath") is None:
        return blank.replace(reason=NO_MPMATH)
    from posenc_ref.conformance.exact.certificate import FULL, QUICK, certify
    from posenc_ref.conformance.registry import entries

    begin = time.perf_counter()
    rows = certify(entries(), FULL if full else QUICK)
    wrong = [row for row in rows if not row.passed]
    worst = max((row.score for row in rows), default=0.0)
    return blank.replace(
        verdict="deviates" if wrong else "conforms" if rows else "inconclusive",
        codes=("inaccurate",) * bool(wrong),
        messages=tuple(f"{r.encoding}, {r.dtype}, positions {r.positions}" for r in wrong[:5]),
        worst=worst,
        executed=sum(row.elements for row in rows),
        seconds=time.perf_counter() - begin,
    )


def golden_vectors() -> Outcome:
    """Return the outcome of running ``posenc_ref`` on the installed golden vectors.

    The files themselves are checked by ``posenc vectors --verify``, which needs jsonschema.
    """
    from posenc_ref.conformance.vectors import load_vectors
    from posenc_ref.conformance.vectors.verify import Verified, execute

    begin = time.perf_counter()
    found = Verified(GOLDEN)
    for case in load_vectors():
        execute(found, case)
    wrong = found.problems
    return Outcome(
        "vectors",
        GOLDEN,
        label="all cases, NumPy",
        verdict="deviates" if wrong else "conforms" if found.executed else "inconclusive",
        codes=("inaccurate",) * bool(wrong),
        messages=tuple(wrong[:5]),
        worst=found.worst,
        budget=budget("float64"),
        executed=found.executed,
        seconds=time.perf_counter() - begin,
    )
