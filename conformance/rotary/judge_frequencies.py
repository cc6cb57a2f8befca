"""Judge rotary frequencies, including those that depend on the length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.plural import ranges
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import exactly
from posenc_ref.conformance.phases import factor_mistakes
from posenc_ref.conformance.phases.declaration import formula, live, schedule_of
from posenc_ref.conformance.phases.explain import explain
from posenc_ref.conformance.phases.frequencies import agree, report

from . import diagnose_length
from .judge_length import lengths_of


def judge(run: Run) -> None:
    """Judge ``fn() -> (d/2,)``, or ``(frequencies, attention_factor)``.

    If the frequencies depend on the length, judge ``fn(seq_len)`` for the lengths of
    :func:`lengths_of`.
    """
    encoding = run.encoding
    assert isinstance(encoding, Rotary)
    run.report.required = ("values", "state")
    by_length = encoding.depends_on_length
    lengths = [1, *lengths_of(encoding)] if by_length else [None]
    seen: dict[int | None, np.ndarray] = {}
    factors: dict[int | None, float] = {}
    for n in lengths:
        found = _called(run, encoding, n)
        if found is None:
            return
        seen[n], factor = found
        at = f" at length {n}" if by_length else ""
        run.judge("values", f"frequencies{at}", seen[n], exactly(encoding.frequencies(n)))
        m = encoding.attention_factor(n)
        exact = exactly(np.asarray(m))
        if factor is not None and not run.judge("values", f"factor{at}", factor, exact):
            factors[n] = float(np.ravel(factor)[0])
    evidence = run.ledger.evidence
    # The calls differ in their length, which says more than their number.
    evidence.records[:] = [replace(record, call=None) for record in evidence.records]
    if factors:
        _wrong_factor(run, encoding, factors, len(lengths))
    first = seen[lengths[0]]
    again = _called(run, encoding, lengths[0])
    if again is None:
        return
    run.count("state")
    if not np.array_equal(again[0], first):
        text, how = "the second call gives other frequencies", "called twice"
        if by_length:
            text = f"fn(1) gives other frequencies after fn({lengths[-1]})"
            how = "fn(1) was called before and after all other lengths"
        run.add("state", text, how)
    of = f", at {len(seen)} lengths" if by_length else f" {first[0]:.6g} .. {first[-1]:.6g}"
    run.report.measured = f"{first.size} frequencies{of}"
    if not run.failures:
        return
    if by_length:
        if "state" in run.report.codes:
            return
        same, every = np.zeros(first.size), {n: w for n, w in seen.items() if n is not None}
        if diagnose_length.explain_frequencies(
            run, encoding, every, lambda got, expected: bool(agree(got, expected, same).all())
        ):
            return
    _explain_frequencies(run, encoding, first)
    wrong = [n for n, w in seen.items() if n and not run.fits(w, exactly(encoding.frequencies(n)))]
    if wrong and run.report.codes == ["attention-factor"]:
        text = f"the frequencies are wrong at lengths {', '.join(map(str, wrong))}, and no known "
        where = f"length {wrong[0]}: frequencies {seen[wrong[0]][:3].tolist()}, ..."
        run.add("scaling-formula", f"{text}mistake gives them", where, remedy=formula(encoding))


def _wrong_factor(run: Run, encoding: Rotary, wrong: dict[int | None, float], lengths: int) -> None:
    """Report wrong attention factors, by the length of the call."""
    n, factor = next(iter(wrong.items()))
    m = encoding.attention_factor(n)
    at = f" at length {n}" if n is not None else ""
    where = ""
    if n is not None and len(wrong) < lengths:
        some = list(wrong)
        where = f"; wrong at lengths {', '.join(map(str, some[:6]))}, right at the others"
    known = factor_mistakes.named(encoding, factor, n, others=len(wrong) < lengths)
    run.add(
        "attention-factor",
        f"the factor{at} is {factor:.9g}, declared {m:.9g}{f': {known}' if known else ''}{where}",
        f"returned by fn({'seq_len' * (n is not None)})",
        remedy=factor_mistakes.remedy(encoding, n),
        values={"declared": m, "measured": factor},
    )


def _called(
    run: Run, encoding: Rotary, n: int | None
) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Return frequencies and attention factor at length ``n``.

    If the call fails, report a finding and return None.
    """
    arguments = () if n is None else (n,)
    try:
        theta, factor = _frequencies(run, *arguments)
    except Refused as error:
        run.add("raises", f"fn({'' if n is None else n}) raises", str(error))
        return None
    except Malformed as error:
        run.add(error.code, str(error))
        return None
    declared = encoding.frequencies(n)
    if theta.shape != declared.shape:
        _of_another_shape(run, encoding, theta)
        return None
    if not run.floats_only():
        return None
    if not np.isfinite(theta).all():
        k = int(np.argmax(~np.isfinite(theta)))
        run.add("nonfinite", f"frequency {k} is {theta[k]}", f"declared {declared[k]:.9g}")
        return None
    return theta, factor


def _of_another_shape(run: Run, encoding: Rotary, theta: np.ndarray) -> None:
    """Report a wrong number of frequencies, such as that of the whole head."""
    declared = encoding.frequencies().shape
    if theta.shape != (encoding.head_dim // 2,):
        run.add("shape", f"expected {declared} frequencies, got {theta.shape}")
        return
    run.add(
        "rotary-dim",
        f"there are {theta.size} frequencies, those of the whole head of {encoding.head_dim} "
        f"channels; {declared[0]} were declared",
        "the number of frequencies",
        by="shape",
        equivalent=("shape",),
        remedy=f"Compute {declared[0]} frequencies. {formula(encoding)}",
    )


def _explain_frequencies(run: Run, encoding: Rotary, theta: np.ndarray) -> None:
    declared = encoding.frequencies()
    still = declared == 0
    if (theta[still] != 0).any():
        k = int(np.flatnonzero(still & (theta != 0))[0])
        turning, some = (ranges(np.flatnonzero(x).tolist()) for x in (theta, ~still))
        wanted = f"pairs {some}" if some else "none"
        text = f"pairs {turning} turn, declared {wanted}: the others have frequency 0"
        evidence = f"frequency {k} is {theta[k]:.9g}, declared 0"
        run.add("proportional", text, evidence, remedy=stand_still(encoding))
        return
    theta, declared = (live(encoding, (t,))[0] for t in (theta, declared))
    k = int(np.argmax(np.abs(theta / declared - 1)))
    schedule = schedule_of(encoding)
    found = explain(theta, np.zeros(theta.size), schedule)
    text = f"frequency {k} is {theta[k]:.9g}, declared {declared[k]:.9g}"
    report(run, found, theta, schedule, text)


def stand_still(encoding: Rotary) -> str:
    """Return which pairs do not turn, as an instruction."""
    still = np.flatnonzero(encoding.frequencies() == 0)
    others = encoding.frequencies().size - still.size
    return f"Set the frequencies of pairs {ranges(still.tolist())} to 0 (cos 1, sin 0): " + (
        f"only the other {others} pairs turn." if others else "no pair turns."
    )


def _frequencies(run: Run, *args: int) -> tuple[np.ndarray, np.ndarray | None]:
    result = run.driver.call(*args)
    if isinstance(result, tuple):
        if len(result) != 2:
            raise Malformed(f"expected frequencies, or (frequencies, factor), got {len(result)}")
        return run.driver.array(result[0]), run.driver.array(result[1])
    return run.driver.array(result), None
