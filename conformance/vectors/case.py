"""One vector: inputs, the truth for each output, and the judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from posenc_ref import Encoding, from_dict
from posenc_ref._namespace import dtype_name, is_array, to_host
from posenc_ref.accuracy import ROUNDOFF, budget
from posenc_ref.conformance.exact.bits import read_array
from posenc_ref.conformance.exact.output import Output

from .surfaces import LISTS, OPTIONAL, SURFACES


@dataclass(frozen=True)
class VectorCase:
    """One vector of a file, ready to judge a function in any library.

    ``judge`` takes what the function returned for :meth:`arguments` and gives the worst score in
    units; ``passes`` compares it with the budget of the dtype.

    Attributes
    ----------
    id : str
        Its name, which is never used for another case.
    file : str
        The file that it is in.
    group : str
        The id of the cases that share its encoding.
    surface : str
        The shape in which the function is called.
    declared : Mapping[str, Any] | None
        The encoding in JSON form; None for plain functions.
    spec : str
        Where the definition is published.
    comment : str
        What the case shows.
    flags : tuple[str, ...]
        What its inputs are like, by name.
    kills : tuple[str, ...]
        Wrong implementations of the corpus that this case rejects when it runs alone.
    level : str
        "required"; "optional": it may raise instead; "note": any answer will do.
    data : Mapping[str, Any]
        The case as the file has it.
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
        """The case from its JSON form."""
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
        bias = self.surface == "bias"
        return {name: Output.read(data, bias) for name, data in self.data["truth"].items()}

    def arguments(self, dtype: str | None = None) -> tuple[Any, ...]:
        """Copies of the inputs in call order, float32 arrays as ``dtype``.

        The numbers of every float32 input are exact in float16 and bfloat16 too.
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
        """Whether the result has as many arrays as it should, of the shapes they should have."""
        judged = self._judged(result)
        return bool(judged) and all(truth.fits(part) for truth, part, _ in judged)

    def judge(self, result: Any, *, dtype: str | None = None, **how: Any) -> float:
        """The worst score of a result: an array, or a tuple of them in the order of ``truth``.

        Arrays of any library, and lists.  ``dtype`` says what the result was computed in, if not
        in the dtype of the array; ``angles`` and ``precision`` are those of
        :class:`posenc_ref.accuracy.Truth`.
        """
        scores = (t.score(part, dtype or name, **how) for t, part, name in self._judged(result))
        return max(scores, default=np.inf)

    def _judged(self, result: Any) -> list[tuple[Output, np.ndarray, str]]:
        """The truth, the array and its dtype for each part of a result.

        Empty if there are too few or too many parts.
        """
        several = isinstance(result, tuple) or (isinstance(result, list) and len(self.truth) > 1)
        given = tuple(result) if several else (result,)
        needed = sum(name not in OPTIONAL for name in self.truth)
        if not needed <= len(given) <= len(self.truth):
            return []
        pairs = zip(self.truth.values(), map(_host, given), strict=False)
        return [(truth, self._halved(part), name) for truth, (part, name) in pairs]

    def _halved(self, table: np.ndarray) -> np.ndarray:
        """A table of cos or sin that may hold every column twice, as the layout repeats them."""
        if self.surface != "cos_sin":
            return table
        pairs = self.truth["cos"].shape[-1]
        if table.ndim != 2 or table.shape[1] != 2 * pairs:
            return table
        half = getattr(self.encoding, "layout", "half") == "half"
        one, two = (table[:, :pairs], table[:, pairs:]) if half else (table[:, ::2], table[:, 1::2])
        return one if np.array_equal(one, two) else table

    def passes(self, result: Any, *, dtype: str | None = None, **how: Any) -> bool:
        """Whether :meth:`judge` stays within the budget of the dtype."""
        names = [dtype or name for _, _, name in self._judged(result)]
        limit = max((budget(name, how.get("precision")) for name in names), default=0.0)
        return self.judge(result, dtype=dtype, **how) <= limit

    def run(self, fn: Callable[..., Any], dtype: str | None = None) -> float:
        """``judge(fn(*arguments()))``; what ``fn`` raises is the caller's to handle."""
        return self.judge(fn(*self.arguments(dtype)), dtype=dtype)


def _host(value: Any) -> tuple[np.ndarray, str]:
    """An array on the host and the name of its dtype; float64 where that is no floating dtype."""
    array = to_host(value) if is_array(value) else np.asarray(value)
    name = dtype_name(value) if is_array(value) else str(array.dtype)
    return array, name if name in ROUNDOFF else "float64"
