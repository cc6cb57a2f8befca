"""One vector: inputs, the truth for each output, and the judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from posenc_ref import Encoding, from_dict
from posenc_ref.accuracy import Truth, budget

from .bits import from_hex, read_array
from .surfaces import OPTIONAL, SURFACES


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

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Output:
        """The output of its JSON form."""
        shape = data["shape"]
        if "values" in data:
            value = np.array(data["values"], dtype=np.float64).reshape(shape)
            zero = np.zeros_like(value)
            return cls(tuple(shape), value, zero, zero, zero, whole=True)
        hi, lo = (from_hex(data[name], shape, "float64") for name in ("hi", "lo"))
        a, b = (from_hex(data[name], shape, "float32").astype(np.float64) for name in ("A", "B"))
        judged, columns = data.get("judged"), data.get("relative_to")
        mask = None
        if judged is not None:
            mask = np.array([[digit == "1" for digit in row] for row in judged])
        return cls(
            tuple(shape), hi, lo, a, b, False, mask, None if columns is None else np.array(columns)
        )

    def fits(self, actual: Any) -> bool:
        """Whether an array has the shape of the truth, or broadcasts to it where that will do."""
        return self._shaped(actual).shape == self.shape

    def _shaped(self, actual: Any) -> np.ndarray:
        got = np.asarray(actual)
        return got if self.judged is None else _broadcast(got, self.shape)

    def score(self, actual: Any, dtype: str | None = None, **how: Any) -> float:
        """The largest ``|actual - truth| / unit``; a wrong shape scores inf, and so does NaN."""
        got = self._shaped(actual)
        if got.shape != self.shape or got.dtype.kind not in "fiuV":
            return np.inf
        if self.whole:
            return 0.0 if got.dtype.kind in "iu" and np.array_equal(got, self.hi) else np.inf
        dtype = dtype or (str(got.dtype) if got.dtype.kind in "fV" else "float64")
        wide, terms = got.astype(np.float64), self.terms
        if self.relative_to is not None:
            constant = np.take_along_axis(
                wide, np.broadcast_to(self.relative_to[:, None], (*self.shape[:-1], 1)), axis=-1
            )
            with np.errstate(invalid="ignore"):
                wide = wide - constant
            terms = terms + np.where(np.isfinite(constant), np.abs(constant), 0.0)
        unit = np.broadcast_to(Truth(self.hi, terms, self.angle).unit(dtype, **how), self.shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.abs((wide - self.hi) - self.lo)
            # Where the unit is 0 only equality passes, to the last bit of a float64.
            error = np.where((unit == 0) & (wide == self.hi), 0.0, error)
            score = np.where(error == 0, 0.0, error / unit)
        score = np.where(np.isnan(score), np.inf, score)
        if self.judged is not None:
            score = np.where(self.judged, score, 0.0)
        return float(np.max(score, initial=0.0))


def _broadcast(got: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """``got`` in ``shape`` if it broadcasts to it (a batch of one put aside), else as it is."""
    while got.ndim > len(shape) and got.shape[0] == 1:
        got = got[0]
    try:
        return np.broadcast_to(got, shape)
    except ValueError:
        return got


@dataclass(frozen=True)
class VectorCase:
    """One vector of a file, ready to judge a function in any library.

    ``judge`` takes what the function returned for :meth:`arguments` and gives the worst score in
    units; ``passes`` compares it with the budget of the dtype.
    """

    id: str
    file: str
    group: str
    surface: str
    declared: Mapping[str, Any] | None  #: the encoding in JSON form; None for plain functions
    spec: str  #: where the definition is published
    comment: str
    flags: tuple[str, ...]
    kills: tuple[str, ...]  #: wrong implementations of the corpus that this case alone rejects
    level: str  #: "required"; "optional": it may raise instead; "note": any answer will do
    data: Mapping[str, Any]  #: the case as the file has it

    @classmethod
    def read(cls, file: str, group: Mapping[str, Any], case: Mapping[str, Any]) -> VectorCase:
        """The case of its JSON form."""
        return cls(
            id=case["id"],
            file=file,
            group=group["id"],
            surface=group["surface"],
            declared=group["encoding"],
            spec=case["spec"],
            comment=case["comment"],
            flags=tuple(case["flags"]),
            kills=tuple(case["kills"]),
            level=case["level"],
            data=case,
        )

    @cached_property
    def encoding(self) -> Encoding | None:
        """The declared encoding as a value."""
        return None if self.declared is None else from_dict(self.declared)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """The inputs by name: NumPy arrays and plain numbers."""
        return {name: read_array(data) for name, data in self.data["inputs"].items()}

    @cached_property
    def truth(self) -> dict[str, Output]:
        """The truth of every output by name."""
        return {name: Output.read(data) for name, data in self.data["truth"].items()}

    def arguments(self, dtype: str | None = None) -> tuple[Any, ...]:
        """What a function of this surface is called with; copies, float32 arrays as ``dtype``.

        The numbers of every float32 input are exact in float16 and bfloat16 too.
        """
        made = (
            self.inputs[name] for name in SURFACES[self.surface].arguments if name in self.inputs
        )
        return tuple(
            a.astype(dtype if dtype and a.dtype == np.float32 else a.dtype)
            if isinstance(a, np.ndarray)
            else a
            for a in made
        )

    def shaped(self, result: Any) -> bool:
        """Whether the result has as many arrays as it should, of the shapes they should have."""
        given = self._parts(result)
        pairs = zip(self.truth.values(), given, strict=False)
        return bool(given) and all(truth.fits(part) for truth, part in pairs)

    def judge(
        self,
        result: Any,
        *,
        dtype: str | None = None,
        angles: str | None = None,
        precision: str | None = None,
    ) -> float:
        """The worst score of a result: an array, or a tuple of them in the order of ``truth``.

        ``dtype`` says what the result was computed in, if not in the dtype of the array; the
        others are those of :class:`posenc_ref.accuracy.Truth`.
        """
        given = self._parts(result)
        if not given:
            return np.inf
        how = {"dtype": dtype, "angles": angles, "precision": precision}
        return max(
            self.truth[name].score(part, **how)
            for name, part in zip(self.truth, given, strict=False)
        )

    def _parts(self, result: Any) -> tuple[Any, ...]:
        """The arrays of a result, in the order of ``truth``; none if there are too few or many."""
        given = tuple(result) if isinstance(result, tuple | list) else (result,)
        needed = sum(name not in OPTIONAL for name in self.truth)
        if not needed <= len(given) <= len(self.truth):
            return ()
        if self.surface == "cos_sin":
            return tuple(self._halved(np.asarray(part)) for part in given)
        return given

    def _halved(self, table: np.ndarray) -> np.ndarray:
        """A table (S, d) that holds every column twice, as the declared layout repeats them."""
        pairs = self.truth["cos"].shape[-1]
        if table.ndim != 2 or table.shape[1] != 2 * pairs:
            return table
        half = getattr(self.encoding, "layout", "half") == "half"
        one, two = (table[:, :pairs], table[:, pairs:]) if half else (table[:, ::2], table[:, 1::2])
        return one if np.array_equal(one, two) else table

    def passes(self, result: Any, *, dtype: str | None = None, **how: Any) -> bool:
        """Whether :meth:`judge` stays within the budget of the dtype."""
        part = result[0] if isinstance(result, tuple | list) and len(result) else result
        kind = dtype or str(np.asarray(part).dtype)
        limit = budget(kind, how.get("precision")) if not kind.startswith(("int", "uint")) else 0.0
        return self.judge(result, dtype=dtype, **how) <= limit

    def run(self, fn: Callable[..., Any], dtype: str | None = None) -> float:
        """``judge(fn(*arguments()))``; what ``fn`` raises is the caller's to handle."""
        return self.judge(fn(*self.arguments(dtype)), dtype=dtype)
