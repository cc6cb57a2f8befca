"""Other surfaces seen as functions that ``identify`` measures: apply, table and slopes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.backends import Backend
from posenc_ref.conformance.harness.tensor_layouts import TENSOR_LAYOUTS
from posenc_ref.conformance.oracle.transforms import adjoint
from posenc_ref.conformance.rotary.as_apply import Inexpressible, starts

Function = Callable[..., Any]
#: The size of inputs that makes the eps of a norm negligible; less than the largest float16.
_LOUD = 2.0**8
#: The most tokens of earlier calls.
_EARLIER = 2**11
#: (fn, library, tensor layout, head_dim) -> the function as one of another surface.
Maker = Callable[[Function, Backend, str, int], Function]


@dataclass(frozen=True)
class View:
    """How a function of one surface becomes a function of ``surface``."""

    surface: str
    makers: tuple[Maker, ...]  #: for queries and for keys, if they differ
    #: Returns the encoding to declare for the function, from that of the view.
    encoding: Callable[[Any], Any] = lambda e: e
    #: Makers to try in turn if the result of the first one has no encoding.
    fallbacks: tuple[Maker, ...] = ()


def _host(library: Backend, positions: Any) -> np.ndarray:
    p = np.asarray(library.asnumpy(positions))
    if p.dtype.kind not in "iu":
        raise Inexpressible("positions must be integers on this surface")
    return p


def _side(n: int) -> Maker:
    def maker(fn: Function, library: Backend, layout: str, dim: int) -> Function:
        # Copies, because the function may write over its inputs.
        return lambda x, p: fn(x, x.clone() if hasattr(x, "clone") else x.copy(), p, p)[n]

    return maker


def _gradient(fn: Function, library: Backend, layout: str, dim: int) -> Function:
    return lambda x, p: fn(x, p, x)


def _from_offset(fn: Function, library: Backend, layout: str, dim: int) -> Function:
    def view(x: Any, positions: Any) -> Any:
        at = starts(_host(library, positions))
        batch = x.shape[1 if layout == "sbhd" else 0]
        offset = np.broadcast_to(at, (batch,)).astype(np.int64)
        return fn(x, library.asarray(offset, "int64", None))

    return view


def _one_call(fn: Function, library: Backend, layout: str, dim: int) -> Function:
    def view(x: Any, positions: Any) -> Any:
        at = starts(_host(library, positions))
        if at.ndim:
            raise Inexpressible("all rows must have the same positions")
        return fn([(x, int(at))])[0]

    return view


def _after_tokens(fn: Function, library: Backend, layout: str, dim: int) -> Function:
    """Return the second call of an instance, after one with as many tokens as its offset."""
    return _after(fn, library, layout, lambda at: [at])


def _after_calls(fn: Function, library: Backend, layout: str, dim: int) -> Function:
    """Return a call of an instance after as many calls of one token as its offset."""
    return _after(fn, library, layout, lambda at: [1] * at)


def _after(
    fn: Function, library: Backend, layout: str, earlier: Callable[[int], list[int]]
) -> Function:
    axis = {"bhsd": 2, "sbhd": 0}.get(layout, 1)

    def view(x: Any, positions: Any) -> Any:
        at = starts(_host(library, positions))
        if at.ndim or not 0 <= at <= _EARLIER:
            raise Inexpressible(f"all rows must start at one position up to {_EARLIER}")
        calls, offset, kind = [], 0, str(x.dtype).rpartition(".")[2]
        for n in earlier(int(at)):
            shape = [n if i == axis else side for i, side in enumerate(x.shape)]
            calls.append((library.asarray(np.zeros(shape), kind, None), offset))
            offset += n
        return fn([*calls, (x, int(at))])[-1]

    return view


def _one_chunk(fn: Function, library: Backend, layout: str, dim: int) -> Function:
    def view(x: Any, positions: Any) -> Any:
        p = _host(library, positions)
        if np.any(starts(p)):
            raise Inexpressible("positions must start at 0")
        return fn(x, [int(p.shape[-1])])

    return view


def _shifted(fn: Function, library: Backend, layout: str, dim: int) -> Function:
    axis = {"bhsd": 2, "sbhd": 0}.get(layout, 1)

    def view(x: Any, positions: Any) -> Any:
        p = _host(library, positions)
        if p.ndim > 1 or layout not in TENSOR_LAYOUTS[:3]:
            raise Inexpressible("all rows must have the same positions")
        host = np.array(library.asnumpy(x))
        tokens = [np.take(host, [i], axis=axis) for i in range(p.size)]
        kind = str(x.dtype).rpartition(".")[2]
        moved = [
            library.asnumpy(fn(library.asarray(t, kind, None), int(d)))
            for t, d in zip(tokens, p, strict=True)
        ]
        whole = np.concatenate(moved, axis=axis) if moved else host
        return library.asarray(whole, kind, None)

    return view


def _prefix(fn: Function, library: Backend, layout: str, dim: int) -> Function:
    def view(positions: Any) -> Any:
        p = _host(library, positions)
        if starts(p) != 0:
            raise Inexpressible("positions must start at 0")
        return fn(int(p.size))

    return view


def _onto_zeros(fn: Function, library: Backend, layout: str, dim: int) -> Function:
    def view(positions: Any) -> Any:
        p = _host(library, positions)
        if starts(p) != 0:
            raise Inexpressible("positions must start at 0")
        return fn(library.asarray(np.zeros((1, p.size, dim)), "float32", None))[0]

    return view


def _normalised(fn: Function, library: Backend, layout: str, dim: int) -> Function:
    """Return the rotation without the norm: the result for weight 1, times the size of x."""

    def view(x: Any, positions: Any) -> Any:
        kind = str(x.dtype).rpartition(".")[2]
        host = np.array(library.asnumpy(x))
        size = np.sqrt(np.mean(host * host, axis=-1, keepdims=True))
        loud = library.asarray(_LOUD * host, kind, None)
        y = library.asnumpy(fn(loud, library.asarray(np.ones(dim), kind, None), positions))
        return library.asarray(np.asarray(y) * size, kind, None)

    return view


def _one_rank(fn: Function, library: Backend, layout: str, dim: int) -> Function:
    return lambda num_heads: fn(num_heads, 1, 0)


def _turned_back(encoding: Any) -> Any:
    return adjoint(encoding) if isinstance(encoding, Rotary) else encoding


VIEWS: dict[str, View] = {
    "apply_qk": View("apply", (_side(0), _side(1))),
    "apply_vjp": View("apply", (_gradient,), _turned_back),
    "apply_offset": View("apply", (_from_offset,)),
    "calls": View("apply", (_one_call,), fallbacks=(_after_tokens, _after_calls)),
    "decode": View("apply", (_one_chunk,)),
    "key_cache": View("apply", (_one_chunk,)),
    "shift_keys": View("apply", (_shifted,)),
    "add": View("table", (_onto_zeros,)),
    "rows": View("table", (_prefix,)),
    "rank_slopes": View("slopes", (_one_rank,)),
}
#: Views that only ``identify`` takes: the results of two functions are not compared through them.
MORE = {"normed_apply": View("apply", (_normalised,))}
