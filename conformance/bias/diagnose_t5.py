"""Diagnose a wrong T5 bias: decode its values into buckets and compare the buckets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from posenc_ref import T5Bias
from posenc_ref.conformance.diagnosis.combine import Cause, Residual, explain, report
from posenc_ref.conformance.diagnosis.position_mistakes import QUERIES, rounded_queries
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.frequencies import half_precision
from posenc_ref.conformance.phases.precision import rounded

from .bucket_model import bases, model, shift
from .cases import BiasCase, Ruler
from .diagnose_alibi import alignment_cause
from .diagnose_buckets import bucket_causes, by_no_rule, unique, vague, words
from .diagnose_other import explained_by_step
from .diagnose_slopes import scale_cause
from .mistakes import ALIGNED

#: Relative positions (N,), and the bias (N, H) or the bucket (N,) of each.
Line = tuple[np.ndarray, np.ndarray]


def diagnose_t5(run: Run, cases: Sequence[BiasCase]) -> None:
    """Report the causes that together explain the biases of all calls."""
    encoding: T5Bias = run.encoding
    if not cases:
        return
    ruler = Ruler.of(run)
    if _placed(run, cases, ruler):
        return
    table = np.asarray(encoding.table, dtype=np.float64)
    lines = [_line(case) for case in cases]
    found = _tables(table, lines, ruler)
    used = _table(table, {key: value for cause in found for key, value in cause.change.items()})
    decoded = [(r, _decode(v, used, ruler)) for r, v in lines]
    for change in bases(encoding):
        shifts = {
            case.name: shift(encoding, change, r, b)
            for case, (r, b) in zip(cases, decoded, strict=True)
        }
        if any(shifts.values()):
            found.append(alignment_cause(shifts, cases, {"shift": shifts}))
        aligned = [(r - shifts[c.name], b) for c, (r, b) in zip(cases, decoded, strict=True)]
        found += bucket_causes(encoding, *_merged(aligned))
    kept = unique([*found, *bucket_causes(encoding, *_merged(decoded))])
    names = [case.name for case in cases]
    causes, complete = explain(_residual(encoding, table, names, lines, ruler), kept)
    r, b = _merged(decoded)
    if (vague(causes) or not (causes and complete)) and explained_by_step(run, cases):
        run.report.measured = words(encoding, r, b)
        return
    report(run, causes, complete)
    if not causes and (model(encoding, {}, r) != b).any():
        by_no_rule(run, encoding, r, b)
    run.report.measured = words(encoding, r, b)


def _placed(run: Run, cases: Sequence[BiasCase], ruler: Ruler) -> bool:
    """Report wrong query positions; return whether they explain every call.

    A single call may agree by chance: in a causal bias, a query at position 0 has bucket 0 for
    every key.
    """
    rounded = rounded_queries(max(c.k_len for c in cases))
    for message, place in chain(QUERIES, rounded):
        values = [run.encoding.bias(place(c.q_len, c.k_len), np.arange(c.k_len)) for c in cases]
        if all(
            not ruler.differ(case.actual, value, np.abs(value))[:, case.judged].any()
            for case, value in zip(cases, values, strict=True)
        ):
            evidence = "the declared bias with these query positions equals the biases of all calls"
            run.add("bias-alignment", message, evidence, remedy=ALIGNED)
            return True
    return False


def _line(case: BiasCase) -> Line:
    """Return the relative positions r (N,) in one call, and the bias (N, H) of each."""
    r = case.offsets[case.judged]
    values = case.actual[:, case.judged].T
    kept, first = np.unique(r, return_index=True)
    return kept, values[first]


def _merged(decoded: Sequence[Line]) -> Line:
    """Return all relative positions with a known bucket (not -1), and their buckets."""
    r, b = (np.concatenate(parts) for parts in zip(*decoded, strict=True))
    kept, first = np.unique(r[b >= 0], return_index=True)
    return kept, b[b >= 0][first]


def _tables(table: np.ndarray, lines: Sequence[Line], ruler: Ruler) -> list[Cause]:
    """Return causes in the table: permuted heads, a common factor, and rounded values."""
    seen = np.unique(np.concatenate([v for _, v in lines]), axis=0)
    found = []
    best = _share(seen, table, ruler)
    order = _order(seen, table, ruler)
    if best < 1 and order is not None:
        shown = ", ".join(f"{h} has the bias of {k}" for h, k in enumerate(order) if h != k)
        values: dict[str, Any] = {"declared": list(range(len(order))), "measured": order}
        text, evidence = "heads have each other's bias", f"head {shown}"
        remedy = "Give head h the column h of the table."
        change = {"heads": order}
        found.append(Cause("head-order", text, evidence, change, values=values, remedy=remedy))
        table = table[:, order]
        best = _share(seen, table, ruler)
    scales = _scales(seen, lines, table)
    shares = [_share(seen, scale * table, ruler) for scale in scales]
    if max(shares, default=0.0) > best:
        best = max(shares)
        found.append(scale_cause(scales[shares.index(best)], "every head and distance"))
    for name, half in half_precision(table):
        if _share(seen, half, ruler) > best:
            values = {"declared": "exact", "measured": name}
            text = f"the table is rounded to {name}"
            evidence = f"the values are those of the declared table rounded to {name}"
            remedy, half_ = "Keep the table in its own dtype.", {"round": name}
            cause = Cause("table-precision", text, evidence, half_, values=values, remedy=remedy)
            found.append(cause)
    return found


def _table(table: np.ndarray, change: dict[str, Any]) -> np.ndarray:
    if "round" in change:
        table = rounded(table, change["round"])
    if "heads" in change:
        table = table[:, change["heads"]]
    return table * float(change.get("scale", 1.0))


def _share(seen: np.ndarray, table: np.ndarray, ruler: Ruler) -> float:
    """Return the fraction of the biases (N, H) that equal exactly one row of the table."""
    return float((_decode(seen, table, ruler) >= 0).mean())


def _decode(values: np.ndarray, table: np.ndarray, ruler: Ruler) -> np.ndarray:
    """Return the bucket of each of N values (N, H), or -1 if not exactly one row matches."""
    kinds, back = np.unique(values, axis=0, return_inverse=True)
    same = ~ruler.differ(kinds[:, None], table[None], np.abs(table)[None]).any(axis=-1)
    bucket = np.where(same.sum(axis=1) == 1, same.argmax(axis=1), -1)
    return np.asarray(bucket[back.reshape(-1)])


def _order(seen: np.ndarray, table: np.ndarray, ruler: Ruler) -> list[int] | None:
    """Return the declared head that each head matches, or None if heads are in order."""
    order = []
    for h in range(table.shape[1]):
        near = np.abs(table).T[:, None]
        fits = ~ruler.differ(seen[:, h][None, :, None], table.T[:, None], near)
        share = fits.any(axis=-1).mean(axis=-1)
        order.append(h if share[h] == share.max() else int(np.argmax(share)))
    whole = sorted(order) == list(range(table.shape[1]))
    return order if whole and order != sorted(order) else None


def _scales(seen: np.ndarray, lines: Sequence[Line], table: np.ndarray) -> list[float]:
    """Return candidates for a common factor on the table."""
    found = []
    norms = (table * table).sum(axis=1)
    for r, v in lines[:1]:
        if (r == 0).any() and norms[0] > 0:
            found.append(float(v[r == 0][0] @ table[0] / norms[0]))
    largest = table.flat[np.argmax(np.abs(table))]
    if largest:
        found.append(float(seen.flat[np.argmax(np.abs(seen))] / largest))
    if table.shape[1] > 1 and (norms > 0).all():
        along = seen @ table.T / np.sqrt(norms)
        best = np.argmax(np.abs(along), axis=1)
        ratio = along[np.arange(len(seen)), best] / np.sqrt(norms[best])
        found += [float(np.median(ratio)), float(np.median(np.abs(ratio)))]
    return [scale for scale in found if np.isfinite(scale) and scale != 0]


def _residual(
    encoding: T5Bias, table: np.ndarray, names: list[str], lines: Sequence[Line], ruler: Ruler
) -> Residual:
    # Compare all near positions and every third far one.
    lines = [(r[keep], v[keep]) for r, v in lines for keep in [(np.abs(r) < 600) | (r % 3 == 0)]]
    sizes = [len(r) for r, _ in lines]
    r, v = (np.concatenate(parts) for parts in zip(*lines, strict=True))
    last = len(table) - 1

    def residual(change: dict[str, Any]) -> tuple[bool, float]:
        used, shifts = _table(table, change), change.get("shift", {})
        shift = np.repeat([shifts.get(name, 0) for name in names], sizes)
        bucket = model(encoding, dict(change, shift=shift), r)
        expected = np.where((bucket <= last)[:, None], used[np.minimum(bucket, last)], np.inf)
        return ruler.residual(ruler.score(v, expected, np.abs(expected)))

    return residual
