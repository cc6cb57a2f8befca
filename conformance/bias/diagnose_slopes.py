"""Diagnose wrong ALiBi slopes: find the rule that the measured slopes follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import ALiBi
from posenc_ref.conformance.diagnosis.combine import Cause, explain, report
from posenc_ref.conformance.harness.plural import plural, ranges
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.frequencies import half_precision
from posenc_ref.conformance.phases.precision import rounded

from .cases import Ruler

Slopes = dict[int, np.ndarray]
#: The most groups of heads that are listed with the heads whose slopes they have.
_MOST_RUNS = 4


def diagnose_slopes(run: Run, got: Slopes) -> None:
    """Report the causes that together explain the slopes of all calls."""
    encoding: ALiBi = run.encoding
    ruler = Ruler.of(run)
    true = {n: ALiBi(n, max_bias=encoding.max_bias).slopes() for n in got}
    wrong = [n for n, m in got.items() if ruler.differ(m, true[n], np.abs(true[n])).any()]
    if not wrong:
        return
    n = encoding.num_heads if encoding.num_heads in wrong else wrong[0]
    run.report.measured = f"{n} heads: {recipe(got[n], true[n], encoding.max_bias, ruler)}"

    def residual(change: dict[str, Any]) -> tuple[bool, float]:
        models = change.get("slopes", true)
        factor = change.get("sign", 1.0) * change.get("scale", 1.0)
        scores = []
        for count, m in got.items():
            model = factor * rounded(models[count], change.get("round", "float64"))
            scores.append(ruler.score(m, model, np.abs(model)))
        return ruler.residual(np.concatenate(scores))

    causes, _ = explain(residual, list(_causes(got, true, n, encoding.max_bias, ruler)))
    report(run, causes)


def _causes(got: Slopes, true: Slopes, n: int, max_bias: float, ruler: Ruler) -> Iterator[Cause]:
    sign = -1.0 if np.median(got[n] / true[n]) < 0 else 1.0
    where = f"{n} heads: {_list(got[n])}"
    if sign < 0:
        text, remedy = "the slopes are negative: distance is rewarded", "Return positive slopes."
        values: dict[str, Any] = {"declared": 1, "measured": -1}
        yield Cause("bias-sign", text, where, {"sign": -1.0}, values=values, remedy=remedy)
    scale = float(np.median(np.abs(got[n]) / true[n]))
    if scale > 0 and ruler.differ(scale, 1.0, 1.0).any():
        yield scale_cause(scale, f"{n} heads, every slope")
    for name, _ in half_precision(true[n]):
        text, values = f"the slopes are rounded to {name}", {"declared": "exact", "measured": name}
        evidence = f"{where}: the declared slopes, rounded to {name}"
        remedy = "Compute the slopes in float32 or float64."
        change = {"round": name}
        yield Cause("table-precision", text, evidence, change, values=values, remedy=remedy)
    free = {count: sign * m for count, m in got.items()}
    own = slopes_cause(sign * got[n], true[n], max_bias, ruler, free)
    yield replace(own, change={"slopes": free})


def scale_cause(scale: float, where: str) -> Cause:
    """Return the cause that the bias is multiplied by ``scale``."""
    text = f"the bias is multiplied by {_factor(scale)}"
    evidence = f"{where}: {scale:.9g} times the declared one"
    values = {"declared": 1.0, "measured": scale}
    remedy = f"Divide the bias by {_factor(scale)}."
    return Cause("bias-scale", text, evidence, {"scale": scale}, values=values, remedy=remedy)


def slopes_cause(
    m: np.ndarray, true: np.ndarray, max_bias: float, ruler: Ruler, others: Slopes | None = None
) -> Cause:
    """Return the cause of wrong slopes: ``m``, measured, differ from ``true``, declared.

    Two series may be one for few heads, so one that ``others`` follow too is preferred.
    """
    bad = ruler.differ(m, true, np.abs(true))
    head = int(np.argmax(bad))
    words = recipe(m, true, max_bias, ruler)
    count = plural(int(bad.sum()), "slope is", "slopes are", len(m)) + " wrong"
    remedy, message = rule_of_slopes(len(m), max_bias), f"{count}; measured: {words}"
    known = list(known_series(len(m), max_bias))
    if found := _followed(m, max_bias, ruler):
        shared = set(found).intersection(
            *(_followed(o, max_bias, ruler) for o in (others or {}).values() if _uneven(len(o)))
        )
        words, remedy, _ = known[min(shared or found)]
        message = f"{words}: {count}"
    evidence = f"head {head}: {m[head]:.9g}, declared {true[head]:.9g}"
    values = {"declared": true.tolist(), "measured": m.tolist(), "recipe": words}
    return Cause("slopes", message, evidence, {"slopes": m}, fitted=3, values=values, remedy=remedy)


def _followed(m: np.ndarray, max_bias: float, ruler: Ruler) -> list[int]:
    """Return the numbers of the known series that the slopes ``m`` follow."""
    series = enumerate(known_series(len(m), max_bias))
    return [i for i, (_, _, slopes) in series if not ruler.differ(m, slopes, slopes).any()]


def _uneven(n: int) -> bool:
    """Return whether ``n`` is no power of two."""
    return n & (n - 1) > 0


def rule_of_slopes(n: int, max_bias: float) -> str:
    """Return the declared rule of the slopes, as a remedy."""
    c, b = 1 << (n.bit_length() - 1), f"{max_bias:g}"
    if c == n:
        return f"Use the slopes 2 ** (-{b} h / {n}), h = 1 .. {n}."
    return (
        f"Use 2 ** (-{b} h / {c}), h = 1 .. {c}, for the first {c} heads, and "
        f"2 ** (-{b} (2 h - 1) / {2 * c}), h = 1 .. {n - c}, for the others."
    )


def known_series(n: int, max_bias: float) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield the message, the remedy and the slopes of each known wrong series for n heads."""
    h = np.arange(1, n + 1)
    if _uneven(n):
        c = 1 << (n.bit_length() - 1)
        yield (
            f"the naive series 2 ** (-{max_bias:g} h/n) is used although n = {n} is no power of "
            "two",
            f"Take the series of {c} heads, then every second slope of the series of {2 * c} "
            "heads; posenc_ref.ALiBi(n).slopes() has them.",
            2.0 ** (-max_bias * h / n),
        )
        yield from _known_rest(n, c, max_bias)
        yield from _known_orders(n, c, max_bias)
    yield (
        f"the exponents start at h = 0: 2 ** (-{max_bias:g} h/n) for h = 0 .. {n - 1}",
        "Count heads from 1: the first slope is 2 ** (-max_bias/n), not 1.",
        2.0 ** (-max_bias * (h - 1) / n),
    )
    for few in (k for k in range(n // 2, 1, -1) if n % k == 0):
        own, of = ALiBi(few, max_bias=max_bias).slopes(), f"slopes of a model of {few} heads"
        remedy = f"Compute the slopes of all {n} heads, then take those of the rank's own heads."
        yield f"every {few} heads have the {of}", remedy, np.tile(own, n // few)
        yield (
            f"the {of} are used, each for {n // few} heads in a row",
            (f"Compute the slopes of all {n} query heads, not of the key heads."),
            np.repeat(own, n // few),
        )


def _known_rest(n: int, c: int, max_bias: float) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield series that are right for the first c heads and wrong for the others."""
    right = 2.0 ** (-max_bias * np.arange(1, c + 1) / c)
    h, others = np.arange(1, n - c + 1), f"the other {n - c} slopes"
    remedy = rule_of_slopes(n, max_bias)
    for words, exponents in (
        (f"are the first ones of the series of {2 * c} heads, not every second one", h),
        (f"are every second one of the series of {2 * c} heads from its second, not its first, on",
         2 * h),
        (f"are the last ones of the series of {2 * c} heads", 2 * c - len(h) + h),
        (f"are every second one of the series of {2 * c} heads, in reverse order",
         2 * len(h) + 1 - 2 * h),
        (f"continue the series of {c} heads", 2 * (c + h)),
    ):  # fmt: skip
        rest = 2.0 ** (-max_bias * exponents / (2 * c))
        yield f"the first {c} slopes are right, {others} {words}", remedy, np.r_[right, rest]
    if max_bias != 8:
        rest = 2.0 ** (-8 * (2 * h - 1) / (2 * c))
        text = f"the first {c} slopes are right, {others} are those of max_bias 8, not {max_bias:g}"
        yield text, remedy, np.r_[right, rest]


def _known_orders(n: int, c: int, max_bias: float) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield n slopes of the series of 2c heads, or the right ones in another order."""
    h = np.arange(1, 2 * c + 1)
    twice, once = 2.0 ** (-max_bias * h / (2 * c)), 2.0 ** (-max_bias * h[:c] / c)
    right = np.r_[once, twice[0::2][: n - c]]
    remedy = rule_of_slopes(n, max_bias)
    series = f"the series of {2 * c} heads"
    for words, slopes in (
        (f"every second slope of {series} from its first on comes before those from its second on: "
         f"[0::2] before [1::2], cut to {n}", np.r_[twice[0::2], twice[1::2]][:n]),
        (f"the slopes are the first {n} of {series}", twice[:n]),
        (f"the slopes are the last {n} of {series}", twice[-n:]),
        (f"the slopes are the last {n} of {series}, in reverse order", twice[::-1][:n]),
        (f"the other {n - c} slopes come before the first {c}", np.r_[right[c:], right[:c]]),
        ("the slopes are sorted, the largest first", np.sort(right)[::-1]),
        ("the slopes are sorted, the smallest first", np.sort(right)),
    ):  # fmt: skip
        yield words, remedy, slopes


def recipe(m: np.ndarray, true: np.ndarray, max_bias: float, ruler: Ruler) -> str:
    """Describe the rule that the measured slopes follow."""
    n = len(m)
    if not (m > 0).all():
        none = np.flatnonzero(m == 0).tolist()
        if none and not ruler.differ(m, np.where(m == 0, 0, true), true).any():
            return f"{_listed_heads(none)} no bias: the slope is 0; the other slopes are right"
        return f"heads {np.flatnonzero(~(m > 0)).tolist()} have no positive slope"
    order = np.argsort(-true)[np.argsort(np.argsort(-m))]
    ratio = float(np.median(m / true))
    power = float(np.median(np.log2(m) / np.log2(true)))
    most = float(m.max() / true.max())
    times = f"{_factor(most)} times the declared slopes in the order of heads {order.tolist()}"
    for words, slopes in (
        ("the declared slopes", true),
        (f"the declared slopes in the order of heads {order.tolist()}", true[order]),
        (f"{_factor(ratio)} times the declared slopes", ratio * true),
        (times, most * true[order]),
        (f"max_bias {max_bias * power:.6g} in place of {max_bias:g}", true**power),
        *_series(m),
    ):
        if not ruler.differ(m, slopes, slopes).any():
            return words
    c = 1 << (n.bit_length() - 1)
    if c < n and not ruler.differ(m[:c], true[:c], true[:c]).any():
        rest = f"{_list(m[c:])} in place of {_list(true[c:])}"
        for words, slopes in _series(m[c:]):
            rest = rest if ruler.differ(m[c:], slopes, slopes).any() else words
        return f"the first {c} slopes are right; the other {n - c} slopes are {rest}"
    if words := _other_heads(m, true, ruler):
        return words
    return f"no rule found in {_list(m)}, declared {_list(true)}"


def _other_heads(m: np.ndarray, true: np.ndarray, ruler: Ruler) -> str:
    """Describe slopes that are declared slopes of other heads; empty if some are not."""
    same = ~ruler.differ(m[:, None], true, true)
    if not same.any(axis=1).all():
        return ""
    used = same.argmax(axis=1)
    turns = 1 + np.flatnonzero(np.diff(used) != 1)
    again = 1 + np.flatnonzero(np.diff(used) != 0)
    moved, start = [], 0
    while start < len(m):
        ends = [min([*at[at > start], len(m)]) for at in (turns, again)]
        run = range(start, max(ends))
        if not np.array_equal(used[run], run):
            moved.append((run, range(used[start], used[run[-1]] + 1)))
        start = max(ends)
    if len(moved) > _MOST_RUNS:
        return ""
    return "; ".join(
        f"{_heads(run)} {'has' if len(run) == 1 else 'have'} the slope{'s' * (len(of) > 1)} of "
        f"{_heads(of)}"
        for run, of in moved
    )


def _heads(heads: range) -> str:
    return f"head{'s' * (len(heads) > 1)} {ranges(heads)}"


def _listed_heads(heads: list[int]) -> str:
    return f"head {heads[0]} has" if len(heads) == 1 else f"heads {ranges(heads)} have"


def _series(m: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the geometric series from the first to the last slope: its formula and its values."""
    if len(m) > 1:
        first, last = -np.log2(m[[0, -1]])
        step = float((last - first) / (len(m) - 1))
        # Slopes are measured in float32, and the words have six digits.
        start = first - step if abs(first - step) > 2.0**-20 * max(abs(first), 1.0) else 0.0
        words = f"one series 2 ** -({start:.6g} + {step:.6g} h), h = 1 .. {len(m)}"
        yield words, 2.0 ** -(first + step * np.arange(len(m)))


def _factor(x: float) -> str:
    """Return a number as text; the root of an integer is named too, as in 0.25 = 1/sqrt(16)."""
    for words, square in (("sqrt({})", x * x), ("1/sqrt({})", 1 / (x * x) if x else 0.0)):
        whole = round(square)
        if whole > 3 and abs(square - whole) * 2**12 < whole:
            return f"{x:.6g} = {words.format(whole)}"
    return f"{x:.6g}"


def _list(values: np.ndarray) -> str:
    shown = ", ".join(f"{v:.6g}" for v in values[:8])
    return f"[{shown}{', ...' if len(values) > 8 else ''}]"
