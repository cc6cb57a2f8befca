"""The expected values of one array, and the score of a result."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posenc_ref._text import shown
from posenc_ref.accuracy import Truth, budget

from .bits import from_hex, read_integers, sized, to_hex

#: The parts of an output of floats, with their dtypes in files.
_PARTS = (("hi", "float64"), ("lo", "float64"), ("A", "float32"), ("B", "float32"))


def _mask(rows: Any, shape: list[int]) -> np.ndarray:
    """Return the booleans of ``judged``: a string of 0 and 1 for each row."""
    texts = isinstance(rows, list) and all(isinstance(row, str) for row in rows)
    digits = "".join(rows) if texts else None
    if digits is None or len(digits) != math.prod(shape[-2:]) or set(digits) - {"0", "1"}:
        raise ValueError(
            f"judged must have a 0 or 1 for each element of {shape[-2:]}, got {shown(rows)}"
        )
    return np.array([digit == "1" for digit in digits], dtype=bool).reshape(shape[-2:])


@dataclass(frozen=True)
class Output:
    """One expected array: numbers ``hi + lo`` with rounding-error coefficients, or integers."""

    hi: np.ndarray
    lo: np.ndarray
    terms: np.ndarray  #: A
    angle: np.ndarray  #: B
    whole: bool = False  #: whether the values are integers: only equality passes
    judged: np.ndarray | None = None  #: booleans: False excludes an element
    relative_to: np.ndarray | None = None  #: each row's reference column, whose element becomes 0
    broadcasts: bool = False  #: whether a result may have a shape that broadcasts to this one
    #: the amplitude of the sines and cosines, for certificates only; files lack it
    amplitude: np.ndarray = field(default_factory=lambda: np.zeros(()))

    @classmethod
    def integers(cls, values: Any, judged: np.ndarray | None = None) -> Output:
        """Return an output of integers."""
        value = np.asarray(values, dtype=np.float64)
        zero = np.zeros_like(value)
        return cls(value, zero, zero, zero, whole=True, judged=judged)

    @classmethod
    def read(cls, data: Mapping[str, Any], broadcasts: bool = False) -> Output:
        """Return the output that :meth:`to_json` wrote."""
        shape: Any = data.get("shape")
        count = sized(shape)
        mask = _mask(data["judged"], shape) if "judged" in data else None
        if "values" in data:
            return cls.integers(read_integers(data), mask)
        hi, lo, a, b = (
            from_hex(data.get(name, []), shape, dtype).astype(np.float64) for name, dtype in _PARTS
        )
        own = None
        if data.get("relative_to") is not None:
            rows, width = shape[-2:] if len(shape) > 1 else (0, 0)
            own = read_integers({"values": data["relative_to"], "shape": [rows]})
            if not count or own.min() < 0 or own.max() >= width:
                raise ValueError(
                    f"relative_to must name one of {width} columns for each of {rows} rows, got "
                    f"{shown(data['relative_to'])}"
                )
        return cls(hi, lo, a, b, judged=mask, relative_to=own, broadcasts=broadcasts)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the output."""
        data: dict[str, Any] = {"shape": list(self.shape)}
        if self.whole:
            data = {"dtype": "int64", **data, "values": [int(v) for v in self.hi.ravel()]}
        else:
            parts = zip(_PARTS, (self.hi, self.lo, self.terms, self.angle), strict=True)
            data |= {name: to_hex(part, dtype) for (name, dtype), part in parts}
        if self.judged is not None:
            data["judged"] = ["".join(str(int(seen)) for seen in row) for row in self.judged]
        if self.relative_to is not None:
            data["relative_to"] = self.relative_to.tolist()
        return data

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the array."""
        return self.hi.shape

    def fits(self, actual: np.ndarray) -> bool:
        """Return whether a result has the expected shape, or may broadcast to it."""
        return self._shaped(actual).shape == self.shape

    def _shaped(self, actual: np.ndarray) -> np.ndarray:
        """Return a result broadcast to the expected shape where that is allowed and possible."""
        if not self.broadcasts:
            return actual
        while actual.ndim > len(self.shape) and actual.shape[0] == 1:
            actual = actual[0]
        with contextlib.suppress(ValueError):
            return np.broadcast_to(actual, self.shape)
        return actual

    def unit(self, actual: np.ndarray, dtype: str, **how: Any) -> np.ndarray:
        """Return the error unit of every element of a result.

        If ``relative_to`` is given, the element in the reference column is subtracted from its
        row, and the unit includes the rounding of that element.
        """
        terms = self.terms
        if self.relative_to is not None:
            constant = self._constant(actual)
            terms = terms + np.where(np.isfinite(constant), np.abs(constant), 0.0)
        truth = Truth(self.hi, terms, self.angle, self.amplitude)
        return np.broadcast_to(truth.unit(dtype, **how), self.shape)

    def _columns(self) -> np.ndarray:
        """Return the index of the reference column of every row."""
        assert self.relative_to is not None
        return np.broadcast_to(self.relative_to[:, None], (*self.shape[:-1], 1))

    def _constant(self, actual: np.ndarray) -> np.ndarray:
        return np.take_along_axis(actual, self._columns(), axis=-1)

    def score(self, actual: np.ndarray, dtype: str, **how: Any) -> float:
        """Return the largest ``|actual - expected| / unit``; a wrong shape or a NaN scores inf."""
        return self.worst(actual, dtype, **how)[1]

    def worst(self, actual: np.ndarray, dtype: str, **how: Any) -> tuple[float, float]:
        """Return the largest error and the largest score."""
        got = self._shaped(actual)
        if got.shape != self.shape or got.dtype.kind not in "fiuV":
            return np.inf, np.inf
        if self.whole:
            wrong = (got != self.hi) & (True if self.judged is None else self.judged)
            fits = got.dtype.kind in "iu" and not wrong.any()
            return (0.0, 0.0) if fits else (np.inf, np.inf)
        wide = got.astype(np.float64)
        unit = self.unit(wide, dtype, **how)
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.relative_to is not None:
                wide = wide - self._constant(wide)
            error = np.abs((wide - self.hi) - self.lo)
            # Where the unit is 0, a result must equal the float64 value.
            error = np.where((unit == 0) & (wide == self.hi), 0.0, error)
            score = np.where(error == 0, 0.0, error / unit)
        seen = True if self.judged is None else self.judged
        error, score = (
            np.where(seen, np.where(np.isnan(part), np.inf, part), 0.0) for part in (error, score)
        )
        return float(np.max(error, initial=0.0)), float(np.max(score, initial=0.0))

    def perturbed(self, result: np.ndarray, dtype: str, angles: str | None = None) -> np.ndarray:
        """Return a result with a wrong element, which a judge must reject.

        The element is changed by three times the tolerance, or by 1 if the tolerance is 0.
        """
        part = np.array(self._shaped(np.asarray(result)))
        size = np.abs(self.hi) + 1.0
        if self.judged is not None:
            size = size * self.judged
        if self.relative_to is not None:  # a changed reference column would change its whole row
            np.put_along_axis(size, self._columns(), 0.0, axis=-1)
        place = np.unravel_index(int(np.argmax(size)), self.shape)
        unit = 0.0 if self.whole else self.unit(part, dtype, angles=angles)[place]
        part[place] += 3.0 * budget(dtype) * unit or 1
        return part
