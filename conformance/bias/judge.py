"""Judge biases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import FIRE, ALiBi, Bias, T5Bias
from posenc_ref.conformance.diagnosis.same_logits import RowConstants, row_constants
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Driver, Malformed
from posenc_ref.conformance.harness.probes import LENGTHS as PROBED
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import FAR, bias_truth
from posenc_ref.conformance.oracle.rings import on_rings

from .cases import Answer, BiasCase, Property, Ruler, ask, fresh, judge_properties, right, span
from .diagnose_alibi import diagnose_alibi
from .diagnose_missing import missing
from .diagnose_other import diagnose_other
from .diagnose_t5 import diagnose_t5
from .future_mask import mask_alone, without_masked
from .properties import FARTHER, HEADS, LINEAR, ONE_RUN, OWN, SYMMETRIC, TRANSLATION, saturated

#: Some lengths share q_len or k_len with an earlier call, to detect wrong cache keys.
LENGTHS = (*PROBED[:3], (2, 5), (5, 11), (1, 1), (257, 300), (600, 600), *PROBED[3:])
#: The lengths of the reduced workload.
FEW = ((5, 5), (1, 7), (3, 11), (2, 5), (5, 11), (64, 64), (16, 256), (4, 2050))
#: The size of an additional square call if q_len < k_len is refused.
SQUARE = 512
#: The largest start of a T5 bucket for which a longer square call is added.
FARTHEST = 1024
#: A length beyond the usual sizes of caches.
LONGEST = FAR
#: Lengths of calls that could refute a cause which explains all others.
REFUTING = ((6, 6), (3, 23), (2, 130))
#: How many of the first calls are repeated at the end.
REPEATED = 3
#: The most numbers in a bias, which must fit in memory.
MOST_NUMBERS = 2**28


@dataclass
class _Called:
    """One call of a bias function and its result."""

    lengths: tuple[int, int]
    answer: Answer
    case: BiasCase | None = None
    passed: bool = False


def judge_bias(run: Run) -> None:
    """Judge ``fn(q_len, k_len)``: its values, properties, state, and unusual lengths."""
    encoding: Bias = run.encoding
    translated = [TRANSLATION.name] if encoding.relative else []
    run.report.required = ("values", "replay", *translated)
    called = [_call(run, run.driver, lengths) for lengths in _lengths(run)]
    if not called:  # max_position is smaller than the window
        return
    first = called[0]
    if first.answer.code == "raises":
        run.failed("values", first.answer.problem, np.inf, first.answer.problem)
        run.add("raises", f"fn{first.lengths}: {first.answer.problem}", "the first call")
        return
    refused = [k for q, k in [c.lengths for c in called if c.answer.code == "raises"] if q < k]
    called += [_call(run, run.driver, (k, k)) for k in sorted({min(k, SQUARE) for k in refused})]
    if refused:
        answered = [c.lengths[1] for c in called if c.answer.code != "raises"]
        run.ledger.refuse_past(position=max(answered) - 1)
    if refused and (1, 7) not in [c.lengths for c in called if c.answer.code == "raises"]:
        called += _largest(run, max(c.lengths[1] for c in called if c.case), min(refused))
    raw, values = first.answer.raw, first.answer.values
    overwritten = False
    if values is not None and isinstance(raw, np.ndarray):
        overwritten = not np.array_equal(raw.astype(np.float64), values, equal_nan=True)
    replayed = [_call(run, run.driver, c.lengths) for c in called[:REPEATED]]
    replayed.append(_call(run, run.driver, first.lengths))
    for one in called:
        one.passed = _judge(run, one)
    if overwritten:
        run.failed("replay", "first result", np.inf, "the first result was written over")
        text = "a later call overwrites an array that an earlier call returned"
        evidence = f"the result of fn{first.lengths} differs from a copy made before other calls"
        run.add("state", text, evidence, by="replay")
    cases = _state(run, called, replayed)
    for one in called:
        _file(run, one)
    _empty(run)
    if not cases:
        return
    cases = without_masked(run, cases)
    _nonfinite(run, cases)
    longest = max(case.k_len for case in cases)
    if longest > 4:
        properties = _properties(encoding, longest)
        run.report.required = ("values", "replay", *(p.name for p in properties))
        judge_properties(run, properties, cases)
    malformed = any(one.answer.code in ("shape", "dtype") for one in called)
    # Without failures nothing is to explain; if every case is right, only kept values are wrong.
    wrong = run.failures and not malformed and not all(right(run, case) for case in cases)
    if wrong and not missing(run, cases) and not mask_alone(run, cases):
        finite = [c for c in cases if np.isfinite(c.actual[:, c.judged]).all()]
        own: dict[type, Any] = {ALiBi: diagnose_alibi, T5Bias: diagnose_t5}
        if finite:
            if type(encoding) in own:
                run.explain(own[type(encoding)], finite)
            else:
                stale = "state" in run.report.codes
                further = None if stale else partial(_further, run, longest)
                run.explain(diagnose_other, finite, further)
    if encoding.up_to_constant and not run.failures:
        row_constants(run, (_constants(encoding, case) for case in cases))


def _further(run: Run, longest: int) -> Iterator[BiasCase]:
    """Make calls of other lengths, which could refute a cause."""
    for lengths in REFUTING:
        if lengths[1] <= longest and span(run, run.encoding) is None:
            case = _call(run, run.driver, lengths).case
            if case is not None and np.isfinite(case.actual[:, case.judged]).all():
                yield case


def _constants(encoding: Bias, case: BiasCase) -> RowConstants:
    """Return the values at each query's own key: ``check`` leaves a constant of each row open."""
    declared = encoding.truth(case.rows, case.rows).value
    size = np.abs(np.where(case.judged, case.actual, 0.0)).max(axis=-1)
    return RowConstants(case.name, case.own[..., 0], np.diagonal(declared, axis1=1, axis2=2), size)


def _properties(encoding: Bias, longest: int) -> list[Property]:
    if isinstance(encoding, T5Bias):
        table = np.asarray(encoding.table, dtype=np.float64)
        reach = encoding.thresholds[-1]
        found = [TRANSLATION]
        found += [saturated(reach)] if reach + 1 < longest else []
        return found + ([ONE_RUN] if len(np.unique(table, axis=0)) == len(table) else [])
    if not isinstance(encoding, ALiBi):
        return [TRANSLATION] if encoding.relative else []
    found = [TRANSLATION, LINEAR, FARTHER]
    found += [HEADS] if encoding.num_heads > 1 else []
    return found if encoding.causal else [*found, SYMMETRIC, OWN]


def _lengths(run: Run) -> list[tuple[int, int]]:
    """Return (q_len, k_len) from short to long, limited so that a dense bias fits in memory."""
    most = np.inf if run.settings.max_position is None else run.settings.max_position + 1
    if (one := span(run, run.encoding)) is not None:
        decoded = [] if one.whole else [(q, one.tokens) for q in (1, 2) if q < one.tokens]
        return [(one.square, one.square)] * (one.square > 0) + decoded
    every = list(FEW if run.settings.reduced else LENGTHS)
    reach = run.encoding.thresholds[-1] if isinstance(run.encoding, T5Bias) else 0
    if SQUARE < reach <= FARTHEST:
        every.append((reach + 8, reach + 16))
    if run.encoding.num_heads * LONGEST**2 <= MOST_NUMBERS and not run.settings.reduced:
        every.append((1, LONGEST))
    kept = [pair for pair in every if pair[1] <= most]
    if len(kept) < len(every) and most >= 1:
        kept.append((min(4, int(most)), int(most)))
    return kept


def _largest(run: Run, accepted: int, refused: int) -> list[_Called]:
    best: list[_Called] = []
    while refused - accepted > 1:
        middle = (accepted + refused) // 2
        one = _call(run, run.driver, (1, middle))
        if one.answer.code == "raises":
            refused = middle
        else:
            accepted, best = middle, [one]
    return best


def _call(run: Run, driver: Driver, lengths: tuple[int, int]) -> _Called:
    """Call with (q_len, k_len); return the bias as (H, Q, K), or the failure."""
    q_len, k_len = lengths
    answer = ask(driver, q_len, k_len)
    if answer.values is None:
        return _Called(lengths, answer)
    shape = (run.encoding.num_heads, q_len, k_len)
    values = answer.values
    while values.ndim > 3 and values.shape[0] == 1:
        values = values[0]
    try:
        values = np.array(np.broadcast_to(values, shape), dtype=np.float64)
    except ValueError:
        words = f"expected a shape that broadcasts to (H, Q, K) = {shape}, got {values.shape}"
        return _Called(lengths, Answer(None, None, "shape", words))
    judged = np.ones((q_len, k_len), dtype=bool)
    if not run.encoding.sees_future:
        judged = np.arange(k_len) <= np.arange(k_len - q_len, k_len)[:, None]
    ring = on_rings(run.encoding, np.arange(k_len - q_len, k_len), np.arange(k_len))
    if ring is not None:
        defined, either = ring
        judged = judged & defined & ~either  # a cause is sought where one offset is right
        if not defined.all():
            run.limit("offsets of a period or more are not judged: a ring has none")
    free = run.encoding.up_to_constant
    return _Called(lengths, answer, BiasCase(q_len, k_len, values, judged, free))


def _judge(run: Run, one: _Called) -> bool:
    if one.case is None:
        return False
    truth, moved, judged = bias_truth(run.encoding, *one.lengths, one.case.actual)
    run.reached(one.lengths[1] - 1)
    return run.judge("values", one.case.name, moved, truth, judged)


def _state(run: Run, called: list[_Called], replayed: list[_Called]) -> list[BiasCase]:
    """Judge repeated calls and fresh instances; return the cases unaffected by earlier calls."""
    ruler = Ruler.of(run)
    for one, again in zip([*called[:REPEATED], called[0]], replayed, strict=True):
        if one.case is None:
            continue
        run.count("replay")
        if problem := _changed(one, again, ruler):
            run.failed("replay", one.case.name, np.inf, problem)
            if found := _drift(run, one):
                run.add("state", found[0], found[1], by="replay", remedy=found[2])
                return []
            text = f"fn{one.lengths} changes after other calls"
            kept, remedy = _kept(run, called, one, again)
            run.add("state", text + kept, problem, by="replay", remedy=remedy)
    for one in called:
        if one.passed or (new := fresh(run)) is None:
            continue
        clean = _call(run, new, one.lengths)
        if clean.case is not None and right(run, clean.case):
            why = one.answer.problem or "other values"
            run.add("state", f"fn{one.lengths} is right on a fresh instance only", why, by="replay")
            one.case, one.answer = clean.case, clean.answer
    cases = [c.case for c in called if c.case is not None]
    stale = any(f.code == "state" for f in run.report.findings)
    if stale and run.driver.factory is None:
        return cases[:1]  # later calls may be affected
    if stale:
        again_fresh = [_call(run, new, c.lengths).case for c in called if (new := fresh(run))]
        return [case for case in again_fresh if case is not None]
    return cases


def _drift(run: Run, one: _Called) -> tuple[str, str, str] | None:
    """Return what every call changes in what is kept; see `state.drift`."""
    case = one.case
    assert case is not None

    def judged(values: np.ndarray) -> np.ndarray:
        return np.where(case.judged, np.broadcast_to(values, case.actual.shape), 0.0)

    def call() -> np.ndarray:
        again = _call(run, run.driver, one.lengths)
        if again.case is None:
            raise Malformed(again.answer.problem)
        return judged(again.case.actual)

    return state.drift(run, call, judged(run.encoding.truth(case.rows, range(case.k_len)).value))


def _changed(one: _Called, again: _Called, ruler: Ruler) -> str:
    if one.case is None or again.case is None:
        return again.answer.problem
    a, b = one.case, again.case
    same = (a.actual == b.actual) | (np.isnan(a.actual) & np.isnan(b.actual))
    bad = ruler.differ(b.moved, a.moved, a.terms + b.terms) & a.judged & ~same
    if not bad.any():
        return ""
    at = tuple(np.argwhere(bad)[0].tolist())
    return f"head, query, key {at}: first {a.actual[at]:.9g}, now {b.actual[at]:.9g}"


def _kept(run: Run, called: list[_Called], one: _Called, again: _Called) -> tuple[str, str]:
    """Return what is kept from another call, in words, and what to do; or nothing."""
    assert one.case is not None
    if again.case is None or span(run, run.encoding) is not None:
        return "", ""
    (n_q, n_k), case = one.lengths, again.case

    def fits(encoding: Bias, q_at: int, k_at: int) -> bool:
        truth = encoding.truth(q_at + np.arange(n_q), k_at + np.arange(n_k))
        off = run.scores(case.actual, truth)[np.broadcast_to(case.judged, case.actual.shape)]
        return bool(off.max(initial=0.0) <= run.budget and np.ptp(truth.value))

    calls = [c.lengths for c in called if c.lengths[1] >= n_k]
    if isinstance(declared := run.encoding, FIRE):
        longest = max(k_len for _, k_len in calls)
        for length in (longest - 1.0, float(longest)):
            if length > declared.length and fits(declared.replace(length=length), n_k - n_q, 0):
                return (
                    f": consistent with the threshold length = {length:g} of the longest call so "
                    f"far, {longest} keys, that is kept; declared {declared.length:g}",
                    f"Keep length = {declared.length:g} in every call, and normalise query i by "
                    "max(i, length).",
                )
    for q_len, k_len in sorted(set(calls), key=lambda lengths: lengths[1], reverse=True):
        for q_at in (k_len - q_len, k_len - n_q):
            for k_at in {0, k_len - n_k}:
                more = q_at - k_at - (n_k - n_q)  # too large offsets
                if (q_at, k_at) == (n_k - n_q, 0) or q_at + n_q > k_len:
                    continue
                if not fits(run.encoding, q_at, k_at):
                    continue
                words = (
                    f": consistent with a kept bias of {k_len} keys, of which queries {q_at}.."
                    f"{q_at + n_q - 1} and keys {k_at}..{k_at + n_k - 1} are returned"
                )
                remedy = "Cut rows k_len - q_len .. k_len - 1 from what is kept, or keep it by "
                remedy += "(q_len, k_len)."
                if run.encoding.relative:
                    words += (
                        f", or with a kept strip of its offsets, read at offsets {abs(more)} too "
                    )
                    words += "large" if more > 0 else "small"
                    remedy += " In a strip, offset 0 stands at its middle, of the length as it was "
                    remedy += "made."
                return words, remedy
    return "", ""


def _file(run: Run, one: _Called) -> None:
    if one.case is not None or any(f.code == "state" for f in run.report.findings):
        return
    if one.answer.code == "raises":
        run.limit(f"fn{one.lengths} is refused ({one.answer.problem})")
        return
    run.failed("values", f"fn{one.lengths}", np.inf, one.answer.problem)
    run.add(one.answer.code, f"fn{one.lengths}: {one.answer.problem}", "the shape of the result")


def _empty(run: Run) -> None:
    """Judge a call without queries, which may be refused."""
    if getattr(run.encoding, "tokens", None) is not None:
        return
    answer = _call(run, run.driver, (0, LENGTHS[0][1]))
    if answer.case is None:
        run.limit(f"q_len 0 has no usable result ({answer.answer.problem})")


def _nonfinite(run: Run, cases: list[BiasCase]) -> None:
    """Report a misplaced mask and other non-finite values."""
    for case in cases:
        hidden = ~np.isfinite(case.actual).all(axis=0)
        bad = hidden & case.judged
        if not bad.any():
            continue
        i, j = (int(x) for x in np.argwhere(bad)[0])
        there = case.actual[:, i, j]
        worst = float(there[~np.isfinite(there)][0])
        where = f"{worst} at query {i}, key {j} of {case.name}"
        kept = (~hidden).sum(axis=1)
        is_mask = np.array_equal(hidden, np.arange(case.k_len) >= kept[:, None])
        if is_mask and worst == -np.inf:
            last = kept - 1 - case.rows
            if (last == last[0]).all() and last[0] < 0:
                text = f"keys are masked from key - query = {last[0] + 1} on, declared from 1 on"
                values = {"declared": 0, "measured": int(last[0])}
                run.add("bias-alignment", text, where, values=values, by="nonfinite")
        run.add("nonfinite", "the bias is not finite where keys are visible", where)
