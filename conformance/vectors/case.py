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

    def score(self, actual: Any, dtype: str | None = None, **how: Any) -> float:
        """The largest ``|actual - truth| / unit``; a wrong shape scores inf, and so does NaN."""
        got = np.asarray(actual)
        if self.judged is not None and got.ndim <= len(self.shape):
            got = _broadcast(got, self.shape)
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
    """``got`` in ``shape`` if it broadcasts to it, else as it is."""
    try:
        return np.broadcast_to(got, shape)
    except ValueError:
        return got


def _refusable(flag: Any) -> bool:
    return bool(flag["refusable"] if isinstance(flag, Mapping) else flag.refusable)


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
    refusable: bool  #: whether an implementation may raise instead of answering
    data: Mapping[str, Any]  #: the case as the file has it

    @classmethod
    def read(
        cls, file: str, group: Mapping[str, Any], case: Mapping[str, Any], flags: Mapping[str, Any]
    ) -> VectorCase:
        """The case of its JSON form; ``flags`` are the definitions of the file."""
        refusable = any(_refusable(flags[name]) for name in case["flags"] if name in flags)
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
            refusable=refusable,
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
        given = result if isinstance(result, tuple | list) else (result,)
        names = [n for n in self.truth if n not in OPTIONAL]
        if not len(names) <= len(given) <= len(self.truth):
            return np.inf
        how = {"dtype": dtype, "angles": angles, "precision": precision}
        return max(
            self.truth[name].score(part, **how)
            for name, part in zip(self.truth, given, strict=False)
        )

    def passes(self, result: Any, *, dtype: str | None = None, **how: Any) -> bool:
        """Whether :meth:`judge` stays within the budget of the dtype."""
        part = result[0] if isinstance(result, tuple | list) and len(result) else result
        kind = dtype or str(np.asarray(part).dtype)
        limit = budget(kind, how.get("precision")) if not kind.startswith(("int", "uint")) else 0.0
        return self.judge(result, dtype=dtype, **how) <= limit

    def run(self, fn: Callable[..., Any], dtype: str | None = None) -> float:
        """``judge(fn(*arguments()))``; what ``fn`` raises is the caller's to handle."""
        return self.judge(fn(*self.arguments(dtype)), dtype=dtype)
