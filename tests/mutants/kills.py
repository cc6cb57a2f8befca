"""The kill matrix: which check of the judge, run alone, sees which case of the corpus.

A check that is run alone sees what it always sees, but no failure of another one counts or stops
the run.  One run in which none counts therefore tells all of them apart; `alone` is the real thing
for one check.  Properties of `apply` are judged with the oracle withheld: the encoding is not
given.
"""

from dataclasses import dataclass

import posenc_ref
from posenc_ref.conformance.check import complete, make_run

#: Arguments that only `check` takes for an encoding that is withheld.
NOTHING = ""


@dataclass(frozen=True)
class Row:
    """One case: the checks that were made, and those of them that saw something wrong."""

    executed: frozenset
    kills: frozenset


def alone(case, check):
    """The report on a case if this check were the only one."""
    withheld = check.startswith("property ") and _withholds(case)
    run = _run(case, withheld)
    run.ledger.only = check
    return complete(run)


def row(case):
    """What every check sees of a case, each by itself."""
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
    """Whether the judge can do without the encoding."""
    return case.surface == "apply" and case.encoding is not None


def _run(case, withheld):
    encoding = None if case.encoding is None else posenc_ref.from_dict(case.encoding)
    kwargs = dict(case.kwargs)
    if withheld:
        kwargs |= {"head_dim": encoding.head_dim, "axes": encoding.num_axes}
        encoding = None
    return make_run(
        case.make(), encoding, case.surface, name=case.name, factory=case.make, **kwargs
    )
