"""Rotary encodings inside a graph of ``torch.compile``, for any positions.

The graph holds the operator ``posenc_ref::phasors``.  When the graph runs, the operator makes the
tables from exact angles, or takes them from the cache, so positions may be tensors and lengths may
change. The rotation is written in torch operations, which Inductor fuses; large tensors on a CPU
are rotated by the operator ``posenc_ref::rotate``.

Calls with positions that ``torch.func`` has wrapped (such as ``vmap``) use this module too.  It is
imported only for such calls and while a graph is captured.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from posenc_ref import Rotary, from_dict
from posenc_ref._namespace import to_host

from .kernels.device_positions import align
from .kernels.output import as_pair
from .kernels.tensor_layouts import heads_first
from .kernels.torch_rotary import LARGE, TorchTables, by_operator, registered, written_out
from .kernels.torch_state import refuse_gradients
from .rotary_tables import RotaryTables

Tensor = Any
_operator = registered()


def call(
    source: RotaryTables,
    layout: str,
    x: Tensor,
    positions: Any,
    seq_len: int | None,
    out: Tensor | None,
) -> Tensor:
    """Rotate ``x`` in the graph that is being captured."""
    dim = source.encoding.head_dim
    view = heads_first(x, layout, dim)
    if not view.is_floating_point() or view.ndim < 2 or view.shape[-1] != dim:
        raise ValueError(
            f"x must be a tensor of floats (..., S, {dim}), got {x.dtype} of shape {tuple(x.shape)}"
        )
    result = _rotated(view, _tables(source, view, positions, seq_len))
    result = heads_first(result, layout, dim, back=x)
    return result if out is None else _into(out, x, result)


def prepared(
    tables: TorchTables, layout: str, x: Tensor, view: Tensor, start: Any, out: Tensor | None
) -> Tensor:
    """Rotate ``x`` by prepared tables in the captured graph; ``view`` is x with heads first."""
    count = view.shape[-2]
    if isinstance(start, torch.Tensor):
        tables = _window(tables, start, count)
    elif start < 0 or start + count > tables.rows:
        raise ValueError(
            f"start must be at least 0 and start + S at most {tables.rows}, the number of prepared "
            f"rows, got start = {start} and S = {count}"
        )
    else:
        tables = tables.window(start, start + count)
    result = heads_first(_rotated(view, tables), layout, tables.dim, back=x)
    return result if out is None else _into(out, x, result)


def _rotated(x: Tensor, tables: TorchTables) -> Tensor:
    """Rotate by torch operations, or by the operator of eager mode.

    On a CPU, Inductor takes new memory in small pages, whose page faults take longer than the
    operator. Programs exported with prepared tables run without this package, and torch.func needs
    operations.
    """
    plain = torch.compiler.is_exporting() or torch._C._are_functorch_transforms_active()
    large = x.device.type == "cpu" and not plain
    if large and statically_known_true(x.numel() * x.element_size() >= LARGE):
        return by_operator(x, tables, _operator)
    return written_out(x, tables)


def _into(out: Tensor, x: Tensor, result: Tensor) -> Tensor:
    """Copy ``result`` into ``out`` and return ``out``; the compiler may remove the copy."""
    if out.shape != x.shape or out.dtype != x.dtype:
        raise ValueError(
            f"out must have x's shape {tuple(x.shape)} and dtype {x.dtype}, got "
            f"{tuple(out.shape)} and {out.dtype}"
        )
    refuse_gradients(x, out)
    return out.copy_(result)


def both_into(
    out: Any, given: tuple[Tensor, Tensor], results: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Copy the results for ``given``, q and k, into the pair ``out``; return the pair."""
    all_of_it = zip(as_pair(out), given, results, strict=True)
    one, two = (r if goal is None else _into(goal, x, r) for goal, x, r in all_of_it)
    return one, two


def _window(tables: TorchTables, start: Tensor, count: int) -> TorchTables:
    """Return ``count`` rows from row ``start``, a tensor in the graph; NaN outside the table."""
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
    return TorchTables(tables.runs, tuple(cut), tables.dim)


def _tables(source: RotaryTables, view: Tensor, positions: Any, seq_len: int | None) -> TorchTables:
    at, _, index = align(source.num_axes, _tensor(positions, view), view)
    both = phasors(at, source.description, seq_len, view.dtype == torch.float64, view.device)
    both = both[(slice(None), *index)]
    factors = []
    assert source.runs is not None
    for run in source.runs:
        part = both[..., run.pairs]
        factors.append(part.movedim(0, -1) if run.interleaved else part)
    return TorchTables(source.runs, tuple(factors), source.encoding.head_dim)


def _tensor(positions: Any, view: Tensor) -> Tensor:
    """Return positions as a tensor; host positions stay on the CPU."""
    if isinstance(positions, torch.Tensor):
        if positions.device != view.device:
            raise ValueError(
                f"positions are on device {positions.device} but x is on device {view.device}: "
                f"move them, or pass a range"
            )
        if positions.requires_grad:
            raise ValueError("positions must not require gradients inside a graph: detach them")
        return positions
    if isinstance(positions, range):
        return torch.arange(positions.start, positions.stop, positions.step, device="cpu")
    return torch.as_tensor(positions, device="cpu")


@torch.library.custom_op(  # type: ignore[untyped-decorator,unused-ignore]
    "posenc_ref::phasors", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,)
)
def phasors(
    positions: torch.Tensor, text: str, seq_len: int | None, wide: bool, device: torch.device
) -> torch.Tensor:
    """Return cos and sin (2, ..., S, pairs) of the encoding with JSON ``text``.

    The result is float64 if ``wide``, else float32.
    """
    source = _described(text)
    # A copy, because a graph may overwrite an operator's result.
    return source.tensor(to_host(positions), seq_len, wide, device).clone()


@phasors.register_fake
def _(positions, text, seq_len, wide, device):  # type: ignore[no-untyped-def]
    encoding = _described(text).encoding
    several = encoding.num_axes > 1 and positions.ndim > 1
    shape = (2, *(positions.shape[1:] if several else positions.shape), len(encoding.pairs()[0]))
    return torch.empty(shape, dtype=torch.float64 if wide else torch.float32, device=device)


@phasors.register_vmap
def _(info, in_dims, positions, text, seq_len, wide, device):  # type: ignore[no-untyped-def]
    count = _described(text).num_axes
    given = positions.movedim(in_dims[0], 0)
    if count > 1 and given.ndim == 2:  # one row for all axes
        given = given[:, None].expand(-1, count, -1)
    made = [phasors(one, text, seq_len, wide, device) for one in given]
    return torch.stack(made, dim=1), 1


@functools.lru_cache(maxsize=16)
def _described(text: str) -> RotaryTables:
    """Return the tables of the encoding whose JSON is ``text``."""
    data = json.loads(text)
    encoding = from_dict(data["encoding"])
    assert isinstance(encoding, Rotary)
    return RotaryTables(encoding, data["inverse"])
