"""Two mistakes that are made in a bias at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import Bias
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.offset_sizes import Sizes, sizes_of
from posenc_ref.conformance.diagnosis.position_mistakes import QUERIES
from posenc_ref.conformance.diagnosis.steps import Change
from posenc_ref.conformance.diagnosis.together import (
    First,
    Predict,
    Stepped,
    Together,
    after_one,
    both,
    telling,
    two_steps,
    with_factor,
    with_order,
)
from posenc_ref.conformance.diagnosis.whole_values import OF_BIAS, whole_values
from posenc_ref.conformance.harness.run import Run

from .formulas import changed, formula_of, plain_of, sizes_in, truth_of
from .mistakes import ALIGNED, other_biases

#: Returns a mistake that predicts the bias of positions (q, k) as one that predicts a call.
Of = Callable[[Mistake], Mistake]
#: Returns the code, the message, the values and the remedy of a factor on the bias.
Factor = Callable[[float], Iterator[Any]]


def two_of_bias(
    run: Run,
    calls: Sequence[JudgedCall],
    declared: Bias,
    singles: Sequence[Mistake],
    of: Of,
    offsets: Callable[[Any], np.ndarray],
    factor: Factor,
) -> Iterator[Together]:
    """Yield two mistakes of a bias; ``singles`` are the declared bias and the single mistakes.

    ``offsets`` returns query - key from the facts of a call.
    """
    one = telling(run, calls)
    yield from with_factor(run, one, singles, factor)
    yield from with_order(one, singles, -3)
    first = replace(_aligned(QUERIES[0][0]), before=lambda case: replace(case, at_end=False))
    others = [one for one in singles[1:] if one.message != first.message]
    yield from after_one([first], others)
    if formula_of(declared) is None:
        return

    truths: dict[int, Any] = {}  # by the identity of encodings, which live as long

    def predicted(
        encoding: Bias,
        *made: Change,
        sizes: Sizes = Sizes(),  # noqa: B008 (immutable)
        place: Callable[[int, int], np.ndarray] | None = None,
    ) -> Predict:
        truth = truths.setdefault(id(encoding), truth_of(encoding))
        values = changed(encoding, *made, sizes=sizes, truth=truth)

        def at(places: tuple[np.ndarray, np.ndarray]) -> Truth:
            q, k = places
            return values(q if place is None else place(q.size, k.size), k)

        return of(Mistake("", "", at)).predict

    def offset_sizes(some: Sequence[JudgedCall]) -> Sizes:
        return sizes_in(declared, sizes_of(run, some, offsets))

    fields = [
        First(Mistake(code, message, lambda facts: None, remedy), partial(predicted, other))
        for code, message, remedy, other in other_biases(declared)
    ] + [
        First(_aligned(message), partial(predicted, declared, place=place))
        for message, place in QUERIES
    ]
    plain, steps = partial(plain_of, declared), partial(predicted, declared)
    for single in singles[1:]:
        for whole in whole_values(single.predict, "the bias", "bias-scale", OF_BIAS):
            yield both(single, whole, whole.predict)
    yield from two_steps(run, calls, Stepped(plain, steps, offset_sizes), fields)


def _aligned(message: str) -> Mistake:
    """Return a mistake in the positions of queries, which predicts nothing by itself."""
    return Mistake("bias-alignment", message, lambda facts: None, ALIGNED)
