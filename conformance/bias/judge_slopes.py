"""Judge of ALiBi slopes."""

from __future__ import annotations

import numpy as np

from posenc_ref import ALiBi
from posenc_ref.conformance.harness.driver import Driver
from posenc_ref.conformance.harness.probes import HEADS, MORE_HEADS
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import exactly

from .cases import Answer, Ruler, ask, fresh, judge_properties
from .diagnose_slopes import diagnose_slopes
from .slope_properties import DISTINCT, GEOMETRIC, POSITIVE, PREFIX


def judge_slopes(run: Run) -> None:
    """Judge ``fn(num_heads)``: values, properties, and that calls do not depend on each other."""
    declared: ALiBi = run.encoding
    run.report.required = ("values", "replay", POSITIVE.name)
    first = _slopes(run, run.driver, declared.num_heads)
    if first.values is None:
        run.add(first.code, f"fn({declared.num_heads}): {first.problem}", "the first call")
        return
    got = {declared.num_heads: first.values}
    for n in (*HEADS, *MORE_HEADS):
        answer = first if n == declared.num_heads else _slopes(run, run.driver, n)
        if answer.values is not None:
            got[n] = answer.values
        elif answer.code == "raises":
            run.limit(f"{n} heads are refused ({answer.problem})")
        else:
            run.add("shape", f"fn({n}): {answer.problem}", "the declared number of heads is right")
    again = _slopes(run, run.driver, declared.num_heads)
    true = {n: exactly(ALiBi(n, max_bias=declared.max_bias).slopes()) for n in got}
    wrong = [n for n, m in got.items() if not run.judge("values", f"{n} heads", m, true[n])]
    for n, m in got.items():
        if not np.isfinite(m).all():
            run.add("nonfinite", f"slopes of {n} heads are not finite", f"{m.tolist()}")
    _replay_slopes(run, got, again, wrong)
    applicable = [POSITIVE]
    applicable += [DISTINCT] if max(got) > 1 else []
    applicable += [PREFIX] if any(2 * n in got for n in got if not n & (n - 1)) else []
    applicable += [GEOMETRIC] if any(n > 3 and not n & (n - 1) for n in got) else []
    judge_properties(run, applicable, got)
    if run.failures:
        finite = {n: m for n, m in got.items() if np.isfinite(m).all()}
        run.explain(diagnose_slopes, finite)


def _slopes(run: Run, driver: Driver, n: int) -> Answer:
    answer = ask(driver, n)
    if answer.values is not None and answer.values.shape != (n,):
        words = f"expected shape ({n},), got {answer.values.shape}"
        return Answer(None, answer.raw, "shape", words)
    return answer


def _replay_slopes(run: Run, got: dict[int, np.ndarray], again: Answer, wrong: list[int]) -> None:
    """A replay of the first call, and wrong counts on a fresh instance; ``got`` is cleaned."""
    ruler = Ruler.of(run)
    n, first = next(iter(got.items()))
    run.count("replay")
    same = again.values is not None and np.array_equal(again.values, first, equal_nan=True)
    changed = again.values is None or (
        not same and ruler.differ(again.values, first, np.abs(first)).any()
    )
    for count in wrong:
        clean = None if (new := fresh(run)) is None else _slopes(run, new, count).values
        if clean is not None and not np.array_equal(clean, got[count], equal_nan=True):
            changed, got[count] = True, clean
    if changed:
        now = again.problem if again.values is None else f"now {again.values.tolist()}"
        text = f"fn({n}) changes after other calls"
        run.add("state", text, f"first {first.tolist()}, {now}", by="replay")
        if run.driver.factory is None:
            for count in [c for c in got if c != n]:
                del got[count]
