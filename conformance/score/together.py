"""Two mistakes that are made in logits at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.offset_sizes import Sizes, sizes_of
from posenc_ref.conformance.diagnosis.scored import failed
from posenc_ref.conformance.diagnosis.steps import Change
from posenc_ref.conformance.diagnosis.together import (
    First,
    Predict,
    Stepped,
    Together,
    after_one,
    likely_changes,
    two_steps,
)
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.scores import Scored

from .changed import changed
from .formulas import parts_by_steps, steps_of


def two_of_scores(
    run: Run, calls: Sequence[JudgedCall], known: Iterable[Mistake]
) -> Iterator[Together]:
    """Yield two mistakes of logits; ``known`` are the single ones that are no changed steps."""
    first: Scored = calls[0].facts
    singles = [one for one in known if one.code]
    if steps_of(first) is not None:
        wrong = failed(run, calls)
        for code, message, remedy, change in likely_changes(_plain(first, Sizes())):
            step = changed(code, message, parts_by_steps(change), remedy)
            assert step.fit is not None
            together = step.fit(run, wrong)
            if len(together) > 1:
                yield together
        offsets = partial(sizes_of, run, offsets=_offsets)
        of = Stepped(partial(_plain, first), _predicted, offsets)
        others = [First(one, partial(_predicted, before=one.before))
                  for one in singles if one.before is not None]  # fmt: skip
        yield from two_steps(run, calls, of, others)
    yield from after_one(singles, singles)


def _plain(first: Scored, sizes: Sizes) -> Any:
    return steps_of(first, sizes)


def _predicted(
    *made: Change,
    sizes: Sizes = Sizes(),  # noqa: B008 (immutable)
    before: Callable[[Scored], Scored] = lambda call: call,
) -> Predict:
    parts = parts_by_steps(*made, sizes=sizes)

    def predict(call: Scored) -> Truth:
        return call.total(parts(before(call)), {})

    return predict


def _offsets(call: Scored) -> np.ndarray:
    q_at, k_at = call.grid
    return np.asarray(q_at - k_at)
