"""Judge plain functions against the ``posenc_ref`` functions of the same name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.diagnosis.coarse import report_narrow
from posenc_ref.conformance.diagnosis.match import (
    failed,
    fits,
    judge_call,
    likely,
    match,
    report_in_part,
    worst,
)
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS
from posenc_ref.conformance.diagnosis.together import match_together
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.crossing import Row, cross
from posenc_ref.conformance.harness.driver import Driver, Malformed, Refused
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.rotary import judge as rotation

from .convolution.rows import CONVOLUTION_ROWS
from .evicted import EVICTED_ROWS
from .function import NO_CAUSE, Plain, PlainCall
from .heads import BY_HEAD, by_head
from .in_steps import step_mistakes, two_of_function
from .kept_results import kept_results
from .layouts import LAYOUT_ROWS
from .models.layers import LAYERS
from .models.rank_slopes import RANK_SLOPES
from .models.rows import ROWS as TABLE_ROWS
from .models.scale import SCALE
from .position_rules import POSITION_RULE_ROWS
from .positions import POSITION_ROWS
from .relative import RELATIVE_ROWS
from .rules import name_rule

#: The plain function of every surface.
ROWS: dict[str, Plain] = {
    **LAYOUT_ROWS, **RELATIVE_ROWS, **POSITION_ROWS,
    "rows": TABLE_ROWS, "layers": LAYERS, "softmax_scale": SCALE, "rank_slopes": RANK_SLOPES,
    **POSITION_RULE_ROWS, **EVICTED_ROWS, **CONVOLUTION_ROWS,
}  # fmt: skip

#: The arguments of functions that are called in the declared tensor layout.
_ROTATED = ("x", "positions")


def judge_apply(run: Run) -> None:
    """Judge ``apply``: as a plain function if heads differ, else as a rotation."""
    if by_head(run.encoding):
        judge(run, BY_HEAD)
    else:
        rotation.judge(run)


def judge(run: Run, row: Plain | None = None) -> list[JudgedCall]:
    """Judge the calls and the state of a plain function, then diagnose failures.

    ``row`` says how; by default, that of the surface does. Return the judged calls.
    """
    row = row or ROWS[run.report.surface]
    whole = row.whole(run.encoding)
    run.report.required = ("values", "state")
    own = run.surface.own(run.encoding, "float64")
    seen: list[JudgedCall] = []
    broken: list[tuple[str, str, str, str]] = []  # what fails: the call, and its finding
    limits, made = len(run.report.limits), list[tuple[Any, ...]]()
    results: list[tuple[tuple[Any, ...], np.ndarray]] = []
    for probe in row.probes(run.encoding, run.settings.seed, run.driver.dtype):
        arguments = tuple(_rounded(run, a) for a in probe.arguments)
        if run.settings.max_position is not None:
            arguments = row.within(arguments, run.settings.max_position)
        expected = np.asarray(own(*arguments))
        call = PlainCall(row, run.encoding, arguments, tuple(made))
        where = _shown(run, probe.name, arguments)
        made.append(arguments)
        try:
            result = _result(run.driver, call, expected.shape)
        except (Refused, Malformed) as error:
            if isinstance(error, Malformed):
                broken.append((probe.name, error.code, str(error), where))
            elif probe.required:
                broken.append((probe.name, "raises", where, str(error)))
            else:
                run.limit(f"{probe.name}: refused ({error})")
                continue
            if not seen:
                break
            continue  # the other calls may show the cause
        wrong = sorted(run.driver.out_dtypes & set(ROUNDOFF)) if whole else []
        if wrong:
            remedy = "Return integers: convert the result to int64, once it is whole numbers."
            text, needed = f"the result has dtype {wrong[0]}", "an integer dtype is needed"
            run.add("dtype", text, needed, remedy=remedy)
        if wrong or not (whole or run.floats_only()):
            return seen
        truth = call.truth(expected)
        # Copied values are only rounded.
        if not (whole or truth.terms.any() or truth.angle.any()):
            truth = row.truth(run.encoding, arguments, run.driver.rounded(truth.value))
        results.append((arguments, result))
        one = JudgedCall(where, row.meaning(result), truth, call, row.judged(arguments))
        seen.append(judge_call(run, "values", one))
    if seen and not broken:
        seen += _crossed(run, row, own, made, few=len(run.report.limits) > limits)
    if seen:
        _state(run, seen)
    if run.failures and not run.report.codes:
        _explain(run, row, seen, broken=bool(broken))
    for name, code, text, where in broken:
        if not run.report.codes:
            run.add(code, text, where)
        elif code not in run.report.codes:
            run.limit(f"{name}: " + (f"refused ({where})" if code == "raises" else text))
    if row.remark is not None and not (run.failures or run.report.codes):
        row.remark(run, results)
    return seen


def _crossed(
    run: Run, row: Plain, own: Callable[..., Any], made: list[tuple[Any, ...]], *, few: bool
) -> list[JudgedCall]:
    """Judge calls in which every two levels of the function's factors meet.

    ``made`` are the arguments of the calls so far; ``few``: the function has refused a call, so
    optional factors keep their first level.
    """
    if row.crossing is None:
        return []
    factors, arguments_of = row.crossing
    crossing = factors()
    if few:
        levels = {n: v[:1] if n in crossing.optional else v for n, v in crossing.levels.items()}
        crossing = replace(crossing, levels=levels)

    def judged(levels: Row) -> JudgedCall:
        arguments = arguments_of(levels)
        expected = np.asarray(own(*arguments))
        call = PlainCall(row, run.encoding, arguments, tuple(made))
        made.append(arguments)
        actual = _called(run.driver, call, expected.shape)
        where = _shown(run, said(levels), arguments)
        truth, mask = call.truth(expected), row.judged(arguments)
        return judge_call(run, "values", JudgedCall(where, actual, truth, call, mask))

    def said(levels: Row) -> str:
        return ", ".join(f"{name} {value}" for name, value in levels.items())

    return cross(run, crossing, judged, said)


def _rounded(run: Run, argument: Any) -> Any:
    """Return a floating array rounded to the function's dtype; other arguments unchanged."""
    floating = isinstance(argument, np.ndarray) and argument.dtype.kind == "f"
    return run.driver.rounded(argument) if floating else argument


def _called(driver: Driver, call: PlainCall, shape: tuple[int, ...]) -> np.ndarray:
    """Call the function and return the part of its result to compare."""
    return call.row.meaning(_result(driver, call, shape))


def _result(driver: Driver, call: PlainCall, shape: tuple[int, ...]) -> np.ndarray:
    """Call the function and return its whole result."""
    if driver.names == _ROTATED:
        return np.asarray(driver.apply(*call.arguments))
    actual = np.asarray(driver.array(_listed(driver.call(*call.arguments))))
    if actual.shape != shape:
        hint = call.row.misshapen(call.encoding, shape, actual.shape)
        raise Malformed(f"expected shape {shape}, got {actual.shape}{hint}")
    return np.array(actual, dtype=np.float64)


def _listed(result: Any) -> Any:
    return list(result) if isinstance(result, tuple) else result


def _shown(run: Run, name: str, arguments: tuple[Any, ...]) -> str:
    """Describe a call and its arguments; long arrays only by their shape."""
    parts = []
    for argument, a in zip(run.surface.arguments, arguments, strict=False):
        short = not isinstance(a, np.ndarray) or (a.size <= 16 and a.dtype.kind != "f")
        said = a.tolist() if isinstance(a, np.ndarray) else a
        parts.append(f"{argument} = {said}" if short else f"{argument} of shape {np.shape(a)}")
    return f"{name}: {', '.join(parts) or 'no arguments'}"


def _state(run: Run, seen: list[JudgedCall]) -> None:
    """Judge state: repeat calls, see if calls change earlier results, retry on fresh instances."""
    for one in seen[:3]:
        try:
            again = partial(_called, run.driver, one.facts, one.actual.shape)
            state.replay(run, again, one.actual, one.case, one.truth.value)
        except (Refused, Malformed) as error:
            run.add("state", "a repeated call fails after other calls", f"{one.case}: {error}")
    first, last = _told_apart(seen)
    if run.driver.names == _ROTATED:
        first, last = run.driver.arguments(*first), run.driver.arguments(*last)
    with suppress(Refused):  # numbers of the opposite sign
        state.kept_result(run, *(lambda a=a: _listed(run.driver.call(*a)) for a in (first, last)))
    if run.driver.factory is None or run.report.codes:
        return
    for one in failed(run, seen):
        try:
            clean = _called(run.driver.fresh(), one.facts, one.actual.shape)
        except (Refused, Malformed):
            continue
        if fits(run, replace(one, actual=clean), one.truth):
            run.add("state", f"{one.case} is right on a fresh instance only", "a fresh instance")
            return


def _told_apart(seen: list[JudgedCall]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the arguments of two calls with different results of one shape, if there are such.

    A buffer that is kept for each shape is overwritten by such a call only.
    """
    for n, one in enumerate(seen):
        for other in seen[n + 1 :]:
            if one.actual.shape == other.actual.shape and not np.array_equal(
                one.actual, other.actual
            ):
                return one.facts.arguments, other.facts.arguments
    first = seen[0].facts.arguments
    for n, a in enumerate(first):
        if isinstance(a, np.ndarray) and a.dtype.kind == "f":
            return first, (*first[:n], -a, *first[n + 1 :])
    return first, seen[-1].facts.arguments


def _explain(run: Run, row: Plain, calls: list[JudgedCall], *, broken: bool) -> None:
    wrong = failed(run, calls)
    one = wrong[0] if wrong else None
    suggested = row.suggested(run.encoding, one.facts.arguments, one.actual) if one else ()
    remedy = row.remedy(run.encoding)
    known = [
        one if one.remedy else replace(one, remedy=remedy)
        for one in chain(row.mistakes(run.encoding), suggested)
    ] + list(kept_results(run.surface.own(run.encoding, "float64")))
    rarer = likely(run, calls, chain(row.rarer(run.encoding), step_mistakes(run, calls)))
    every = [*known, *rarer]
    # A rule that predicts every result is better than a known mistake that explains some.
    if match(run, calls, every, parts=False, whole=row.integers) and run.report.codes:
        return
    if one and not run.report.codes and name_rule(run, row, calls):
        return
    if one and not run.report.codes and report_in_part(run, calls, known):
        return
    pairs = chain(row.together(run.encoding), two_of_function(run, calls))
    if one and not run.report.codes and match_together(run, calls, pairs):
        return
    if one and not run.report.codes and row.integers:
        match(run, calls, every, parts=False)
    if one and not run.report.codes and not row.integers and run.dtype not in SIGNIFICANT_BITS:
        report_narrow(run, calls, "the result")
    if one and not run.report.codes and row.closer is not None:
        row.closer(run, calls)
    if broken:
        return
    if one and not run.report.codes:
        at = worst(run, one)
        run.add(
            row.otherwise,
            plural(len(wrong), "result is", "results are", sum(c.actual.size > 0 for c in calls))
            + f" wrong, and {NO_CAUSE} {'it' if len(wrong) == 1 else 'them'}"
            + run.where(extent=True),
            f"{one.case}: {one.actual[at]:.9g} at index {at}, declared {one.truth.value[at]:.9g}",
            remedy=remedy,
        )
