"""Judge ALiBi slopes by their values and properties."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from posenc_ref import ALiBi
from posenc_ref.conformance.harness.probes import HEADS, MORE_HEADS
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import exactly

from .cases import Answer, Property, Ruler, ask, fresh, judge_properties
from .diagnose_slopes import diagnose_slopes
from .properties import equal_values

Slopes = dict[int, np.ndarray]


def judge_slopes(run: Run) -> None:
    """Judge ``fn(num_heads)``: its values, properties and state."""
    declared: ALiBi = run.encoding
    run.report.required = ("values", "replay", POSITIVE.name)
    first = ask(run.driver, declared.num_heads, shape=(declared.num_heads,))
    if first.values is None:
        run.add(first.code, f"fn({declared.num_heads}): {first.problem}", "the first call")
        return
    got = {declared.num_heads: first.values}
    for n in (*HEADS, *MORE_HEADS):
        answer = first if n == declared.num_heads else ask(run.driver, n, shape=(n,))
        if answer.values is not None:
            got[n] = answer.values
        elif answer.code == "raises":
            run.limit(f"{n} heads are refused ({answer.problem})")
        else:
            where = f"fn({declared.num_heads}) has the expected shape"
            run.add(answer.code, f"fn({n}): {answer.problem}", where)
    again = ask(run.driver, declared.num_heads, shape=(declared.num_heads,))
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
        run.explain(diagnose_slopes, {n: m for n, m in got.items() if np.isfinite(m).all()})


def _replay_slopes(run: Run, got: dict[int, np.ndarray], again: Answer, wrong: list[int]) -> None:
    """Report slopes that change after other calls, and correct ``got``.

    The first call is repeated on the same instance, and each wrong call on a new instance, whose
    slopes replace those in ``got``. Without new instances, only the first slopes are kept.
    """
    ruler = Ruler.of(run)
    n, first = next(iter(got.items()))
    run.count("replay")
    same = again.values is not None and np.array_equal(again.values, first, equal_nan=True)
    changed = again.values is None or (
        not same and ruler.differ(again.values, first, np.abs(first)).any()
    )
    for count in wrong:
        clean = None if (new := fresh(run)) is None else ask(new, count, shape=(count,)).values
        if clean is not None and not np.array_equal(clean, got[count], equal_nan=True):
            changed, got[count] = True, clean
    if changed:
        now = again.problem if again.values is None else f"now {again.values.tolist()}"
        text = f"fn({n}) changes after other calls"
        run.add("state", text, f"first {first.tolist()}, {now}", by="replay")
        if run.driver.factory is None:
            for count in [c for c in got if c != n]:
                del got[count]


def positive(slopes: Slopes, ruler: Ruler) -> Iterator[str]:
    """Report slopes that are not positive."""
    for n, m in slopes.items():
        for head in np.flatnonzero(~(m > 0)):
            yield f"{n} heads: slope {m[head]:.9g} of head {head}"


def distinct(slopes: Slopes, ruler: Ruler) -> Iterator[str]:
    """Report heads that share a slope."""
    return chain.from_iterable(equal_values(m, f"of {n} heads") for n, m in slopes.items())


def prefix(slopes: Slopes, ruler: Ruler) -> Iterator[str]:
    """Report where slopes(n) is not slopes(c) followed by every second slope of 2c heads.

    Here c is the largest power of two up to n. Also report where ``slopes(2c)[1::2]`` differs
    from ``slopes(c)``.
    """
    for n, m in slopes.items():
        c = 1 << (n.bit_length() - 1)
        pairs = [(m[:c], slopes.get(c), f"slopes({n})[:{c}] and slopes({c})")]
        if 2 * c in slopes:
            twice = slopes[2 * c]
            pairs.append((m[c:], twice[0::2][: n - c], f"slopes({n})[{c}:], slopes({2 * c})[0::2]"))
            pairs.append((m[:c], twice[1::2], f"slopes({n})[:{c}] and slopes({2 * c})[1::2]"))
        for left, right, words in pairs:
            if right is None or left.shape != right.shape:
                continue
            for h in np.flatnonzero(ruler.differ(left, right, np.abs(left) + np.abs(right))):
                yield f"{words} differ: {left[h]:.9g} and {right[h]:.9g} at {h}"


def geometric(slopes: Slopes, ruler: Ruler) -> Iterator[str]:
    """Report slopes of 2^k heads that are not a geometric series."""
    for n, m in slopes.items():
        if n & (n - 1) or n < 3:
            continue
        for h, (a, b, c) in enumerate(zip(m, m[1:], m[2:], strict=False)):
            if ruler.differ(b * b, a * c, abs(a * c) + b * b).any():
                yield f"{n} heads: {a:.9g}, {b:.9g}, {c:.9g} (from head {h}) have no common ratio"


def _change(slopes: Slopes, n: int, h: int, value: float) -> Slopes:
    changed = np.array(slopes[n], dtype=np.float64)
    changed[h] = value
    return {**slopes, n: changed}


def _increased(slopes: Slopes, ruler: Ruler, n: int, h: int) -> Slopes:
    value = float(slopes[n][h])
    return _change(slopes, n, h, value + ruler.beyond(abs(value)))


POSITIVE = Property("slopes are positive", positive, lambda s, r: _change(s, max(s), 0, -1.0))
DISTINCT = Property(
    "slopes are distinct", distinct, lambda s, r: _change(s, max(s), 0, s[max(s)][-1])
)
PREFIX = Property(
    "slopes(2n)[1::2] = slopes(n)",
    prefix,
    lambda s, r: _increased(s, r, next(n for n in s if 2 * n in s and not n & (n - 1)), 0),
)
GEOMETRIC = Property(
    "one ratio between slopes of 2^k heads",
    geometric,
    lambda s, r: _increased(s, r, max(n for n in s if not n & (n - 1)), 1),
)
