"""Known mistakes in the factor that grows with the position of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import LogNScale, PowerTemperature, QueryTemperature
from posenc_ref.conformance.diagnosis.mistake import each_part
from posenc_ref.conformance.oracle.scores import Parts, Scored

from .changed import Change, OfCall

#: Returns the factors (Q, 1), (1, K) or (Q, K) of a call.
Factors = Callable[[Scored], np.ndarray]
#: Returns the factors of positions.
Values = Callable[[np.ndarray], np.ndarray]
#: The number of keys of the first call.
_FIRST = 5
#: Lengths of tables of factors: of a short first call, and of tables made in advance.
_LENGTHS = (*range(1, 13), *(2**n for n in range(4, 21)))


def query_scale_changes(scale: Any) -> Iterator[Change]:
    """Yield known mistakes of the declared query scale, likely ones first."""

    def factor(p: np.ndarray) -> np.ndarray:
        return np.asarray(scale.factor(np.maximum(p, 0)), np.float64)

    def of(positions: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Factors:
        return lambda call: factor(positions(*call.grid))

    right = "Multiply the query at position p by the declared factor of p, once."
    none = "is left out"
    if float(factor(np.array([_FIRST - 1]))[0]) == 1.0:  # a table for the first call has ones only
        none += ", or is read from a table as long as a short first call, where every factor is 1"
    for words, factors in (
        (none, lambda call: np.ones((1, 1))),
        ("is that of the position before the query's", of(lambda q, k: q - 1)),
        ("is that of the position after the query's", of(lambda q, k: q + 1)),
        ("is that of the query's index in the call",
         of(lambda q, k: 0 * q + np.arange(len(q)).reshape(-1, *[1] * (q.ndim - 1)))),
        ("is that of the position minus that of the first query", of(lambda q, k: q - q[:1])),
        ("of all queries is that of the last one", of(lambda q, k: 0 * q + q[-1:])),
        ("of all queries is that of the first one", of(lambda q, k: 0 * q + q[:1])),
        ("is that of the key", of(lambda q, k: k)),
        ("multiplies the keys too", lambda call: factor(call.grid[0]) * factor(call.grid[1])),
        ("is applied twice", lambda call: factor(call.grid[0]) ** 2),
        ("divides the queries", lambda call: 1 / factor(call.grid[0])),
        ("is replaced by its square root", lambda call: np.sqrt(factor(call.grid[0]))),
        *_forms(scale),
        *((words, _at_queries(values)) for words, values in _siblings(scale)),
        *(
            (f"is that of position {n - 1} at most: consistent with a table of {n} factors, as for "
             f"a first call of {n} keys, that does not grow",
             of(partial(_up_to, n - 1)))
            for n in _LENGTHS
        ),
    ):  # fmt: skip
        yield "softmax-scale", f"the query scale {words}", _scaled(factors), right


def _forms(scale: Any) -> Iterator[tuple[str, Factors]]:
    """Yield other forms of the formula of the scale."""
    if isinstance(scale, LogNScale):
        n, log = scale.train_length, np.log(scale.train_length)

        def late(p: np.ndarray, value: np.ndarray, start: int = n) -> np.ndarray:
            return np.where(p >= start, value, 1.0)

        yield (
            "is below 1 up to the trained length: max(1, ...) is left out",
            lambda c: np.log1p(c.grid[0]) / log,
        )
        for words, values in (
            ("is ln(p) / ln(train_length)", lambda p: np.log(np.maximum(p, 1)) / log),
            ("is ln(p + 2) / ln(train_length)", lambda p: np.log(p + 2) / log),
            ("is the logarithm without the divisor ln(train_length)", np.log1p),
            ("is log2(p + 1) / ln(train_length)", lambda p: np.log2(p + 1) / log),
            ("is log10(p + 1) / ln(train_length)", lambda p: np.log10(p + 1) / log),
            ("is (p + 1) / train_length, without logarithms", lambda p: (p + 1) / n),
            ("is ln((p + 1) / train_length) + 1", lambda p: np.log((p + 1) / n) + 1),
        ):
            yield words, lambda c, v=values: late(c.grid[0], v(c.grid[0]))  # type: ignore[misc]
        text = "is that of the number of keys of the call, the same for all queries"
        yield text, lambda c: late(c.grid[0] * 0 + c.k.shape[2] - 1,
                                   c.grid[0] * 0 + np.log(c.k.shape[2]) / log)  # fmt: skip
    if isinstance(scale, QueryTemperature):
        beta, n, offset = scale.beta, scale.original_max_position, scale.offset
        for words, values in (
            ("rises with every token: floor is left out", lambda x: 1 + beta * np.log1p(x)),
            ("is 1 + beta * ln(floor(...)), at least 1: 1 is not added to the steps",
             lambda x: 1 + beta * np.log(np.maximum(np.floor(x), 1))),
            ("has its steps rounded up", lambda x: 1 + beta * np.log1p(np.ceil(x))),
            ("is beta * ln(...), without 1 +", lambda x: beta * np.log1p(np.floor(x))),
            ("has no logarithm", lambda x: 1 + beta * np.floor(x)),
            ("has a logarithm to base 2", lambda x: 1 + beta * np.log2(1 + np.floor(x))),
        ):  # fmt: skip
            yield words, lambda c, v=values: v((c.grid[0] + offset) / n)  # type: ignore[misc]
        for other in {0, 1} - {offset}:
            text = f"has the offset {other}, declared {offset}"
            yield text, lambda c, o=other: 1 + beta * np.log1p(np.floor((c.grid[0] + o) / n))  # type: ignore[misc]


def _at_queries(values: Values) -> Factors:
    return lambda call: values(call.grid[0])


def _up_to(last: int, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return np.asarray(np.minimum(q, last))


def _siblings(scale: Any) -> Iterator[tuple[str, Values]]:
    """Yield the formulas of other query scales, and other forms of those without steps.

    Each has the constants of the declared scale.
    """
    names = ("length", "original_max_position", "train_length")
    n = next(getattr(scale, name) for name in names if hasattr(scale, name))
    own = type(scale)
    if n > 1 and own is not LogNScale:
        yield "is max(1, ln(p + 1) / ln(length))", LogNScale(n).factor
    by = getattr(scale, "exponent", None) or getattr(scale, "beta", None)
    if by is None:
        return
    e = "exponent" if own is PowerTemperature else "beta"
    at = "(p + 1) / length"
    rows: tuple[tuple[str, Values], ...] = (
        (f"is 1 + {e} ln(1 + {at})", lambda p: 1 + by * np.log1p((p + 1) / n)),
        (f"is 1 + {e} ln(1 + p / length)", lambda p: 1 + by * np.log1p(p / n)),
        (f"is 1 + {e} ln({at}), without max(1, ...)", lambda p: 1 + by * np.log((p + 1) / n)),
        (f"is 1 + {e} ln(max(1, {at}))",
         lambda p: 1 + by * np.log(np.maximum(1, (p + 1) / n))),
        (f"is 1 + {e} ln(max(1, p / length))", lambda p: 1 + by * np.log(np.maximum(1, p / n))),
        (f"is 1 + {e} log2(max(1, {at}))", lambda p: 1 + by * np.log2(np.maximum(1, (p + 1) / n))),
        (f"is 1 + {e} log10(max(1, {at}))",
         lambda p: 1 + by * np.log10(np.maximum(1, (p + 1) / n))),
        (f"is {e} ln(max(1, {at})), without 1 +",
         lambda p: by * np.log(np.maximum(1, (p + 1) / n))),
        (f"is 1 + {e} (max(1, {at}) - 1), without the logarithm",
         lambda p: 1 + by * (np.maximum(1, (p + 1) / n) - 1)),
        (f"is 1 + {e} {at}", lambda p: 1 + by * (p + 1) / n),
        (f"is 1 + {e} ln(1 + floor(p / length))", lambda p: 1 + by * np.log1p(np.floor(p / n))),
        (f"is 1 + {e} ln(1 + floor({at}))", lambda p: 1 + by * np.log1p(np.floor((p + 1) / n))),
        (f"is (1 + {at}) ** {e}", lambda p: (1 + (p + 1) / n) ** by),
        (f"is (1 + p / length) ** {e}", lambda p: (1 + p / n) ** by),
        (f"is ({at}) ** {e}", lambda p: ((p + 1) / n) ** by),
        (f"is max(1, {at}) ** {e}", lambda p: np.maximum(1, (p + 1) / n) ** by),
        (f"is (1 + floor({at})) ** {e}", lambda p: (1 + np.floor((p + 1) / n)) ** by),
    )  # fmt: skip
    yield from rows


def _scaled(factors: Factors) -> OfCall:
    """Return a function for the logits of a call, with other factors."""

    def parts(call: Scored) -> Parts:
        with np.errstate(all="ignore"):
            by = factors(call)
        plain = call.replace(factor=None).parts()
        dot = plain["q.k"]
        scaled = each_part(dot, lambda part: part * by)
        size = np.maximum(scaled.terms, dot.terms)
        return plain | {"q.k": type(dot)(scaled.value, size, np.abs(scaled.angle))}

    return parts
