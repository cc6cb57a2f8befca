"""One golden vector: its inputs, its expected outputs, and the score of a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from posenc_ref import Encoding, from_dict
from posenc_ref._namespace import dtype_name, is_array, to_host
from posenc_ref._text import shown
from posenc_ref.accuracy import ROUNDOFF, budget
from posenc_ref.conformance.exact.bits import read_array
from posenc_ref.conformance.exact.output import Output
from posenc_ref.limits import LENGTH

from .surfaces import LISTS, OPTIONAL, SURFACES


@dataclass(frozen=True)
class VectorCase:
    """A golden vector, which can judge a function of any library.

    Call the function with :meth:`arguments`; ``judge`` returns the largest score of its result in
    units, and ``passes`` compares the score with the budget of the dtype.

    Attributes
    ----------
    id : str
        The unique name, which is never reused for another case.
    file : str
        The name of its file.
    group : str
        The id of its group: cases with the same encoding.
    surface : str
        The name of the function's signature, such as "apply" for ``fn(x, positions) -> y``.
    declared : Mapping[str, Any] | None
        The encoding in JSON form; None for plain functions.
    spec : str
        Where the definition is published.
    comment : str
        What the case shows.
    flags : tuple[str, ...]
        The names of properties of its inputs, such as "FirstPositions".
    kills : tuple[str, ...]
        The wrong functions in ``tests/mutants`` and ``tests/conformance/vectors`` that fail this
        case.
    level : str
        "required"; "optional" (the function may raise instead); "note" (any result passes).
    data : Mapping[str, Any]
        The JSON form of the case.
    """

    id: str
    file: str
    group: str
    surface: str
    declared: Mapping[str, Any] | None
    spec: str
    comment: str
    flags: tuple[str, ...]
    kills: tuple[str, ...]
    level: str
    data: Mapping[str, Any]

    @classmethod
    def read(cls, file: str, group: Mapping[str, Any], case: Mapping[str, Any]) -> VectorCase:
        """Return a case from the JSON form of its group and the JSON form of the case."""
        ident, surface, declared = (group[name] for name in ("id", "surface", "encoding"))
        own: dict[str, Any] = {name: case[name] for name in ("id", "spec", "comment", "level")}
        own |= {name: tuple(case[name]) for name in ("flags", "kills")}
        return cls(file=file, group=ident, surface=surface, declared=declared, data=case, **own)

    @cached_property
    def encoding(self) -> Encoding | None:
        """Return the declared encoding, or None for plain functions."""
        if self.declared is None:
            return None
        with self._named("encoding"):
            found = from_dict(self.declared)
            if not isinstance(found, Encoding):
                raise ValueError(f"must be an encoding, got {shown(found)}")
        return found

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Return the inputs by name: NumPy arrays and plain numbers."""
        found = {}
        for name, data in self.data["inputs"].items():
            with self._named(f"inputs, {shown(name)}"):
                found[name] = _checked(read_array(data))
        return found

    @cached_property
    def truth(self) -> dict[str, Output]:
        """Return the expected outputs by name."""
        bias, found = self.surface == "bias", {}
        for name, data in self.data["truth"].items():
            with self._named(f"truth, {shown(name)}"):
                if not isinstance(data, Mapping):
                    raise ValueError(f"must be an object, got {shown(data)}")
                found[name] = Output.read(data, bias)
        return found

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        """Within this context, an error names the file, the case and ``what``."""
        try:
            yield
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.file}: {self.id}: {what}: {error}") from None

    def arguments(self, dtype: str | None = None) -> tuple[Any, ...]:
        """Return copies of the inputs in call order, with float32 arrays as ``dtype``.

        Every float32 input is exact in float16 and bfloat16 too.
        """
        names = [name for name in SURFACES[self.surface].arguments if name in self.inputs]
        return tuple(self._argument(name, dtype) for name in names)

    def _argument(self, name: str, dtype: str | None) -> Any:
        value = self.inputs[name]
        if not isinstance(value, np.ndarray):
            return value
        if name in LISTS:
            return value.tolist()
        return value.astype(dtype if dtype and value.dtype == np.float32 else value.dtype)

    def shaped(self, result: Any) -> bool:
        """Return whether the result has the expected number of arrays, with the expected shapes."""
        judged = self._judged(result)
        return bool(judged) and all(truth.fits(part) for truth, part, _ in judged)

    def judge(self, result: Any, *, dtype: str | None = None, **how: Any) -> float:
        """Return the largest score of a result: an array, or a tuple in the order of ``truth``.

        Arrays may be of any library, or lists.  ``dtype`` is the dtype of the computation, if it
        differs from that of the array; ``angles`` and ``precision`` are those of
        :class:`posenc_ref.accuracy.Truth`.
        """
        scores = (t.score(part, dtype or name, **how) for t, part, name in self._judged(result))
        return max(scores, default=np.inf)

    def _judged(self, result: Any) -> list[tuple[Output, np.ndarray, str]]:
        """Return the expected output, the array and its dtype for each part of a result.

        The list is empty if the number of parts is wrong.
        """
        several = isinstance(result, tuple) or (isinstance(result, list) and len(self.truth) > 1)
        given = tuple(result) if several else (result,)
        needed = sum(name not in OPTIONAL for name in self.truth)
        if not needed <= len(given) <= len(self.truth):
            return []
        pairs = zip(self.truth.values(), map(_host, given), strict=False)
        return [(truth, self._halved(part), name) for truth, (part, name) in pairs]

    def _halved(self, table: np.ndarray) -> np.ndarray:
        """Return a cos or sin table without the repeated columns that its layout may have."""
        if self.surface != "cos_sin":
            return table
        pairs = self.truth["cos"].shape[-1]
        if table.ndim != 2 or table.shape[1] != 2 * pairs:
            return table
        half = getattr(self.encoding, "layout", "half") == "half"
        one, two = np.split(table, 2, axis=1) if half else (table[:, ::2], table[:, 1::2])
        return one if np.array_equal(one, two) else table

    def passes(self, result: Any, *, dtype: str | None = None, **how: Any) -> bool:
        """Return whether the score of :meth:`judge` is within the budget of the dtype."""
        names = [dtype or name for _, _, name in self._judged(result)]
        limit = max((budget(name, how.get("precision")) for name in names), default=0.0)
        return self.judge(result, dtype=dtype, **how) <= limit

    def run(self, fn: Callable[..., Any], dtype: str | None = None) -> float:
        """Return ``judge(fn(*arguments()))``; exceptions of ``fn`` are passed on."""
        return self.judge(fn(*self.arguments(dtype)), dtype=dtype)


def _checked(value: Any) -> Any:
    """Return an input; raise ValueError for a number that is neither a size nor a position."""
    number = isinstance(value, int) and not isinstance(value, bool)
    if not (isinstance(value, np.ndarray | str) or (number and abs(value) <= LENGTH)):
        raise ValueError(f"must be an array, a word or an integer, got {shown(value)}")
    return value


def _host(value: Any) -> tuple[np.ndarray, str]:
    """Return the value as a NumPy array, and its floating dtype, or float64 if it has none."""
    array = to_host(value) if is_array(value) else np.asarray(value)
    name = dtype_name(value) if is_array(value) else str(array.dtype)
    return array, name if name in ROUNDOFF else "float64"
