"""Functions that a wrong implementation applies to the whole result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.plural import rooted
from posenc_ref.conformance.harness.run import Run

from .mistake import JudgedCall, Mistake, remembered

#: Returns the expected result of a call from its facts.
Declared = Callable[[Any], Truth | None]
#: The relative error of a measured factor.
_NEAR = 1e-6
#: Words that follow the name of the result, and a function of its values.
Row = tuple[str, Callable[[np.ndarray], np.ndarray]]


def _softmax(v: np.ndarray) -> np.ndarray:
    e = np.exp(v - v.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def _norm(v: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt((v * v).sum(axis=-1, keepdims=True)))


def _deviation(v: np.ndarray, eps: float) -> np.ndarray:
    centred = v - v.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps))


def _stacked(v: np.ndarray, columns: tuple[int, int], two: int) -> np.ndarray:
    """Return a table (..., S, D) whose columns are split in two, which come before the rows."""
    if v.shape[-1] % 2:
        return v
    parts = v.reshape(*v.shape[:-1], *columns)
    return np.moveaxis(parts, two, -3).reshape(v.shape)


#: Functions of every value.
EACH: tuple[Row, ...] = (
    ("goes through tanh", np.tanh),
    ("goes through a sigmoid", lambda v: 1 / (1 + np.exp(-v))),
    ("goes through a sigmoid, times 16", lambda v: 16 / (1 + np.exp(-v))),
    ("goes through exp", np.exp),
    ("goes through exp, with the opposite sign", lambda v: -np.exp(v)),
    ("goes through softplus", lambda v: np.logaddexp(0, v)),
    ("goes through log(sigmoid)", lambda v: -np.logaddexp(0, -v)),
    ("is replaced by 0 where it is negative", lambda v: np.maximum(v, 0)),
    ("is replaced by 0 where it is positive", lambda v: np.minimum(v, 0)),
    ("is replaced by its absolute value", np.abs),
    ("is replaced by minus its absolute value", lambda v: -np.abs(v)),
    ("is squared", lambda v: v * v),
    ("is replaced by its sign", np.sign),
    ("is replaced by sign times log(1 + size)", lambda v: np.sign(v) * np.log1p(np.abs(v))),
)
#: In tables of sines and cosines this is the order of the two, which has a name of its own.
HALVES = "has the halves of its columns exchanged"
#: Functions of the rows of a table.
OF_ROWS: tuple[Row, ...] = (
    *EACH,
    ("has rows that are divided by their norms", lambda v: v / _norm(v)),
    ("has rows whose mean is subtracted", lambda v: v - v.mean(axis=-1, keepdims=True)),
    ("has rows that go through LayerNorm, epsilon 1e-5", lambda v: _deviation(v, 1e-5)),
    ("has rows that go through LayerNorm, epsilon 1e-6", lambda v: _deviation(v, 1e-6)),
    ("has rows that go through LayerNorm, epsilon 1e-12", lambda v: _deviation(v, 1e-12)),
    ("has its columns in reverse order", lambda v: v[..., ::-1]),
    (HALVES, lambda v: np.roll(v, v.shape[-1] // 2, axis=-1)),
    ("has its columns moved by one: column i is taken from i - 1", lambda v: np.roll(v, 1, -1)),
    ("has its columns moved by one: column i is taken from i + 1", lambda v: np.roll(v, -1, -1)),
    ("is moved from [-1, 1] to [0, 1]: (value + 1) / 2", lambda v: (v + 1) / 2),
)
_VIEWED = "and viewed as (rows, columns), not permuted: rows are mixed"
#: Functions of a whole table that a view of its numbers mixes.
MIXED: tuple[Row, ...] = (
    (f"is made as (columns, rows) {_VIEWED}", lambda v: np.swapaxes(v, -1, -2).reshape(v.shape)),
    (
        f"is made as (2, rows, columns / 2), first and second half, {_VIEWED}",
        lambda v: _stacked(v, (2, -1), -2),
    ),
    (
        f"is made as (2, rows, columns / 2), even and odd columns, {_VIEWED}",
        lambda v: _stacked(v, (-1, 2), -1),
    ),
)
#: Functions of a bias (H, Q, K).
OF_BIAS: tuple[Row, ...] = (
    *EACH,
    (
        "is made as (Q, K, H) and viewed as (H, Q, K), not permuted: heads and tokens are mixed",
        lambda v: np.moveaxis(v, 0, -1).reshape(v.shape),
    ),
    (
        "is made as (K, Q, H) and viewed as (H, Q, K), not permuted: heads and tokens are mixed",
        lambda v: v.T.reshape(v.shape),
    ),
    ("goes through a softmax over the keys", _softmax),
    ("has rows whose largest value is subtracted", lambda v: v - v.max(axis=-1, keepdims=True)),
    ("has rows whose mean is subtracted", lambda v: v - v.mean(axis=-1, keepdims=True)),
    ("has rows that are divided by their norms", lambda v: v / _norm(v)),
    ("is divided by the number of keys", lambda v: v / v.shape[-1]),
    ("is divided by the square root of the number of keys", lambda v: v / v.shape[-1] ** 0.5),
    ("is averaged over the heads", lambda v: np.broadcast_to(v.mean(0, keepdims=True), v.shape)),
)


def whole_values(
    declared: Declared, what: str, code: str, functions: tuple[Row, ...]
) -> Iterator[Mistake]:
    """Yield the mistakes that a function is applied to the result, which ``what`` names."""
    of_declared = remembered(declared)
    for words, function in functions:

        def predict(
            facts: Any,
            function: Callable[[np.ndarray], np.ndarray] = function,
            of_rows: bool = (words, function) not in EACH,
        ) -> Truth | None:
            truth = of_declared(facts)
            if truth is None or not truth.value.size:
                return truth
            with np.errstate(all="ignore"):
                value = np.asarray(function(truth.value))
            size = np.abs(np.broadcast_to(truth.terms, value.shape))
            if of_rows:
                size = size.max(axis=-1, keepdims=True)
            return Truth(value, np.maximum(size, np.abs(value)), truth.angle, truth.amplitude)

        remedy = f"Return {what} itself, as it is declared."
        if "not permuted" in words:
            axes = "(rows, columns)" if _VIEWED in words else "(H, Q, K), heads first"
            remedy = f"Permute {what} to {axes}: a view of its numbers mixes them."
        yield Mistake(code, f"{what} {words}", predict, remedy)


def measured_factor(declared: Declared, what: str, code: str) -> Mistake:
    """Return the mistake that the result is multiplied by a number, which is measured."""

    def fit(run: Run, wrong: Sequence[JudgedCall]) -> list[Mistake]:
        one = max(wrong, key=lambda call: call.actual.size)
        value = np.broadcast_to(one.truth.value, one.actual.shape)
        size = float((value * value).sum())
        if not size or not np.isfinite(one.actual).all():
            return []
        c = float((value * one.actual).sum()) / size

        def predict(facts: Any) -> Truth | None:
            truth = declared(facts)
            if truth is None:
                return None
            terms = np.maximum(np.abs(c) * truth.terms, np.abs(c * truth.value))
            return Truth(c * truth.value, terms, abs(c) * truth.angle)

        text = f"{what} is multiplied by {rooted(c, _NEAR)}"
        remedy = f"Do not multiply {what} by {c:.6g}."
        return [Mistake(code, text, predict, remedy, values={"declared": 1.0, "measured": c})]

    return Mistake("", "", lambda facts: None, fit=fit)
