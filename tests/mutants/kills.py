"""The kill matrix: which check of the judge, run alone, rejects which case of the corpus.

A check that runs alone makes its usual calls, and failures of other checks neither count nor stop
the run.  So `row` gets all checks from one run in which no failure counts; `alone` runs one check.
Properties of `apply` are judged without the encoding.
"""

from dataclasses import dataclass

import posenc_ref
from posenc_ref.conformance.check import complete, make_run
from posenc_ref.conformance.functions.heads import by_head

#: The name of no check: with it, no failure counts.
NOTHING = ""


@dataclass(frozen=True)
class Row:
    """The checks that ran on a case, and those of them that reject it."""

    executed: frozenset
    kills: frozenset


def alone(case, check):
    """Return the report on a case with this check as the only one."""
    withheld = check.startswith("property ") and _withholds(case)
    run = _run(case, withheld)
    run.ledger.only = check
    return complete(run)


def row(case):
    """Return the checks that run on a case, and those that reject it alone."""
    executed, kills = _all(case, withheld=False)
    if _withholds(case):
        seen = _all(case, withheld=True)
        executed, kills = (
            {c for c in whole if not c.startswith("property ")}
            | {c for c in part if c.startswith("property ")}
            for whole, part in zip((executed, kills), seen, strict=True)
        )
    return Row(frozenset(executed), frozenset(kills))


def _all(case, *, withheld):
    run = _run(case, withheld)
    run.ledger.only = NOTHING
    complete(run)
    asked = run.ledger.judged | run.ledger.failing
    one_by_one = {c for c in asked if f"property {c}" in asked} | {"properties"}
    return asked - one_by_one, set(run.ledger.failing)


def _withholds(case):
    """Return whether the judge can judge the case without its encoding."""
    if case.surface != "apply" or case.encoding is None:
        return False
    return not by_head(posenc_ref.from_dict(case.encoding))  # the number of heads is needed


def _run(case, withheld):
    encoding = None if case.encoding is None else posenc_ref.from_dict(case.encoding)
    kwargs = dict(case.kwargs)
    if withheld:
        kwargs |= {"head_dim": encoding.head_dim, "axes": encoding.num_axes}
        encoding = None
    return make_run(
        case.make(), encoding, case.surface, name=case.name, factory=case.make, **kwargs
    )
