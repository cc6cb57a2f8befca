"""Find which row of a learned table a bias of a window reads for every pair of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import BEiTBias, LeViTBias, ResidueBias, SwinBias
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.rule import Rule, find_rule
from posenc_ref.conformance.harness.run import Run

#: The declared row, in the words of rules.
ROW = "the declared row"
_SHOWN = 3


def rows_read(declared: Any, *, by_rule: bool) -> list[Mistake]:
    """Return the mistake that other rows of the table are read, if the bias has such a table.

    With ``by_rule``, a rule must give the rows; without, some of them are listed.
    """
    if not isinstance(declared, SwinBias | BEiTBias | LeViTBias | ResidueBias):
        return []
    return [Mistake("", "", lambda facts: None, fit=partial(_fit, declared, by_rule))]


def _fit(declared: Any, by_rule: bool, run: Run, wrong: Sequence[JudgedCall]) -> list[Mistake]:
    table = np.asarray(declared.table, np.float64)
    if len(np.unique(table, axis=0)) < len(table):
        return []  # equal rows are not told apart
    one = max(wrong, key=lambda call: call.actual.size)
    used, expected = (_decoded(table, v) for v in (one.actual, one.truth.value))
    if used is None or expected is None:
        return []
    variables = _variables(declared, one.facts, expected)
    mask = np.broadcast_to(True if one.mask is None else one.mask, used.shape)
    chosen = {name: np.broadcast_to(v, used.shape)[mask] for name, v in variables.items()}
    rule = find_rule(used[mask], chosen, ROW)
    at = np.argwhere((used != expected) & mask)
    if not len(at) or (rule is None) is by_rule:
        return []
    q, k = one.facts.rows, np.arange(one.facts.k_len)
    shown = "; ".join(
        f"query {q[i]} and key {k[j]} read row {used[i, j]}, declared {expected[i, j]}"
        for i, j in (at[n] for n in sorted({0, len(at) // 2, len(at) - 1}))
    )
    text = f"other rows of the table are read: {shown}"
    if rule is not None:
        text = f"the row of the table is {rule.words}"
    remedy = "Read the declared row for every pair of tokens." if rule is None else rule.remedy

    def predict(case: Any) -> Truth | None:
        truth = declared.truth(case.rows, np.arange(case.k_len))
        row = _predicted(declared, case, table, truth.value, rule, used, one.facts)
        if row is None:
            return None
        value = np.moveaxis(table[row], -1, 0)
        return Truth(value, np.maximum(truth.terms, np.abs(value)), truth.angle)

    return [Mistake("wrong-row", text, predict, remedy)]


def _predicted(
    declared: Any,
    case: Any,
    table: np.ndarray,
    expected: np.ndarray,
    rule: Rule | None,
    used: np.ndarray,
    seen: Any,
) -> np.ndarray | None:
    """Return the rows (Q, K) of a call: by the rule, or those measured on the largest call."""
    if rule is None:
        at = np.isin(seen.rows, case.rows)
        part = used[at][:, : case.k_len]
        return part if part.shape == (case.q_len, case.k_len) else None
    rows = _decoded(table, expected)
    if rows is None:
        return None
    variables = _variables(declared, case, rows)
    shape = rows.shape
    row = np.asarray(rule.of({name: np.broadcast_to(v, shape) for name, v in variables.items()}))
    return row if row.min() >= 0 and row.max() < len(table) else None


def _decoded(table: np.ndarray, values: np.ndarray) -> np.ndarray | None:
    """Return the row (Q, K) of each value (H, Q, K), or None if a value is no row."""
    flat = np.moveaxis(values, 0, -1).reshape(-1, len(values))
    kinds, back = np.unique(flat, axis=0, return_inverse=True)
    size = np.abs(table).max() or 1.0
    row = np.empty(len(kinds), np.int64)
    for n, kind in enumerate(kinds):
        misfit = np.abs(table - kind).max(axis=1)
        row[n] = int(np.argmin(misfit))
        if not misfit[row[n]] <= 1e-6 * size:
            return None
    return row[back.reshape(-1)].reshape(values.shape[1:])


def _variables(declared: Any, case: Any, expected: np.ndarray) -> dict[str, np.ndarray]:
    """Return the numbers of queries and keys that a row may be computed from, by name."""
    q, k = case.rows[:, None], np.arange(case.k_len)[None]
    found = {ROW: expected}
    window = getattr(declared, "window", None)
    if window is not None:
        _, w = window
        first = 1 if isinstance(declared, BEiTBias) else 0
        (yq, xq), (yk, xk) = (np.divmod(np.maximum(p - first, 0), w) for p in (q, k))
        found |= {"the row offset": yq - yk, "the column offset": xq - xk}
        found |= {"the query's row": yq, "the query's column": xq}
        found |= {"the key's row": yk, "the key's column": xk}
    return found | {"the offset (query - key)": q - k, "the query": q + 0 * k, "the key": k + 0 * q}
