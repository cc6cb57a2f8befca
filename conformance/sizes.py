"""Find the sizes that a function takes, and make larger or smaller calls of calls of these sizes.

A function for one row of a batch, four heads or whole tiles of tokens refuses other sizes with a
message of its own. It is judged in the sizes that it takes: inputs are cut along the batch and the
heads, and padded at the end of the heads and tokens; what was padded is dropped from the results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from posenc_ref._namespace import dtype_name
from posenc_ref.backends import backend

from .harness.foreign import array_of, said, stated
from .harness.probes import HEADS

#: The axes of the arguments of the surfaces that are fitted. P stands for positions; C are the
#: chunks of a sequence. Axes that a surface does not name here are never cut.
_AXES = {
    "apply": ("BHSD", "P"), "apply_vjp": ("BHSD", "P", "BHSD"), "apply_offset": ("BHSD", "B"),
    "apply_qk": ("B---", "B---", "P", "P"), "scores": ("B---", "B---"), "add": ("BSD",),
    "decode": ("BH-D", "C"), "key_cache": ("BH-D", "C"),
}  # fmt: skip
#: The tensor layouts of (B, H, S, D) whose axes are those of the heads and tokens.
_LAYOUTS = {"bhsd": "BHSD", "bshd": "BSHD", "sbhd": "SBHD"}
#: The sizes that are tried: rows and heads exactly, tokens as a multiple.
_TRIED = {"B": (1, 2, 4, 8), "H": HEADS, "S": (2, 4, 8, 16, 32, 64, 128, 256), "C": (1,)}
#: The number of first calls whose refusals are looked into, and the most elements of one.
_CALLS, _SMALL = 12, 2**16

#: For some axes the number of rows or heads, or what the number of tokens is a multiple of.
Plan = dict[str, int]


class Sized:
    """A function on one surface, called in sizes that it takes.

    The plan is found when an early call is refused by an exception that Python code raises on
    purpose. Without one that helps, the exception passes.
    """

    def __init__(
        self, fn: Callable[..., Any], surface: str, layout: str, library: str, device: str | None,
        by_length: bool,
    ) -> None:  # fmt: skip
        self.fn, self.device, self.backend = fn, device, backend(library)
        rows = _LAYOUTS.get(layout, "----")
        axes = _AXES.get(surface, ())
        self.axes = tuple(rows if part == "BHSD" else part for part in axes)
        if surface == "apply_qk" and layout != "bhsd":  # the rows may lie on another axis
            self.axes = ()
        self.plan: Plan = {}
        self.refused = ""  #: the first exception for which a plan was found
        self.overwritten = False  #: whether a call wrote over the result of the one before
        self._calls, self._by_length = 0, by_length
        self._hopeless: set[str] = set()

    def __call__(self, *args: Any) -> Any:
        """Return the result of one call of any size."""
        self._calls += 1
        try:
            return self._made(self.plan, args)
        except Exception as error:
            found = self._learned(error, args)
            if found is None:
                raise
            self.plan, self.refused = found[0], self.refused or said(error)
            return found[1]

    @property
    def limit(self) -> str:
        """Return the plan in words, as a limit of the report."""
        words = {"B": "B = {}", "H": "H = {}", "S": "S a multiple of {}",
                 "C": "chunks of one token after the first"}  # fmt: skip
        kept = " and ".join(words[axis].format(n) for axis, n in self.plan.items())
        parts = [
            f"{what} of the report is {what} mod {self.plan[axis]} of the function"
            for axis, what in (("B", "row b"), ("H", "head h"))
            if self.plan.get(axis, 1) > 1
        ]
        more = f" ({', '.join(parts)})" if parts else ""
        return f"other sizes are refused ({self.refused}): judged in calls with {kept}{more}"

    def _learned(self, error: Exception, args: tuple[Any, ...]) -> tuple[Plan, Any] | None:
        """Return the first plan that an early refused call works with, and its result."""
        kind = re.sub(r"\d+", "0", said(error))
        early = self._calls <= _CALLS and bool(self.axes) and kind not in self._hopeless
        if not (early and stated(error)) or np.prod(np.shape(args[0])) > _SMALL:
            return None
        for plan in self._plans(args):
            try:
                return plan, self._made(plan, args)
            except Exception:  # this plan does not help
                continue
        self._hopeless.add(kind)
        return None

    def _plans(self, args: tuple[Any, ...]) -> Iterator[Plan]:
        """Yield plans with one, two and three further axes, on top of the present one."""
        sizes = self._sizes(args)
        for multiple in _TRIED["S"]:  # the first call may fill a larger tile by chance
            if multiple > self.plan.get("S", multiple):
                yield {**self.plan, "S": multiple}
        free = [axis for axis in "BHS" if axis in sizes and axis not in self.plan]
        if sizes.get("S", 2) == 1:  # the calls of decoding: they are never padded if refused alone
            free = [axis for axis in free if axis != "S"]
        if "C" in self.axes and "C" not in self.plan and not self._by_length:
            free.append("C")
        some: list[Sequence[str]] = [(axis,) for axis in free]
        some += [(a, b) for i, a in enumerate(free) for b in free[i + 1 :]]
        some += [free] * (len(free) == 3)
        for axes in some:
            for each in product(*(_TRIED[axis] for axis in axes)):
                yield {**self.plan, **dict(zip(axes, each, strict=True))}

    def _sizes(self, args: tuple[Any, ...]) -> dict[str, int]:
        """Return the sizes of the axes that may be cut or padded."""
        shape = np.shape(args[0])
        return {axis: n for axis, n in zip(self.axes[0], shape, strict=False) if axis in "BHS"}

    def _made(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        """Return the result of calls of a plan's sizes, put together."""
        sizes = self._sizes(args) if plan else {}
        if "C" in plan:
            first, *rest = args[1]
            args = (args[0], [first, *(1 for n in rest for _ in range(n))])
        cut = {axis: n for axis, n in plan.items() if axis in "BH" and sizes.get(axis, n) != n}
        pad = -sizes.get("S", 0) % plan.get("S", 1)
        if not (cut or pad) or 0 in sizes.values():
            return self.fn(*args)
        starts = {axis: range(0, sizes[axis], n) for axis, n in cut.items()}
        places, raw, kept = [], [], []
        for at in product(*starts.values()):
            place = dict(zip(starts, at, strict=True))
            result = self.fn(*self._piece(plan, place, pad, sizes, args))
            parts = result if isinstance(result, tuple | list) else (result,)
            places.append(place)
            raw.append(parts)
            kept.append([self._read(part) for part in parts])
        again = [[self._read(part)[0] for part in parts] for parts in raw[:-1]]
        for before, after in zip(kept, again, strict=False):
            same = zip(before, after, strict=True)
            self.overwritten |= not all(np.array_equal(a[0], b, equal_nan=True) for a, b in same)
        whole = tuple(self._joined(plan, places, sizes, each) for each in zip(*kept, strict=True))
        return whole if isinstance(result, tuple | list) else whole[0]

    def _read(self, part: Any) -> tuple[np.ndarray, str]:
        values, dtype = array_of(part, self.backend.asnumpy)
        return np.array(values), dtype

    def _piece(
        self, plan: Plan, place: Plan, pad: int, sizes: Plan, args: tuple[Any, ...]
    ) -> list[Any]:
        """Return the arguments of one call."""
        piece: list[Any] = []
        for axes, arg in zip(self.axes, args, strict=True):
            if axes == "C":
                piece.append(arg)
                continue
            if axes == "P":
                axes = ("S", "BS", "-BS")[len(np.shape(arg)) - 1]
                arg = self._later(arg, pad)
            elif pad and "S" in axes:
                arg = _taken(arg, axes.index("S"), 0, sizes["S"] + pad)
            for axis, start in place.items():
                if axis in axes:
                    arg = _taken(arg, axes.index(axis), start, start + plan[axis])
            piece.append(arg)
        return piece

    def _later(self, positions: Any, pad: int) -> Any:
        """Return positions with ``pad`` more at the end: consecutive, or the largest again."""
        if not pad:
            return positions
        dtype, values = dtype_name(positions), self.backend.asnumpy(positions)
        last, step = values[..., -1:], np.arange(1, pad + 1, dtype=values.dtype)
        more = np.repeat(values.max(-1, keepdims=True), pad, -1) if self._by_length else last + step
        return self.backend.asarray(np.concatenate([values, more], -1), dtype, self.device)

    def _joined(
        self, plan: Plan, places: list[Plan], sizes: Plan, each: Sequence[tuple[np.ndarray, str]]
    ) -> Any:
        """Return the results of all pieces as one array of the library."""
        axes, shape = self.axes[0], list(each[0][0].shape)
        for axis, size in sizes.items():
            if axis in plan and len(shape) == len(axes):
                shape[axes.index(axis)] = size
        whole = np.zeros(shape, each[0][0].dtype)
        for place, (values, _) in zip(places, each, strict=True):
            to, of = [slice(None)] * whole.ndim, [slice(None)] * whole.ndim
            for i, axis in enumerate(axes[: whole.ndim]):
                if axis in sizes and axis in plan:
                    start = place.get(axis, 0)
                    stop = min(start + plan[axis], sizes[axis]) if axis in place else sizes[axis]
                    to[i], of[i] = slice(start, stop), slice(0, stop - start)
            whole[tuple(to)] = values[tuple(of)]
        return self.backend.asarray(whole, each[0][1], self.device)


def _taken(array: Any, axis: int, start: int, stop: int) -> Any:
    """Return a part of one axis; past its end, the last element is repeated."""
    size = np.shape(array)[axis]
    part: Any = slice(start, stop)
    if stop > size:
        part = np.minimum(np.arange(start, stop), size - 1)
    return array[(*[slice(None)] * axis, part)]
