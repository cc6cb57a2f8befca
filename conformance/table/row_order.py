"""Name rows that are right, but come in another order than the positions of a call."""

from __future__ import annotations

import numpy as np

from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.reach import TableAccess
from posenc_ref.conformance.harness.run import Run

from .mistakes import Rows

#: Positions in an order of their own: three calls without, and one with repetitions.
CALLS = (
    np.array([29, 3, 21, 0, 64, 7, 11, 5]),
    np.array([2, 9, 4, 1, 33]),
    np.array([12, 90, 45, 6, 31, 8, 2, 77, 19]),
    np.array([7, 7, 3, 29, 3, 0, 0, 21]),
)
_ORDERS = (
    ("rows come in the order of sorted positions", np.argsort),
    (
        "rows are computed in the order of sorted positions, and put back by the sorting "
        "permutation, not by its inverse",
        lambda p: np.argsort(p, kind="stable")[np.argsort(p, kind="stable")],
    ),
    ("rows come in the reverse order", lambda p: np.arange(p.size)[::-1]),
)


def name_order(run: Run, access: TableAccess, truth: Rows) -> bool:
    """Report a wrong order of rows; return whether all calls have it."""
    if access.mode != "any":
        return False
    try:
        seen = [(p, access.rows(p)) for p in CALLS]
    except (Refused, Malformed):
        return False

    def equal(got: np.ndarray, p: np.ndarray) -> bool:
        return bool((run.scores(got, truth(p)) <= run.budget).all())

    *distinct, (repeated, last) = seen
    for words, order in _ORDERS:
        if not all(equal(got, p[order(p)]) for p, got in distinct):
            continue
        where = ""
        if not equal(last, repeated[order(repeated)]):
            if not equal(last, repeated):
                continue
            where = ", in calls whose positions are all different"
        p = CALLS[0]
        run.add(
            "token-order",
            f"{words}{where}",
            f"positions {p.tolist()}: rows of {p[order(p)].tolist()}; {len(CALLS)} calls agree",
            remedy="Return the row of token i in row i: result[order] = rows, where order sorts "
            "the positions, or rows[np.argsort(order)].",
        )
        return True
    return False
