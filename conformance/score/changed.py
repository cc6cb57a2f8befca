"""Mistakes in logits, predicted as sums of parts (q.k and bias, or terms) with fitted factors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.scores import Parts, Scored

from . import factors

#: Returns the parts of the logits of a call.
OfCall = Callable[[Scored], Parts]
#: A code, a message, and the changed parts, the changed fields or the changed encoding; a remedy
#: may follow.
Change = tuple[str, str, Any] | tuple[str, str, Any, str]


@dataclass(frozen=True)
class Moved:
    """The declared parts of a changed call."""

    of: Callable[[Scored], Scored]

    def __call__(self, call: Scored) -> Parts:
        return self.of(call).parts()


def mistakes_of(declared: Any, changes: Iterable[Change]) -> Iterator[Mistake]:
    """Yield a :class:`Mistake` for each change; it predicts logits with this change."""
    for code, message, change, *remedy in changes:
        if isinstance(change, dict):
            change = _with_fields(declared, declared.replace(**change))
        elif not callable(change):
            change = _with_fields(declared, change)
        found = changed(code, message, change, *remedy)
        yield replace(found, before=change.of) if isinstance(change, Moved) else found


def _with_fields(declared: Any, other: Any) -> OfCall:
    """Return the parts of calls whose encoding has the fields in which ``other`` differs."""
    if type(declared) is not type(other):
        return lambda call: call.replace(encoding=other).parts()
    names = [f.name for f in fields(declared) if f.init]
    own = {n: getattr(other, n) for n in names if getattr(other, n) is not getattr(declared, n)}
    return Moved(lambda call: call.replace(encoding=call.encoding.replace(**own)))


def changed(code: str, message: str, parts: OfCall, remedy: str = "") -> Mistake:
    """Return a mistake that predicts the logits as the sum of ``parts(call)``."""

    def predicts(by: dict[str, float]) -> Callable[[Scored], Truth | None]:
        def predict(call: Scored) -> Truth | None:
            try:
                return call.total(parts(call), by)
            except ValueError:  # positions outside the table
                return None

        return predict

    def fit(run: Run, wrong: Sequence[JudgedCall]) -> list[Mistake]:
        one = factors.to_fit(wrong)
        try:
            by = factors.fitted(one, parts(one.facts))
        except ValueError:
            return []
        named = [
            Mistake(name, text, predicts(by), told, values=values)
            for name, text, values, told in (factors.named(run, by, wrong[0].facts) if by else ())
        ]
        return [Mistake(code, message, predicts(by), remedy)] * bool(code) + named

    return Mistake(code, message, predicts({}), remedy, fit=fit)
