"""Results of a bias function, their tolerance, and properties that they must have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, Truth, budget
from posenc_ref.conformance.harness.driver import Driver, Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import bias_truth

#: Larger scores are clipped to this.
WORST = 2.0**64
#: The most numbers in a square call; calls with one query may be longer.
_MOST_SQUARE = 2**23


@dataclass(frozen=True)
class Ruler:
    """The unit (a dtype's roundoff) and the tolerance for comparing computed numbers."""

    dtype: str = "float32"
    precision: str | None = None

    @classmethod
    def of(cls, run: Run) -> Ruler:
        """Return a ruler with the run's dtype and precision."""
        return cls(run.dtype, run.settings.precision)

    @property
    def budget(self) -> float:
        """The largest score that passes."""
        return budget(self.dtype, self.precision)

    def score(self, actual: Any, expected: Any, terms: Any) -> np.ndarray:
        """Return the score of every element: ``|actual - expected| / (roundoff * terms)``.

        ``terms`` is the sum of the absolute values from which ``expected`` is computed. A NaN has
        the score infinity.
        """
        given = (np.asarray(a, np.float64) for a in (actual, expected, terms))
        actual, expected, terms = np.broadcast_arrays(*given)
        with np.errstate(invalid="ignore"):
            truth = Truth(expected, terms, np.zeros(()))
            return np.asarray(truth.score(actual, dtype=self.dtype, precision=self.precision))

    def differ(self, actual: Any, expected: Any, terms: Any) -> np.ndarray:
        """Return a mask of the elements that differ by more than rounding."""
        return self.score(actual, expected, terms) > self.budget

    def residual(self, scores: np.ndarray) -> tuple[bool, float]:
        """Return whether all ``scores`` pass, and the mean of ``log2(1 + score)``."""
        scores = np.minimum(scores, WORST)
        return bool((scores <= self.budget).all()), float(np.mean(np.log2(1 + scores)))

    def beyond(self, terms: float) -> float:
        """Return an error larger than the tolerance of a sum of terms of size ``terms``."""
        roundoff = max(ROUNDOFF[self.dtype], ROUNDOFF[self.precision or self.dtype])
        return 8 * self.budget * roundoff * terms or 1.0


@dataclass(frozen=True)
class BiasCase:
    """The bias (H, Q, K) of one call, and the mask (Q, K) of the elements to judge."""

    q_len: int
    k_len: int
    actual: np.ndarray
    judged: np.ndarray
    up_to_constant: bool = False  #: subtract from each row its value at key = query
    at_end: bool = True  #: whether queries have the last positions of the keys, or the first ones

    @property
    def name(self) -> str:
        """The numbers of queries and keys, in words."""
        return f"q_len {self.q_len}, k_len {self.k_len}"

    @cached_property
    def rows(self) -> np.ndarray:
        """The positions of the queries."""
        return np.arange(self.q_len) + (self.k_len - self.q_len if self.at_end else 0)

    @cached_property
    def offsets(self) -> np.ndarray:
        """Key position minus query position, (Q, K)."""
        return np.asarray(np.arange(self.k_len) - self.rows[:, None])

    @cached_property
    def own(self) -> np.ndarray:
        """The value of each query at the key with the same position, (H, Q, 1)."""
        return self.actual[:, np.arange(self.q_len), self.rows][..., None]

    @cached_property
    def moved(self) -> np.ndarray:
        """The values to judge: ``actual``, minus ``own`` if ``up_to_constant``."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.actual - self.own) if self.up_to_constant else self.actual

    @cached_property
    def terms(self) -> np.ndarray:
        """The sum of the absolute values from which each element of ``moved`` is computed."""
        size = np.abs(self.actual)
        return np.asarray(size + np.abs(self.own)) if self.up_to_constant else np.asarray(size)


@dataclass(frozen=True)
class Property:
    """A property of correct outputs, judged without a reference.

    ``violations`` describes each violation. ``spoil`` returns the outputs with one wrong number,
    which must be a violation.
    """

    name: str
    violations: Callable[[Any, Ruler], Iterator[str]]
    spoil: Callable[[Any, Ruler], Any]

    def violation(self, data: Any, ruler: Ruler) -> str:
        """Describe the first violation, or return an empty string."""
        return next(self.violations(data, ruler), "")


def right(run: Run, case: BiasCase) -> bool:
    """Return whether the bias of one call is the declared one."""
    truth, moved, judged = bias_truth(run.encoding, case.q_len, case.k_len, case.actual)
    score = np.where(judged & case.judged, run.scores(moved, truth), 0.0)
    return bool((score <= run.budget).all())


def judge_properties(run: Run, properties: Sequence[Property], data: Any) -> None:
    """Judge each property, and verify that it rejects the outputs after one number is changed."""
    ruler = Ruler.of(run)
    for item in properties:
        run.count(item.name)
        run.ledger.judged.add(f"property {item.name}")
        if problem := item.violation(data, ruler):
            run.failed(f"property {item.name}", item.name, np.inf, problem)
        rejected = bool(item.violation(item.spoil(data, ruler), ruler))
        run.report.controls[f"property: {item.name}"] = rejected


@dataclass(frozen=True)
class Answer:
    """The values of one call, or the code and the message of its failure."""

    values: np.ndarray | None
    raw: Any = None
    code: str = ""
    problem: str = ""


def ask(driver: Driver, *args: Any, shape: tuple[int, ...] | None = None) -> Answer:
    """Call the function; return a copy of its result, or the failure."""
    try:
        raw = driver.call(*args)
        values = np.array(driver.array(raw))
        if shape not in (None, values.shape):
            raise Malformed(f"expected shape {shape}, got {values.shape}")
        return Answer(values, raw)
    except Refused as refusal:
        return Answer(None, code="raises", problem=str(refusal))
    except Malformed as flaw:
        return Answer(None, code=flaw.code, problem=str(flaw))


@dataclass(frozen=True)
class Span:
    """The sizes of the calls if a bias is defined for a limited number of tokens."""

    tokens: int  #: number of keys in the longest call
    square: int  #: number of keys in the longest call with Q = K
    whole: bool  #: True for a window, which is always passed as a whole


def span(run: Run, bias: Any) -> Span | None:
    """Return the sizes of the calls, or None if ``bias`` is defined for any number of tokens."""
    tokens = getattr(bias, "tokens", None)
    if tokens is None:
        return None
    room = run.settings.up_to(tokens - 1) + 1
    if bias.sees_future:  # a window cannot be cut
        return Span(tokens, tokens if room == tokens else 0, True)
    return Span(room, min(room, isqrt(_MOST_SQUARE // bias.num_heads)), False)


def fresh(run: Run) -> Driver | None:
    """Return a :class:`Driver` of a new instance of the function, or None without a factory."""
    return None if run.driver.factory is None else run.driver.fresh()
