"""The formulas of plain functions in steps: every changed step, and every two of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.offset_sizes import Sizes
from posenc_ref.conformance.diagnosis.steps import Change, Steps, changes, computed, plain_steps
from posenc_ref.conformance.diagnosis.together import Predict, Stepped, Together, two_steps
from posenc_ref.conformance.harness.run import Run

from .convolution import rows as convolution
from .formulas import positions, relative

#: Returns the result of a function from steps, the encoding, and the arguments of a call.
Formula = Callable[..., np.ndarray]


def step_mistakes(run: Run, calls: Sequence[JudgedCall]) -> Iterator[Mistake]:
    """Yield the mistake of every changed step of the function's formula, if it is written here."""
    formula = FORMULAS.get(run.report.surface)
    if formula is not None and calls:
        plain = _plain(run, formula, calls[0].facts.arguments)
        for code, message, remedy, change in changes(plain):
            yield Mistake(code, message, _predicted(run, formula, change), remedy)


def two_of_function(run: Run, calls: Sequence[JudgedCall]) -> Iterator[Together]:
    """Yield every two changed steps of the function's formula."""
    formula = FORMULAS.get(run.report.surface)
    if formula is not None and calls:
        first = calls[0].facts.arguments
        of = Stepped(
            lambda sizes: _plain(run, formula, first),
            lambda *made, sizes=None: _predicted(run, formula, *made),
            lambda some: Sizes(),
        )
        yield from two_steps(run, calls, of)


def _plain(run: Run, formula: Formula, arguments: tuple[Any, ...]) -> Steps:
    return plain_steps(lambda s: formula(s, run.encoding, *arguments))


def _predicted(run: Run, formula: Formula, *made: Change) -> Predict:
    def function(*arguments: Any) -> np.ndarray:
        return np.asarray(computed(lambda s: formula(s, run.encoding, *arguments), *made))

    def predict(call: Any) -> Truth | None:
        return call.returned_by(function)  # type: ignore[no-any-return]

    return predict


#: The formula of every surface that has one here.
FORMULAS: dict[str, Formula] = {
    "position_ids": positions.position_ids,
    "packed": positions.packed,
    "decode_positions": positions.decode_positions,
    "shard_positions": positions.shard_positions,
    "ids_from_tokens": positions.ids_from_tokens,
    "relative_index": relative.relative_index,
    "relative_shift": relative.relative_shift,
    "relative_scores": relative.relative_scores,
    "convolve": convolution.in_steps,
    "convolve_grid": convolution.in_steps,
}
