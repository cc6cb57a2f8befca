"""The truth of one array, and the score of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth

from .bits import from_hex


@dataclass(frozen=True)
class Output:
    """The truth of one array: ``hi + lo`` with the coefficients A and B, or integers."""

    shape: tuple[int, ...]
    hi: np.ndarray
    lo: np.ndarray
    terms: np.ndarray  #: A
    angle: np.ndarray  #: B
    whole: bool = False  #: integers: only equality passes
    judged: np.ndarray | None = None  #: False where an element does not belong to the encoding
    relative_to: np.ndarray | None = None  #: the column of each row that is subtracted from it

    broadcasts: bool = False  #: a result may have any shape that broadcasts to this one
    #: of the sines and cosines; files do not have it: for certificates, whose angles are exact
    amplitude: np.ndarray = field(default_factory=lambda: np.zeros(()))

    @classmethod
    def read(cls, data: Mapping[str, Any], broadcasts: bool = False) -> Output:
        """The output of its JSON form."""
        shape, mask = data["shape"], None
        if "judged" in data:
            mask = np.array([[digit == "1" for digit in row] for row in data["judged"]])
        if "values" in data:
            value = np.array(data["values"], dtype=np.float64).reshape(shape)
            zero = np.zeros_like(value)
            return cls(tuple(shape), value, zero, zero, zero, True, mask)
        hi, lo = (from_hex(data[name], shape, "float64") for name in ("hi", "lo"))
        a, b = (from_hex(data[name], shape, "float32").astype(np.float64) for name in ("A", "B"))
        columns = data.get("relative_to")
        own = None if columns is None else np.array(columns)
        return cls(tuple(shape), hi, lo, a, b, False, mask, own, broadcasts)

    def fits(self, actual: np.ndarray) -> bool:
        """Whether a result has the shape of the truth, or may broadcast to it."""
        return self._shaped(actual).shape == self.shape

    def _shaped(self, actual: np.ndarray) -> np.ndarray:
        return _broadcast(actual, self.shape) if self.broadcasts else actual

    def score(self, actual: np.ndarray, dtype: str, **how: Any) -> float:
        """The largest ``|actual - truth| / unit``; a wrong shape scores inf, and so does NaN."""
        return self.worst(actual, dtype, **how)[1]

    def worst(self, actual: np.ndarray, dtype: str, **how: Any) -> tuple[float, float]:
        """The largest error, and the largest score."""
        got = self._shaped(actual)
        if got.shape != self.shape or got.dtype.kind not in "fiuV":
            return np.inf, np.inf
        if self.whole:
            wrong = (got != self.hi) & (True if self.judged is None else self.judged)
            fits = got.dtype.kind in "iu" and not wrong.any()
            return (0.0, 0.0) if fits else (np.inf, np.inf)
        wide, terms = got.astype(np.float64), self.terms
        if self.relative_to is not None:
            constant = np.take_along_axis(
                wide, np.broadcast_to(self.relative_to[:, None], (*self.shape[:-1], 1)), axis=-1
            )
            with np.errstate(invalid="ignore"):
                wide = wide - constant
            terms = terms + np.where(np.isfinite(constant), np.abs(constant), 0.0)
        truth = Truth(self.hi, terms, self.angle, self.amplitude)
        unit = np.broadcast_to(truth.unit(dtype, **how), self.shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.abs((wide - self.hi) - self.lo)
            # Where the unit is 0 only equality passes, to the last bit of a float64.
            error = np.where((unit == 0) & (wide == self.hi), 0.0, error)
            score = np.where(error == 0, 0.0, error / unit)
        seen = True if self.judged is None else self.judged
        error, score = (
            np.where(seen, np.where(np.isnan(part), np.inf, part), 0.0) for part in (error, score)
        )
        return float(np.max(error, initial=0.0)), float(np.max(score, initial=0.0))


def _broadcast(got: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """``got`` in ``shape`` if it broadcasts to it without a batch of one, else unchanged."""
    while got.ndim > len(shape) and got.shape[0] == 1:
        got = got[0]
    try:
        return np.broadcast_to(got, shape)
    except ValueError:
        return got
