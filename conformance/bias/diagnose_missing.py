"""A bias that is not there: in all calls, or in those of a kind that decoding makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import bias_truth

from .cases import BiasCase

#: Kinds of calls (q_len, k_len) that are forgotten, and what they are called.
CALLS: tuple[tuple[str, Callable[[int, int], bool]], ...] = (
    ("for a single query, as while decoding: calls of q_len 1", lambda q, k: q == 1),
    ("with a cache: calls of q_len < k_len", lambda q, k: q < k),
    ("without a cache: calls of q_len = k_len", lambda q, k: q == k),
)


def missing(run: Run, cases: Sequence[BiasCase]) -> bool:
    """Whether the bias is missing, and nothing else is wrong; a finding says where."""
    told = []
    for case in cases:
        if case.actual.size == 0:
            continue
        lengths = case.q_len, case.k_len
        truth, moved, judged = bias_truth(run.encoding, *lengths, case.actual)
        right = bool((np.where(judged, run.scores(moved, truth), 0.0) <= run.budget).all())
        flat = bool((np.where(judged, case.actual, 0.0) == 0).all())
        if not (right or flat):
            return False
        if flat != right:  # where a bias is 0 as declared, nothing is known
            told.append((*lengths, flat))
    without = [(q, k) for q, k, flat in told if flat]
    if not without:
        return False
    where = ", ".join(f"fn({q}, {k})" for q, k in without[:4])
    if len(without) == len(told):
        run.add("bias-missing", "the bias is missing: zeros come out", where)
        return True
    for words, of in CALLS:
        if all(of(q, k) == flat for q, k, flat in told):
            run.add("bias-missing", f"the bias is missing {words}", f"zeros from {where}")
            return True
    run.add("bias-missing", "the bias is missing in some calls", f"zeros from {where}")
    return True
