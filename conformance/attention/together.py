"""Two mistakes that are made in attention at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from itertools import chain
from typing import Any

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake, remembered
from posenc_ref.conformance.diagnosis.together import (
    Together,
    both,
    in_pairs,
    likely_changes,
    possible,
)
from posenc_ref.conformance.oracle.attention import Attended, attended, attention_of, summed
from posenc_ref.conformance.oracle.scores import Scored
from posenc_ref.conformance.score.formulas import parts_by_steps, steps_of

from .calls import calls
from .mistakes import attention_mistakes, paired_mistakes

#: Parts of the messages of likely mistakes that are rarely made together with another one.
_RARE = (
    "tile of", "tiles of", "keys are rotated", "keys are multiplied", "rounded to", "RMSNorm",
    "their norms",
    "the scale of q . k is", "0.0", "1e-", "query head h uses", "every query head uses",
    "in the rotation", "no single", "logits do not depend",
)  # fmt: skip


def two_of_attention(declared: Any) -> Iterator[Together]:
    """Yield two mistakes that change different steps of the computation."""
    probe = attended(declared, *next(calls(declared, 0, "float64")).arguments)
    likely = (one for one in attention_mistakes(declared) if _likely(one))
    others = paired_mistakes(declared)
    singles = [
        (one, _changed(probe, one)) for one in chain(likely, others, _steps(declared, probe))
    ]
    plain = remembered(partial(attended, declared))
    for (one, of_one), (two, of_two) in in_pairs(singles):
        assert one.before is not None
        assert two.before is not None
        if of_one and of_two and not of_one & of_two:
            yield both(one, two, partial(_predicted, plain, one.before, two.before))


def _likely(one: Mistake) -> bool:
    return one.before is not None and not any(words in one.message for words in _RARE)


def _steps(declared: Any, probe: Attended) -> Iterator[Mistake]:
    """Yield the changed steps of the formula of the logits."""
    of = attention_of(declared)
    steps = None if of.encoding is None or of.values != "plain" else steps_of(probe.repeated())
    for code, message, remedy, change in likely_changes(steps) if steps is not None else ():
        logits = partial(_summed, parts_by_steps(change))
        before = partial(_with, logits)
        yield Mistake(code, message, lambda facts: None, remedy, before=before)


def _summed(parts: Callable[[Scored], Any], one: Scored) -> Truth:
    return summed(parts(one))


def _with(logits: Callable[[Scored], Truth], call: Attended) -> Attended:
    return call.replace(logits=logits)


def _changed(call: Attended, one: Mistake) -> frozenset[str]:
    """Return the names of the steps that a mistake changes; none if it is impossible in the call.

    The steps of the logits have names of their own.
    """
    assert one.before is not None
    other = possible(one.before, call)
    if other is None:
        return frozenset()
    found = {f.name for f in fields(call) if getattr(call, f.name) is not getattr(other, f.name)}
    if "scored" in found:
        found.remove("scored")
        a, b = call.scored, other.scored
        found |= {f.name for f in fields(a) if getattr(a, f.name) is not getattr(b, f.name)}
    return frozenset(found)


def _predicted(
    plain: Callable[..., Attended],
    one: Callable[[Attended], Attended],
    two: Callable[[Attended], Attended],
    call: Any,
) -> Truth | None:
    def output(*arguments: Any) -> Truth:
        truth = two(one(plain(*arguments))).truth()
        if truth is None:
            raise ValueError("no such logits")
        return truth

    return call.returned_by(output)  # type: ignore[no-any-return]
