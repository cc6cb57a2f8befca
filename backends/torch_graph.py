"""Inside a graph of ``torch.compile``: tables from an operator that is run, and not looked into.

Positions that ``torch.func`` has wrapped, by ``vmap`` for one, take the same way.

Positions may be anything there, tensors and lengths that change included: the graph holds the
operator ``posenc_ref::phasors``, which makes the tables when the graph runs, by the exact angles of
every other path, or finds them kept.  The rotation is written out, which Inductor fuses.

Imported only where a graph is captured.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import torch

from posenc_ref import Rotary, from_dict
from posenc_ref._namespace import to_host
from posenc_ref._positions import Positions, broadcast_axes

from . import fused_torch
from .tensor_layouts import heads_first

if TYPE_CHECKING:
    from .fused_rotary import FusedRotary

Tensor = Any


def call(
    fast: FusedRotary, x: Tensor, positions: Any, seq_len: int | None, out: Tensor | None
) -> Tensor:
    """``fast(x, positions)`` as the nodes of a graph."""
    dim = fast.encoding.head_dim
    view = heads_first(x, fast.tensor_layout, dim)
    if not view.is_floating_point() or view.ndim < 2 or view.shape[-1] != dim:
        raise ValueError(
            f"x must be a tensor of floats (..., S, {dim}), got {x.dtype} of shape {tuple(x.shape)}"
        )
    result = fused_torch.written_out(view, _tables(fast, view, positions, seq_len))
    result = heads_first(result, fast.tensor_layout, dim, back=x)
    return result if out is None else _into(out, x, result)


def prepared(
    fast: FusedRotary,
    tables: fused_torch.Tables,
    x: Tensor,
    view: Tensor,
    start: Any,
    out: Tensor | None,
) -> Tensor:
    """A call of prepared tables as the nodes of a graph."""
    count = view.shape[-2]
    if isinstance(start, torch.Tensor):
        tables = _window(tables, start, count)
    elif start < 0 or start + count > tables.rows:
        raise ValueError(f"start must leave {count} of the {tables.rows} prepared rows")
    else:
        tables = tables.window(start, start + count)
    result = fused_torch.written_out(view, tables)
    result = heads_first(result, fast.tensor_layout, tables.dim, back=x)
    return result if out is None else _into(out, x, result)


def _into(out: Tensor, x: Tensor, result: Tensor) -> Tensor:
    """``out`` with the result in it; whether a buffer is needed for that, the compiler decides."""
    if out.shape != x.shape or out.dtype != x.dtype:
        raise ValueError(
            f"out must have x's shape {tuple(x.shape)} and dtype {x.dtype}, got "
            f"{tuple(out.shape)} and {out.dtype}"
        )
    fused_torch.refuse_gradients(x, out)
    return out.copy_(result)


def _window(tables: fused_torch.Tables, start: Tensor, count: int) -> fused_torch.Tables:
    """``count`` rows from a ``start`` that is known only when the graph runs; NaN outside."""
    if start.ndim or start.is_floating_point():
        raise TypeError(
            f"start must be an integer without axes, got {start.dtype} of shape "
            f"{tuple(start.shape)}"
        )
    cut = []
    for run, factor in zip(tables.runs, tables.factors, strict=True):
        axis = -3 if run.interleaved else -2
        at = start.to(factor.device) + torch.arange(count, device=factor.device)
        known = (at >= 0) & (at < tables.rows)
        rows = factor.index_select(axis, torch.where(known, at, 0))
        shown = known[:, None, None] if run.interleaved else known[:, None]
        cut.append(torch.where(shown, rows, torch.nan))
    return fused_torch.Tables(tables.runs, tuple(cut), tables.dim)


def _tables(
    fast: FusedRotary, view: Tensor, positions: Any, seq_len: int | None
) -> fused_torch.Tables:
    at = _tensor(positions, view)
    several = fast.num_axes > 1 and at.ndim > 1
    index = broadcast_axes(Positions(at[0] if several else at, None, None), view)
    both = phasors(at, fast.described, seq_len, view.dtype == torch.float64, view.device)
    both = both[(slice(None), *index)]
    factors = []
    assert fast._runs is not None
    for run in fast._runs:
        part = both[..., run.pairs]
        factors.append(part.movedim(0, -1) if run.interleaved else part)
    return fused_torch.Tables(fast._runs, tuple(factors), fast.encoding.head_dim)


def _tensor(positions: Any, view: Tensor) -> Tensor:
    """Positions as a tensor; what came from the host stays there."""
    if isinstance(positions, torch.Tensor):
        if positions.device != view.device:
            raise ValueError(
                f"positions are on device {positions.device} but x is on device {view.device}: "
                f"move them, or pass a range"
            )
        if positions.requires_grad:
            raise ValueError("positions must not want gradients inside a graph: detach them")
        return positions.reshape(1) if positions.ndim == 0 else positions
    if isinstance(positions, range):
        return torch.arange(positions.start, positions.stop, positions.step, device="cpu")
    made = torch.as_tensor(positions, device="cpu")
    return made.reshape(1) if made.ndim == 0 else made


@torch.library.custom_op(  # type: ignore[untyped-decorator,unused-ignore]
    "posenc_ref::phasors", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,)
)
def phasors(
    positions: torch.Tensor, text: str, seq_len: int | None, wide: bool, device: torch.device
) -> torch.Tensor:
    """cos and sin (2, ..., S, pairs) of the encoding in ``text``, float64 if ``wide``."""
    fast = _described(text)
    # A copy, because a graph may write over what an operator returned.
    return fast.kept_phasors(to_host(positions), seq_len, wide, device).clone()


@phasors.register_fake
def _(positions, text, seq_len, wide, device):  # type: ignore[no-untyped-def]
    encoding = _described(text).encoding
    several = encoding.num_axes > 1 and positions.ndim > 1
    shape = (2, *(positions.shape[1:] if several else positions.shape), len(encoding.pairs()[0]))
    return torch.empty(shape, dtype=torch.float64 if wide else torch.float32, device=device)


@phasors.register_vmap
def _(info, in_dims, positions, text, seq_len, wide, device):  # type: ignore[no-untyped-def]
    many = _described(text).num_axes > 1
    given = positions.movedim(in_dims[0], 0)
    if many and given.ndim == 2:  # one row for all axes
        given = given[:, None].expand(-1, _described(text).num_axes, -1)
    made = [phasors(one, text, seq_len, wide, device) for one in given]
    return torch.stack(made, dim=1), 1


@functools.lru_cache(maxsize=16)
def _described(text: str) -> FusedRotary:
    """The encoding that a graph names, with the tables that are kept for it."""
    from .fused_rotary import FusedRotary

    data = json.loads(text)
    encoding = from_dict(data["encoding"])
    assert isinstance(encoding, Rotary)
    return FusedRotary(encoding, "bhsd", data["back"])
