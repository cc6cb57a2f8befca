"""Call the judged function with NumPy values, converted to its array library and tensor layout."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posenc_ref._namespace import dtype_name
from posenc_ref.backends import Backend, backend

from .foreign import Malformed, OwnLimit, Refused, array_of, plain, refusals, stated
from .located.record import Call
from .pace import ENDED, Pace
from .tensor_layouts import in_layout, restored

__all__ = ["Driver", "Malformed", "Refused"]


@dataclass
class Driver:
    """The judged function ``fn``, called with arrays of its own library.

    Arguments and results are NumPy arrays here. Float results are converted to float64, and
    their dtypes are recorded. The driver also records whether ``fn`` overwrites its inputs.
    """

    fn: Callable[..., Any]
    backend_name: str = "numpy"
    dtype: str = "float32"
    tensor_layout: str = "bhsd"
    device: str | None = None
    inplace: bool = False
    keeps_dtype: bool = False  #: whether the result must have the dtype of the input
    factory: Callable[[], Callable[..., Any]] | None = None  #: makes a fresh instance of ``fn``
    axes: int = 1  #: number of position axes; ``apply`` gets positions (A, B, S) if > 1
    names: tuple[str, ...] = ("x", "positions")  #: names of the array arguments, for reports
    calls: int = 0
    mutated: str | None = None  #: the name of the first input that was overwritten
    out_dtypes: set[str] = field(default_factory=set)
    made: Call | None = None  #: the last call, until its result is judged
    renewed: bool = False  #: whether ``fn`` was made anew, for few calls
    stated: bool = False  #: whether a call was refused on purpose
    #: The rows that a table needed for the positions of calls, each more than all before.
    needed: list[int] = field(default_factory=list)
    pace: Pace = field(default_factory=Pace)  #: what the calls cost
    view: bool = False  #: whether ``fn`` calls another driver, which measures its calls

    @property
    def backend(self) -> Backend:
        """Return the array library that ``fn`` takes."""
        return backend(self.backend_name)

    def fresh(self) -> Driver:
        """Return a driver of a fresh instance of the function."""
        assert self.factory is not None
        return replace(self, fn=self.factory(), calls=0, made=None, renewed=True, needed=[])

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """Return ``values`` rounded to the declared dtype, as ``fn`` receives them, in float64."""
        return self.backend.asnumpy(self._send(values))

    def copied(self, values: np.ndarray) -> np.ndarray:
        """Return learned ``values`` as results hold them, in float64.

        They are rounded to the declared dtype, unless the results are float64: then they are exact.
        """
        return np.asarray(values) if "float64" in self.out_dtypes else self.rounded(values)

    def call(self, *args: Any, memory: str = "contiguous") -> Any:
        """Call ``fn`` with converted arrays and unchanged plain values; return its raw result.

        ``memory`` is how the first array lies in memory: "contiguous"; "transposed", a view with
        heads and tokens exchanged; or "sliced", the first half of twice as many channels.

        Raises :class:`Refused` for any exception of ``fn`` but KeyboardInterrupt.
        """
        if self.pace.over():
            raise Refused(OwnLimit(ENDED))
        self._need(args)
        sent = self._sent(args, memory)
        before = [self._state(s) for s in sent if not _plain(s)]
        self.calls += 1
        memory = "contiguous" if memory != "contiguous" and _contiguous(sent[0]) else memory
        self.made = Call(self.calls, memory, self.renewed, heads=self._heads(args))
        process = os.getpid()
        try:
            with refusals(), np.errstate():  # the function may change these settings
                result = self._timed(sent)
                if not self.view and self.pace.unsure():  # the first call of a shape may compile
                    self._timed(self._sent(args, memory))
                    self.pace.decide()
        except Refused as error:
            self.stated = self.stated or stated(error.cause)
            raise
        finally:
            if os.getpid() != process:  # fn forked, and returned in both processes
                os._exit(0)
        after = [s for s in sent if not _plain(s)]
        for i, (old, new) in enumerate(zip(before, after, strict=True)):
            if self.mutated is None and not self._kept(old, new):
                whole = "int" in dtype_name(new)
                name = self.names[min(i, len(self.names) - 1)]
                self.mutated = "positions" if whole and name == "x" else name
        return plain(result)

    def _need(self, args: tuple[Any, ...]) -> None:
        """Record how many rows a table needs for the positions of a call."""
        for name, positions in zip(self.names, args, strict=False):
            known = isinstance(positions, np.ndarray) and positions.dtype.kind in "iu"
            if name == "positions" and self.axes == 1 and known and positions.size:
                rows = int(positions.max()) + 1
                if not self.needed or rows > self.needed[-1]:
                    self.needed.append(rows)

    def _timed(self, sent: list[Any]) -> Any:
        """Call ``fn`` and measure the seconds that it takes."""
        if self.view:
            return self.fn(*sent)
        with self.pace.timed():
            return self.fn(*sent)

    def _sent(self, args: tuple[Any, ...], memory: str) -> list[Any]:
        """Return the arguments as the function gets them; the first lies in memory as asked."""
        sent = [self._send(a) if isinstance(a, np.ndarray) else a for a in args]
        if memory != "contiguous":
            sent[0] = self._laid(args[0], memory)
        return sent

    def _state(self, array: Any) -> Any:
        """Return what changes if an argument is written to.

        For Dask, this is the name of its graph: to compute the values would double its time.
        """
        return array.name if self.backend.lazy else np.array(self.backend.asnumpy(array))

    def _kept(self, old: Any, new: Any) -> bool:
        """Return whether an argument still has its values, as far as it can be read."""
        if self.backend.lazy:
            return bool(self._state(new) == old)
        try:
            return _same(old, array_of(new, self.backend.asnumpy)[0])
        except Malformed:
            return False

    def array(self, result: Any) -> np.ndarray:
        """Return one result as a NumPy array (float64 or integers), and record its dtype."""
        if type(result) is list and not result:
            return np.zeros(0, np.int64)  # an empty list has no dtype
        host = isinstance(result, np.ndarray | np.generic | bool | int | float | list)
        library = backend("numpy") if host else self.backend
        values, dtype = array_of(result, library.asnumpy)
        self.out_dtypes.add(dtype)
        return values

    def apply(self, x: np.ndarray, positions: np.ndarray, memory: str = "contiguous") -> np.ndarray:
        """Call ``fn`` with x (B, H, S, D) in the tensor layout; return y as (B, H, S, D)."""
        given, at = self.arguments(x, positions)
        result = self.call(given, at, memory=memory)
        if self.made is not None:
            self.made = replace(self.made, sizes=x.shape[:3], positions=positions)
        y = self.array(result)
        if y.shape != given.shape:
            raise Malformed(f"expected shape {given.shape}, as x has, got {y.shape}")
        return self.restored(y, x.shape)

    def accepts(self, x: np.ndarray, positions: np.ndarray) -> bool:
        """Return whether the function accepts x (B, H, S, D) at these positions."""
        try:
            self.apply(x, positions)
        except Refused:
            return False
        return True

    def restored(self, y: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return a result in the tensor layout as an array of ``shape`` (B, H, S, D)."""
        return restored(y, self.tensor_layout, shape)

    def arguments(self, x: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x (B, H, S, D) and its positions, both converted to the tensor layout.

        If there are several position axes, positions (S,) or (B, S) are repeated for each
        axis.
        """
        batch, length = x.shape[0], x.shape[2]
        if self.axes > 1 and positions.ndim < 3:
            positions = np.broadcast_to(positions, (self.axes, batch, length)).copy()
        if self.tensor_layout in ("thd", "t(hd)"):
            rows = positions if positions.ndim > 1 else np.tile(positions, (batch, 1))
            positions = rows.reshape(*rows.shape[:-2], -1)
        return in_layout(x, self.tensor_layout), positions

    def taken(self) -> Call | None:
        """Return the last call if there was one since this was last asked."""
        made, self.made = self.made, None
        return made

    def _heads(self, args: tuple[Any, ...]) -> tuple[int, int] | None:
        """Return the numbers of heads of q and k if both are arguments with an axis of heads."""
        axis = {"bhsd": 1, "bshd": 2, "sbhd": 2}.get(self.tensor_layout)
        both = self.names[:2] == ("q", "k") and len(args) > 1  # a hint may try x alone
        if not both or axis is None or np.ndim(args[1]) != 4:
            return None
        return int(args[0].shape[axis]), int(args[1].shape[axis])

    def _laid(self, values: np.ndarray, memory: str) -> Any:
        """Return converted ``values`` as a view that is not contiguous."""
        if memory == "transposed":
            axes = (1, 2) if values.ndim > 2 else (0, 1)
            return self._send(np.ascontiguousarray(values.swapaxes(*axes))).swapaxes(*axes)
        return self._send(np.concatenate([values, values], axis=-1))[..., : values.shape[-1]]

    def _send(self, values: np.ndarray) -> Any:
        kind = "int64" if np.issubdtype(values.dtype, np.integer) else self.dtype
        if values.dtype == np.int32:
            kind = "int32"  # one probe sends int32; all other integers are int64
        if np.issubdtype(values.dtype, np.floating) and values.ndim and values.dtype == np.float32:
            # Fractional positions are float32, and float64 where angles must be.
            kind = "float64" if self.dtype == "float64" else "float32"
        if values.dtype == np.bool_:
            return values
        return self.backend.asarray(values, kind, self.device)


def _contiguous(array: Any) -> bool:
    """Return whether an array of any library lies in one piece, in the order of its indices."""
    flags = getattr(array, "flags", None)
    if flags is not None:
        return bool(flags.c_contiguous)
    # Arrays of JAX have neither: they have no strides.
    return bool(array.is_contiguous()) if hasattr(array, "is_contiguous") else True


def _plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str | list | tuple | type(None))


def _same(old: np.ndarray, new: np.ndarray) -> bool:
    # Almost all arrays are equal: the slow search for NaN is rarely needed.
    nan = old.dtype.kind == "f"
    return np.array_equal(old, new) or (nan and np.array_equal(old, new, equal_nan=True))
