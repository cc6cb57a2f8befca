"""The one judge of plain functions: ``posenc_ref``'s own function of that name is the truth."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance.diagnosis import match as suspects
from posenc_ref.conformance.diagnosis.match import Seen, Suspect
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Malformed, Refused, Subject
from posenc_ref.conformance.harness.run import Run

from .function import Mistake, Plain, Probe
from .ids import ID_ROWS
from .layouts import LAYOUT_ROWS
from .models import MODEL_ROWS
from .positions import POSITION_ROWS
from .relative import RELATIVE_ROWS
from .slopes import SLOPE_ROWS

#: Every row that this judge is for.
ROWS: dict[str, Plain] = {
    **LAYOUT_ROWS,
    **RELATIVE_ROWS,
    **POSITION_ROWS,
    **ID_ROWS,
    **MODEL_ROWS,
    **SLOPE_ROWS,
}


def judge(run: Run) -> None:
    """Every probe against our own function; then replays, and the mistakes that would fit."""
    row = ROWS[run.report.surface]
    run.report.required = ("values", "state")
    own = run.surface.own(run.encoding, "float64")
    seen: list[Seen] = []
    malformed: list[tuple[str, str]] = []
    for probe in row.probes(run.encoding, run.settings.seed, run.subject.dtype):
        arguments = tuple(_rounded(run, a) for a in probe.arguments)
        if run.settings.max_position is not None:
            arguments = row.within(arguments, run.settings.max_position)
        told = np.asarray(own(*arguments))
        try:
            actual = _called(run, run.subject, row, arguments, told.shape)
        except Refused as error:
            if not probe.required:
                run.limit(f"{probe.name}: refused ({error})")
                continue
            run.add("raises", f"{probe.name}: {_shown(run, arguments)}", str(error))
            return
        except Malformed as error:
            malformed.append((str(error), f"{probe.name}: {_shown(run, arguments)}"))
            if run.failures and not probe.required:  # wrong in what fits, and then it ends
                run.limit(f"{probe.name}: {error}")
                continue
            run.add("shape", *malformed[0])
            return
        if not _kind(run, row):
            return
        one = _seen(run, row, probe, arguments, told, actual)
        seen.append(suspects.judge_seen(run, "values", one))
    if seen:
        _state(run, row, seen)
    if run.failures and not run.report.codes:
        _explain(run, row, seen, malformed)


def _rounded(run: Run, argument: Any) -> Any:
    """Floating arrays as the function will see them."""
    if isinstance(argument, np.ndarray) and argument.dtype.kind == "f":
        return run.subject.rounded(argument)
    return argument


def _called(
    run: Run, subject: Subject, row: Plain, arguments: tuple[Any, ...], shape: tuple[int, ...]
) -> np.ndarray:
    result = subject.call(*arguments)
    if isinstance(result, tuple):
        result = list(result)
    actual = np.asarray(subject.array(result))
    if actual.shape != shape:
        raise Malformed(f"expected shape {shape}, got {actual.shape}")
    return np.array(actual, dtype=np.float64)


def _kind(run: Run, row: Plain) -> bool:
    """Whether integers, or floating numbers, came out as they should."""
    if not row.integers:
        return run.floats_only()
    for name in sorted(run.subject.out_dtypes & set(ROUNDOFF)):
        run.add("dtype", f"the result has dtype {name}", "an integer dtype is needed")
        return False
    return True


def _seen(
    run: Run,
    row: Plain,
    probe: Probe,
    arguments: tuple[Any, ...],
    told: np.ndarray,
    actual: np.ndarray,
) -> Seen:
    truth = row.truth(run.encoding, arguments, row.meaning(told).astype(np.float64))
    if not (truth.terms.any() or truth.angle.any()) and not row.integers:  # copied, so rounded
        truth = row.truth(run.encoding, arguments, run.subject.rounded(truth.value))
    case = f"{probe.name}: {_shown(run, arguments)}"
    return Seen(case, row.meaning(actual), truth, arguments, row.judged(arguments))


def _shown(run: Run, arguments: tuple[Any, ...]) -> str:
    """The arguments, arrays in full where they are short."""
    parts = []
    for name, a in zip(run.surface.arguments, arguments, strict=True):
        short = not isinstance(a, np.ndarray) or (a.size <= 16 and a.dtype.kind != "f")
        said = a.tolist() if isinstance(a, np.ndarray) else a
        parts.append(f"{name} = {said}" if short else f"{name} of shape {np.shape(a)}")
    return ", ".join(parts) or "no arguments"


def _state(run: Run, row: Plain, seen: list[Seen]) -> None:
    """The first calls once more, and a result that is kept; wrong ones on a fresh instance."""
    for one in seen[:3]:
        _replay(run, row, one)
    first = seen[0].facts
    state.kept_result(
        run,
        lambda: _listed(run.subject.call(*first)),
        lambda: _listed(run.subject.call(*seen[-1].facts)),
    )
    if run.subject.factory is None or run.report.codes:
        return
    for one in suspects.failed(run, seen):
        try:
            clean = _called(run, run.subject.fresh(), row, one.facts, one.actual.shape)
        except (Refused, Malformed):
            continue
        if suspects.fits(run, _again(row, one, clean), one.truth):
            run.add("state", f"{one.case} is right on a fresh instance only", "a fresh instance")
            return


def _listed(result: Any) -> Any:
    return list(result) if isinstance(result, tuple) else result


def _again(row: Plain, one: Seen, actual: np.ndarray) -> Seen:
    return Seen(one.case, row.meaning(actual), one.truth, one.facts, one.mask)


def _replay(run: Run, row: Plain, one: Seen) -> None:
    run.count("state")
    try:
        again = row.meaning(_called(run, run.subject, row, one.facts, one.actual.shape))
        same = np.array_equal(again, one.actual, equal_nan=True)
        now = "other values"
    except (Refused, Malformed) as error:
        same, now = False, str(error)
    if not same:
        run.add(
            "state", "the same call gives something else after other calls", f"{one.case}: {now}"
        )


def _explain(run: Run, row: Plain, seen: list[Seen], malformed: list[tuple[str, str]]) -> None:
    wrong = suspects.failed(run, seen)
    if suspects.name(run, seen, _suspects(run, row, wrong)) and run.report.codes:
        return
    if wrong and not run.report.codes and row.closer is not None:
        row.closer(run, seen)
    if malformed and not run.report.codes:
        run.add("shape", *malformed[0])
    if wrong and not run.report.codes:
        one = wrong[0]
        score = run.scores(one.actual, one.truth)
        score = score if one.mask is None else np.where(one.mask, score, 0.0)
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(score)), score.shape))
        run.add(
            row.otherwise,
            f"{len(wrong)} of {len(seen)} calls come out wrong, in no way that is known",
            f"{one.case}: {one.actual[at]:.9g} at index {at}, declared {one.truth.value[at]:.9g}",
        )


def _suspects(run: Run, row: Plain, wrong: list[Seen]) -> Iterator[Suspect]:
    suggested = row.suggested(run.encoding, wrong[0].facts, wrong[0].actual) if wrong else ()
    for mistake in chain(row.mistakes(run.encoding), suggested):
        yield Suspect(
            mistake.code, mistake.message, _predicts(run, row, mistake), remedy=mistake.remedy
        )


def _predicts(run: Run, row: Plain, mistake: Mistake) -> Any:
    def predict(arguments: tuple[Any, ...]) -> Truth | None:
        try:
            value = mistake.function(*arguments)
            if isinstance(value, Truth):
                return value
            value = np.asarray(value, dtype=np.float64)
        except (ValueError, IndexError, ArithmeticError):
            return None
        return row.truth(run.encoding, arguments, row.meaning(value))

    return predict
