"""Diagnose a missing bias in all calls, or only in prefill or decoding calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from posenc_ref.conformance.harness.run import Run

from .cases import BiasCase, right

#: Kinds of calls in which a bias may be missing: in words, and as a test of (q_len, k_len).
CALLS: tuple[tuple[str, Callable[[int, int], bool]], ...] = (
    ("for a single query, as while decoding: calls of q_len 1", lambda q, k: q == 1),
    ("with a cache: calls of q_len < k_len", lambda q, k: q < k),
    ("without a cache: calls of q_len = k_len", lambda q, k: q == k),
)


def missing(run: Run, cases: Sequence[BiasCase]) -> bool:
    """Report a bias of zeros if all other calls are correct; return True if reported."""
    calls = []
    for case in cases:
        if case.actual.size == 0:
            continue
        declared = right(run, case)
        flat = bool((np.where(case.judged, case.actual, 0.0) == 0).all())
        if not (declared or flat):
            return False
        if flat != declared:  # a declared bias of 0 shows nothing
            calls.append((case.q_len, case.k_len, flat))
    without = [(q, k) for q, k, flat in calls if flat]
    if not without:
        return False
    kinds = [words for words, of in CALLS if all(of(q, k) == flat for q, k, flat in calls)]
    text = f"the bias is missing {[*kinds, 'in some calls'][0]}"
    if len(without) == len(calls):
        text = "the bias is missing: all values are 0"
    where = ", ".join(f"fn({q}, {k})" for q, k in without[:4])
    run.add("bias-missing", text, f"only zeros in the result of {where}")
    return True
