"""The judge of rotary frequencies, those that depend on the length included."""

from __future__ import annotations

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import exactly
from posenc_ref.conformance.phases.declaration import live, schedule_of
from posenc_ref.conformance.phases.frequencies import agree, explain, unfilled

from . import diagnose_length
from .judge_length import lengths_of


def judge(run: Run) -> None:
    """Judge ``fn() -> (d/2,)``, or ``(frequencies, attention_factor)``.

    Where they depend on the length, ``fn(seq_len)``, for lengths around every change.
    """
    encoding = run.encoding
    assert isinstance(encoding, Rotary)
    run.report.required = ("values", "state")
    if encoding.depends_on_length:
        _frequencies_by_length(run, encoding)
        return
    try:
        got = _frequencies(run)
    except Refused as error:
        run.add("raises", "fn() raises", str(error))
        return
    except Malformed as error:
        run.add("shape", str(error))
        return
    theta, factor = got
    declared = encoding.frequencies()
    if theta.shape != declared.shape:
        _of_another_shape(run, encoding, theta)
        return
    if not run.floats_only():
        return
    if not np.isfinite(theta).all():
        k = int(np.argmax(~np.isfinite(theta)))
        run.add("nonfinite", f"frequency {k} is {theta[k]}", f"declared {declared[k]:.9g}")
        return
    run.judge("values", "frequencies", theta, exactly(declared))
    m = encoding.attention_factor()
    if factor is not None and not run.judge("values", "factor", factor, exactly(np.asarray(m))):
        run.add("attention-factor", f"the factor is {factor}, declared {m:.9g}", "returned by fn()")
    again, _ = _frequencies(run)
    run.count("state")
    if not np.array_equal(theta, again):
        run.add("state", "the second call gives other frequencies", "called twice")
    run.report.measured = f"{theta.size} frequencies {theta[0]:.6g} .. {theta[-1]:.6g}"
    if run.failures:
        _explain_frequencies(run, encoding, theta)


def _of_another_shape(run: Run, encoding: Rotary, theta: np.ndarray) -> None:
    """More or fewer frequencies than declared: those of the whole head, if they are as many."""
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
    )


def _explain_frequencies(run: Run, encoding: Rotary, theta: np.ndarray) -> None:
    declared = encoding.frequencies()
    still = declared == 0
    if (theta[still] != 0).any():
        k = int(np.flatnonzero(still & (theta != 0))[0])
        text = f"pair {k} turns, declared not to"
        run.add("proportional", text, f"frequency {k} is {theta[k]:.9g}, declared 0")
        return
    theta, declared = (live(encoding, (t,))[0] for t in (theta, declared))
    k = int(np.argmax(np.abs(theta / declared - 1)))
    for found in explain(theta, np.zeros(theta.size), schedule_of(encoding)):
        e = unfilled(found, theta, declared)
        run.add(
            e.code,
            e.message,
            f"frequency {k} is {theta[k]:.9g}, declared {declared[k]:.9g}",
            values=e.values,
            equivalent=e.equivalent,
        )


def _frequencies_by_length(run: Run, encoding: Rotary) -> None:
    """``fn(seq_len)`` at lengths around every change, short ones first and the first one again."""
    seen: dict[int, np.ndarray] = {}
    lengths = [1, *lengths_of(encoding)]
    for n in (*lengths, lengths[0]):
        try:
            theta, factor = _frequencies(run, n)
        except Refused as error:
            run.add("raises", f"fn({n}) raises", str(error))
            return
        except Malformed as error:
            run.add("shape", str(error))
            return
        declared = encoding.frequencies(n)
        if theta.shape != declared.shape:
            run.add("shape", f"expected {declared.shape} frequencies, got {theta.shape}")
            return
        if not run.floats_only():
            return
        if n in seen:
            run.count("state")
            if not np.array_equal(theta, seen[n]):
                text = f"fn({n}) gives other frequencies after fn({lengths[-1]})"
                run.add("state", text, "the first length once more after all others")
            continue
        seen[n] = theta
        run.judge("values", f"frequencies at length {n}", theta, exactly(declared))
        m = encoding.attention_factor(n)
        exact = exactly(np.asarray(m))
        if factor is not None and not run.judge("values", f"factor at length {n}", factor, exact):
            text = f"the factor at length {n} is {factor}, declared {m:.9g}"
            run.add("attention-factor", text, "returned by fn(seq_len)")
    run.report.measured = f"{seen[1].size} frequencies, at {len(seen)} lengths"
    if run.report.codes or not run.failures:
        return
    same = np.zeros(seen[1].size)
    if diagnose_length.explain_frequencies(
        run, encoding, seen, lambda got, told: bool(agree(got, told, same).all())
    ):
        return
    _explain_frequencies(run, encoding, seen[1])


def _frequencies(run: Run, *args: int) -> tuple[np.ndarray, np.ndarray | None]:
    result = run.subject.call(*args)
    if isinstance(result, tuple):
        if len(result) != 2:
            raise Malformed(f"expected frequencies, or (frequencies, factor), got {len(result)}")
        return run.subject.array(result[0]), run.subject.array(result[1])
    return run.subject.array(result), None
