"""Diagnose a wrong ALiBi bias from its measured slopes, sign, scale and alignment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import ALiBi
from posenc_ref.conformance.diagnosis.combine import Cause, Residual, explain, report
from posenc_ref.conformance.diagnosis.position_mistakes import rounded_queries
from posenc_ref.conformance.harness.run import Run

from .cases import BiasCase, Ruler
from .diagnose_other import explained_by_step, large_constants
from .diagnose_slopes import scale_cause, slopes_cause
from .mistakes import ALIGNED
from .model import PLACES, Lines, fit, residual_of


def diagnose_alibi(run: Run, cases: Sequence[BiasCase]) -> None:
    """Report the causes that together explain the biases of all calls."""
    encoding: ALiBi = run.encoding
    ruler = Ruler.of(run)
    usable = [case for case in cases if case.k_len > 2]
    if not usable:
        return
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        fits = [fit(case, ruler) for case in usable]
        residual = residual_of(encoding, cases, ruler)
        suggested = list(_rounded_lengths(cases, residual))
        suggested = suggested or list(_causes(encoding, fits, ruler))
        causes, complete = explain(residual, suggested)
    run.report.measured = _words(fits)
    if not (causes and complete) and explained_by_step(run, cases):
        return
    report(run, causes, complete)
    failed = any(f.check == "values" for f in run.failures)
    if causes or not (complete and failed) or run.report.findings:
        return
    if encoding.up_to_constant:
        large_constants(run, [(case.name, case.own) for case in cases])
        return
    run.add(
        "inaccurate",
        "a constant is added to each row; the declared bias is 0 at the query's own key",
        f"{usable[0].name}: {usable[0].own[:, 0, 0].tolist()} at query 0's own key, per head",
        remedy="Subtract the constant of each row, the value at the query's own key.",
    )


def _causes(encoding: ALiBi, fits: Sequence[Lines], ruler: Ruler) -> Iterator[Cause]:
    true = encoding.slopes()
    first = fits[0]
    if first.before is None:
        return
    toward = float(np.sign(np.median(first.before / true))) or 1.0
    if toward < 0:
        head = int(np.argmax(true))
        distance = "(query - key)" if encoding.causal else "|query - key|"
        yield Cause(
            "bias-sign",
            "the bias grows with the distance: far keys are rewarded",
            f"head {head}: slope {-first.before[head]:+.9g} per key, declared {-true[head]:+.9g}",
            {"sign": -1.0},
            values={"declared": -1, "measured": 1},
            remedy=f"Reverse the sign of the bias: -slope * {distance}.",
        )
    # In some calls, all keys are on the far side of the change of slope.
    edges = {
        f.case.name
        for f in fits
        if f.kink is None and f.before is not None and np.median(np.sign(f.before)) * toward <= 0
    }
    kinks = {
        f.case.name: -int(f.case.rows[0]) if f.case.name in edges else f.kink or 0 for f in fits
    }
    usable = [f for f in fits if f.before is not None and f.case.name not in edges]
    long = max(usable, key=lambda f: f.case.k_len) if usable else first
    assert long.before is not None
    near = long.near
    assert near is not None
    measured = near * toward
    yield from _sizes(usable, measured, true, toward, ruler)
    yield slopes_cause(measured, true, encoding.max_bias, ruler)
    beyond = [(f.case, f.before if f.case.name in edges else f.after) for f in fits]
    straight = {f.case.name for f in fits if f.kink is None} - edges
    bent = [(c, a) for c, a in beyond if a is not None and c.name not in straight]
    if not encoding.causal and not bent and long.after is not None:
        bent = [(long.case, long.after)]
    after = max(bent, key=lambda pair: pair[0].k_len * pair[0].q_len)[1] if bent else None
    if not encoding.causal and after is not None:
        yield from _future(after, long, fits, encoding, ruler)
    yield from _aligned(kinks, straight, fits, after if encoding.causal else None)
    yield from _range(fits, true, toward)
    yield from _rounded(long, encoding)


def _rounded_lengths(cases: Sequence[BiasCase], residual: Residual) -> Iterator[Cause]:
    """Yield the first rounding of the lengths that predicts all biases."""
    for text, place in rounded_queries(max(c.k_len for c in cases)):
        shift = {c.name: int(place(c.q_len, c.k_len)[0] - c.rows[0]) for c in cases}
        if residual({"shift": shift})[0]:
            evidence = "the declared bias with these positions equals the biases of all calls"
            values, change = {"declared": 0, "measured": shift}, {"shift": shift}
            yield Cause("bias-alignment", text, evidence, change, 1, values, remedy=ALIGNED)
            return


def _sizes(
    fits: Sequence[Lines], measured: np.ndarray, true: np.ndarray, toward: float, ruler: Ruler
) -> Iterator[Cause]:
    scale = float(np.median(measured / true))
    slopes = {f.case.name: f.near for f in fits if f.near is not None}
    ratios = {name: float(np.median(m * toward / true)) for name, m in slopes.items()}
    each = np.array(list(ratios.values()))
    if len(each) > 1 and ruler.differ(each, scale, 4 * abs(scale)).any():
        text = "the bias is multiplied by a factor that depends on the lengths"
        evidence = ", ".join(f"{r:.6g} at {name}" for name, r in ratios.items())
        values = {"declared": 1.0, "measured": ratios}
        remedy = "Multiply the distance by the slope alone, by no number that depends on lengths."
        change = {"scale": ratios}
        yield Cause("bias-scale", text, evidence, change, fitted=2, values=values, remedy=remedy)
    elif ruler.differ(scale, 1.0, 1.0).any() and scale > 0:
        own, ratio = scale_cause(scale, "every head and distance"), float(true[0])
        series = not ruler.differ(true, ratio ** np.arange(1.0, len(true) + 1), true).any()
        for first in (0, 2) if series else ():  # the exponent of head 0
            if not ruler.differ(scale, ratio ** (first - 1), scale).any():
                text = f"; or the slopes are {ratio:.6g} ** h, h = {first}, ..., "
                text += f"{first + len(true) - 1}, not 1, ..., {len(true)}: the same slopes"
                own = replace(own, message=own.message + text)
        yield own


def _future(
    after: np.ndarray, long: Lines, fits: Sequence[Lines], encoding: ALiBi, ruler: Ruler
) -> Iterator[Cause]:
    """Yield causes for keys after the query.

    Their bias should equal that of keys before the query at the same distance.
    """
    assert long.before is not None
    mirror = -long.before
    head, ratio = int(np.argmax(np.abs(mirror))), float(np.median(after / mirror))
    evidence = f"head {head}: slope {after[head]:+.9g} for later keys, expected {mirror[head]:+.9g}"
    values = {"declared": mirror.tolist(), "measured": after.tolist()}
    wrong = ruler.differ(after, mirror, 4 * np.abs(mirror)).any()
    if wrong and not ruler.differ(after, -mirror, 4 * np.abs(mirror)).any():
        past = bool(np.sign(long.before).sum() < 0)
        formula, side = ("m (i - j)", "before") if past else ("m (j - i)", "after")
        yield Cause(
            "bias-sign",
            f"the bias is signed, {formula}: keys {side} the query are rewarded",
            evidence,
            {"sign": -1.0 if past else 1.0, "after": after},
            values=values,
            equivalent=("future-keys",),
            remedy="Take the absolute distance: -slope * |i - j|.",
        )
    elif wrong:
        kind = "are rewarded" if ratio < 0 else "have another penalty"
        kind = "have no penalty" if ratio == 0 else kind
        text = f"keys after the query {kind}: {ratio:.6g} times the penalty of keys before it"
        if ruler.differ(after, ratio * mirror, 4 * np.abs(mirror)).any():
            own = slopes_cause(-after, encoding.slopes(), encoding.max_bias, ruler)
            text = f"keys after the query have slopes of their own: {own.message}"
        remedy = "Use -slope * |query - key| for keys after the query too."
        change = {"after": after}
        yield Cause("future-keys", text, evidence, change, values=values, remedy=remedy)
    case = max((f.case for f in fits), key=lambda c: c.q_len)
    shown = case.actual[:, 0, case.rows[0] : case.rows[0] + 3]
    yield Cause(
        "future-keys",
        "the bias of keys after the query is not linear in the distance",
        f"{case.name}, head 0: {', '.join(f'{v:.6g}' for v in shown[0])} at key - query = 0, 1, 2",
        {"anything after": True},
        fitted=3,
        values={"declared": mirror.tolist(), "measured": shown.tolist()},
        remedy="Use -slope * |query - key| for keys after the query too.",
    )


def _aligned(
    kinks: dict[str, int], straight: set[str], fits: Sequence[Lines], after: np.ndarray | None
) -> Iterator[Cause]:
    """Yield wrong alignments of queries with keys.

    A call without a change of slope does not show its shift. Two shifts are tried for it: 0, and
    the most frequent shift of the other calls.
    """
    bends = [k for k in kinks.values() if k]
    for common in {0, max(bends, key=bends.count)} if bends else ():
        shift = {name: common if name in straight else k for name, k in kinks.items()}
        change = {"shift": shift} if after is None else {"shift": shift, "after": after}
        yield alignment_cause(kinks, [f.case for f in fits], change)


def alignment_cause(
    kinks: dict[str, int], cases: Sequence[BiasCase], change: dict[str, Any]
) -> Cause:
    """Return the cause of wrong query positions: the distance is not 0 at key = query."""
    first = {case.name: case.q_len - case.k_len for case in cases}
    kinks = {name: k for name, k in kinks.items() if k}
    shifts = set(kinks.values())
    # A shift for every call can explain anything, so a single rule is preferred.
    rule, fitted = "the shift of queries differs between calls", 2
    if all(k == first[name] for name, k in kinks.items()):
        rule, fitted = "query i has the position of key i", 1
    elif len(shifts) == 1:
        rule, fitted = f"every query is shifted by {min(shifts):+d}", 1
    shown = ", ".join(f"{k:+d} at {name}" for name, k in kinks.items())
    text = f"queries are not aligned with the last keys: {rule}"
    evidence = f"the distance is 0 at key - query = {shown}; declared at key - query = 0"
    values = {"declared": 0, "measured": kinks}
    remedy = ALIGNED
    if len(shifts) == 1 and rule.startswith("every"):
        by = min(shifts)
        verb = f"Subtract {by} from" if by > 0 else f"Add {-by} to"
        remedy = f"{verb} the positions of queries. {remedy}"
    return Cause("bias-alignment", text, evidence, change, fitted, values, remedy=remedy)


def _range(fits: Sequence[Lines], true: np.ndarray, toward: float) -> Iterator[Cause]:
    longest = max((f.case for f in fits), key=lambda c: c.k_len)
    near = next((f.before for f in fits if f.before is not None), true * toward)
    head, own = int(np.argmax(np.abs(near))), int(longest.rows[-1])
    steps = np.diff(longest.actual[head, -1, : own + 1]) / near[head]
    odd = np.flatnonzero(np.abs(steps - 1) > 0.5)
    if not odd.size:
        return
    start = int(odd[0])
    for words, key, value in (
        ("distances are clamped at {}", "clamp", own - int(odd[-1]) - 1),
        ("key positions are clamped at {}", "hold", start),
        ("key positions start again at 0 after {} keys", "wrap", start + 1),
    ):
        yield Cause(
            "position-range",
            words.format(value),
            f"{longest.name}, head {head}: from key {start} to key {start + 1} the bias changes "
            f"{steps[start]:.6g} times as much as near the query",
            {key: value},
            values={"measured": value},
            remedy="Use query - key of any size: no clamp, no modulo, no table of fixed length.",
            # In half precision, adding 1 has no effect from these numbers on.
            equivalent=("position-precision",) if value in (2**8, 2**11) else (),
        )


def _rounded(long: Lines, encoding: ALiBi) -> Iterator[Cause]:
    true = encoding.slopes()
    where = f"{long.case.name}, head {int(np.argmax(true))}"
    same = bool((np.frexp(true)[0] == np.frexp(1.0)[0]).all())  # powers of two are exact
    for name in ("bfloat16", "float16"):
        for place, words in PLACES.items():
            codes = ("table-precision", "position-precision")
            code, other = codes if place[:3] in ("slo", "pro") else codes[::-1]
            yield Cause(
                code,
                f"{words} rounded to {name}",
                f"{where}: equal to the declared bias if {words} rounded to {name}",
                {"round": (name, place)},
                values={"declared": "exact", "measured": name, "where": place},
                remedy="Compute slopes, distances and their product in float32 or float64.",
                equivalent=(other,) if same and place != "slopes" else (),
            )


def _words(fits: Sequence[Lines]) -> str:
    long = max(fits, key=lambda f: f.case.k_len)
    if long.before is None:
        return ""
    near = long.near
    assert near is not None
    shown = ", ".join(f"{s:.6g}" for s in near[:4]) + ", ..." * (len(near) > 4)
    kinks = sorted({f.kink for f in fits if f.kink is not None})
    where = (
        f"the slope changes at key - query = {kinks}"
        if kinks
        else "each is the same at every distance"
    )
    return f"slopes of the heads: {shown}; {where}"
