"""Rotation of torch tensors, by an operator with its own gradient or by torch operations.

In eager mode each run of pairs is one call of the operator ``posenc_ref::rotate``.  The rotation is
linear in x: its gradient is the same operator with negated angles and the same attention factor, so
autograd does not save x.  In a captured graph the rotation consists of torch operations, which
Inductor fuses into one loop, except for large tensors on a CPU; see :mod:`..torch_graph`.

Tables are made on the host from exact angles, so autocast and half precision do not affect them.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from .guard import Guard
from .pair_runs import PairRun, unrotated
from .torch_state import is_complex_aligned, is_transformed, not_captured, refuse_gradients
from .torch_tiles import in_tiles, tiles

Tensor = Any

#: Bytes from which NumPy asks for large pages, and the alignment of torch's own tensors.
LARGE, _ALIGNED = 4 * 2**20, 64
#: Bytes of a tensor that stays in the cache between two operations.
_SMALL = 2**20


@dataclass(slots=True)
class TorchTables:
    """cos and sin of every run of pairs, in the dtype that the rotation computes in.

    ``factors[i]`` has the shape (..., S, pairs, 2) for an interleaved run, and the shape
    (2, ..., S, pairs) for halves.
    """

    runs: tuple[PairRun, ...]
    factors: tuple[Tensor, ...]
    dim: int

    @property
    def rows(self) -> int:
        """The number of positions S."""
        return int(self.factors[0].shape[-3 if self.runs[0].interleaved else -2])

    def window(self, start: int, stop: int) -> TorchTables:
        """Return a view of rows ``start`` to ``stop``; positions must have one axis (S,)."""
        cut = tuple(
            [
                f[start:stop] if run.interleaved else f[:, start:stop]
                for run, f in zip(self.runs, self.factors, strict=True)
            ]
        )
        return TorchTables(self.runs, cut, self.dim)


def make_tables(
    runs: tuple[PairRun, ...], phasors: np.ndarray, dim: int, device: Any
) -> TorchTables:
    """Return the tables of ``phasors``, complex (..., S, pairs), on ``device``."""
    import torch

    not_captured(device)
    factors = []
    # Tables made in inference mode must work in training too.  The default device has no effect.
    with torch.inference_mode(False), torch.device("cpu"):
        for run in runs:
            part = phasors[..., run.pairs]
            pair = np.stack([part.real, part.imag], axis=-1 if run.interleaved else 0)
            factors.append(torch.from_numpy(np.ascontiguousarray(pair)).to(device))
    return TorchTables(runs, tuple(factors), dim)


def send_phasors(phasors: np.ndarray, device: Any) -> Tensor:
    """Return complex (..., S, pairs) as a tensor on ``device``: cos and sin (2, ..., S, pairs)."""
    import torch

    not_captured(device)
    with torch.inference_mode(False), torch.device("cpu"):
        return torch.from_numpy(np.stack([phasors.real, phasors.imag])).to(device)


def rotate(x: Tensor, tables: TorchTables) -> Tensor:
    """Return ``x`` (..., S, dim) rotated, as a new tensor; differentiable."""
    import torch

    if torch.compiler.is_compiling() or is_transformed(x):
        return written_out(x, tables)
    if x.numel() == 0:
        return x.clone()
    return by_operator(x, tables, registered())


def by_operator(x: Tensor, tables: TorchTables, operator: Any) -> Tensor:
    """Rotate by the operator that :func:`registered` returns."""
    for run, factor in zip(tables.runs, tables.factors, strict=True):
        x = operator(x, factor, run.interleaved, run.start, False)
    return x


def rotate_into(x: Tensor, tables: TorchTables, out: Tensor) -> None:
    """Rotate x into ``out``, which is x itself or does not overlap x; not differentiable."""
    import torch

    refuse_gradients(x, out)
    if x.numel() == 0:
        return
    torch.autograd.graph.increment_version(out)  # Triton writes without telling autograd
    with torch.no_grad():
        for run, factor in zip(tables.runs, tables.factors, strict=True):
            part, into = x[..., run.channels], out[..., run.channels]
            same = out is x and not run.interleaved and x.dtype == factor.dtype
            same = same and not _in_one_launch(x)
            source = part.clone() if same else part
            _rotate_run(source, factor, run.interleaved, False, into)
        if out is not x:
            _copy_unrotated(x, tables.runs, out)


def _copy_unrotated(x: Tensor, runs: tuple[PairRun, ...], out: Tensor) -> None:
    for kept in unrotated(runs, x.shape[-1]):
        out[..., kept] = x[..., kept]


def written_out(x: Tensor, tables: TorchTables) -> Tensor:
    """Rotate by torch operations only, for torch.compile and torch.func."""
    import torch

    pieces, at = [], 0
    for run, factor in zip(tables.runs, tables.factors, strict=True):
        if run.start > at:
            pieces.append(x[..., at : run.start])
        part = x[..., run.channels].to(factor.dtype)
        at = run.channels.stop
        if run.interleaved:
            x1, x2 = part.unflatten(-1, (-1, 2)).unbind(-1)
            c, s = factor.unbind(-1)
            y = torch.stack([x1 * c - x2 * s, x2 * c + x1 * s], dim=-1).flatten(-2)
            pieces.append(y.to(x.dtype))
        else:
            x1, x2 = part.chunk(2, dim=-1)
            c, s = factor.unbind(0)
            pieces.append((x1 * c - x2 * s).to(x.dtype))
            pieces.append((x2 * c + x1 * s).to(x.dtype))
    if at < x.shape[-1]:
        pieces.append(x[..., at:])
    return torch.cat(pieces, dim=-1)


_registering = Guard()


def registered() -> Any:
    """Return the operator ``posenc_ref::rotate``; the first call registers it."""
    with _registering.lock:
        return _registered()


@functools.cache
def _registered() -> Any:
    import torch

    def forward(x: Tensor, factor: Tensor, interleaved: bool, start: int, inverse: bool) -> Tensor:
        out = _new_like(x)
        pairs = factor.shape[-2] if interleaved else factor.shape[-1]
        run = PairRun(interleaved, start, 0, pairs)
        _rotate_run(x[..., run.channels], factor, interleaved, inverse, out[..., run.channels])
        _copy_unrotated(x, (run,), out)
        return out

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, factor, ctx.interleaved, ctx.start, ctx.inverse = inputs
        ctx.save_for_backward(factor)

    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (factor,) = ctx.saved_tensors
        return (
            operator(grad, factor, ctx.interleaved, ctx.start, not ctx.inverse),
            None,
            None,
            None,
            None,
        )

    operator = torch.library.custom_op(
        "posenc_ref::rotate",
        forward,
        mutates_args=(),
        schema="(Tensor x, Tensor factor, bool interleaved, int start, bool inverse) -> Tensor",
    )
    operator.register_fake(
        lambda x, factor, interleaved, start, inverse: torch.empty_like(
            x, memory_format=torch.contiguous_format
        )
    )
    operator.register_autograd(backward, setup_context=keep)
    return operator


def _new_like(x: Tensor) -> Tensor:
    """Return a contiguous tensor like ``x``, not initialised.

    NumPy asks Linux for large pages where torch does not: to fill a new tensor of 64 MiB with small
    pages takes several times as long as the rotation.
    """
    import torch

    size = x.numel() * x.element_size()
    if x.device.type != "cpu" or size < LARGE or sys.platform != "linux":
        return torch.empty_like(x, memory_format=torch.contiguous_format)
    memory = np.empty(size + _ALIGNED, np.uint8)
    start = -memory.ctypes.data % _ALIGNED
    storage = torch.from_numpy(memory[start : start + size]).untyped_storage()
    # No view of another tensor, which autograd would not let its owner change.
    return torch.empty(0, dtype=x.dtype).set_(storage, 0, x.shape)


def _rotate_run(x: Tensor, factor: Tensor, interleaved: bool, inverse: bool, out: Tensor) -> None:
    """Rotate one run of pairs of x into ``out``, which is x itself or does not overlap x.

    ``out`` must not be x if the run has halves and x has the dtype of ``factor``: the first half of
    x is read again after the first half of ``out`` is written.
    """
    import torch

    if _in_one_launch(x):
        from .triton_rotary import rotate_run

        rotate_run(x, factor, interleaved, inverse, out)
        return
    if x.dtype != factor.dtype:
        in_tiles(
            x, factor, -3 if interleaved else -2, out,
            lambda wide, table, result: _rotate_run(wide, table, interleaved, inverse, result),
        )  # fmt: skip
        return
    sign = -1 if inverse else 1
    if not interleaved:
        cut = x.device.type == "cpu" and x.numel() * x.element_size() > _SMALL
        parts = tiles(x, factor, -2, out) if cut else [(x, factor, out)]
        for tile, table, goal in parts:
            c, s = table.unbind(0)
            x1, x2 = tile.chunk(2, dim=-1)
            y1, y2 = goal.chunk(2, dim=-1)
            torch.mul(x1, c, out=y1).addcmul_(x2, s, value=-sign)
            torch.mul(x2, c, out=y2).addcmul_(x1, s, value=sign)
    elif is_complex_aligned(x) and is_complex_aligned(out):
        by = torch.view_as_complex(factor.contiguous())  # made in a graph, it has other strides
        pairs, into = (torch.view_as_complex(t.unflatten(-1, (-1, 2))) for t in (x, out))
        torch.mul(pairs, by.conj() if inverse else by, out=into)
    else:
        c, s = factor.unbind(-1)
        x1, x2 = x.unflatten(-1, (-1, 2)).unbind(-1)
        y = out.unflatten(-1, (-1, 2))
        first = (x1 * c).addcmul_(x2, s, value=-sign)
        second = (x2 * c).addcmul_(x1, s, value=sign)
        y[..., 0].copy_(first)
        y[..., 1].copy_(second)


def kernel(x: Tensor) -> str:
    """Return the name of the GPU kernel for ``x``, as it appears in the name of the path."""
    if _in_one_launch(x):
        return ", by a Triton kernel"
    return ", by torch's own kernels: Triton is not installed" if x.is_cuda else ""


def _in_one_launch(x: Tensor) -> bool:
    """Return whether x is on a GPU and Triton is installed; torch's CUDA wheels install it."""
    return bool(x.is_cuda) and _triton()


@functools.cache
def _triton() -> bool:
    return importlib.util.find_spec("triton") is not None
