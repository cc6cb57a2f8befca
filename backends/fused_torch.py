"""Rotation of torch tensors: one operator with its own gradient, or a form that compiles well.

Eagerly, each run of pairs is one call of the operator ``posenc_ref::rotate``.  The map is linear,
so that its gradient is the operator itself with the angle reversed (the factor m stays, once), and
nothing of x is kept for it.  While a graph is captured, the same is written out in halves instead,
which Inductor fuses into one loop; what ``rotate_half`` compiles to takes twice that.

Tables are made on the host from exact angles: no autocast and no half precision touches them.
"""

from __future__ import annotations

import functools
import importlib.util
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from .pair_runs import Run, untouched
from .torch_tiles import in_tiles

Tensor = Any


@dataclass(slots=True)
class Tables:
    """cos and sin of every run of pairs, in the dtype of the arithmetic.

    Pairs side by side: (..., S, pairs, 2), halves: (2, ..., S, pairs).
    """

    runs: tuple[Run, ...]
    factors: tuple[Tensor, ...]
    dim: int

    @property
    def rows(self) -> int:
        """The number of positions S."""
        return int(self.factors[0].shape[-3 if self.runs[0].interleaved else -2])

    def window(self, start: int, stop: int) -> Tables:
        """Rows of tables that have no other axes before them, as views."""
        cut = tuple(
            [
                f[start:stop] if run.interleaved else f[:, start:stop]
                for run, f in zip(self.runs, self.factors, strict=True)
            ]
        )
        return Tables(self.runs, cut, self.dim)


def make_tables(runs: tuple[Run, ...], phasors: np.ndarray, dim: int, device: Any) -> Tables:
    """The tables of ``phasors``, complex (..., S, pairs), on ``device``."""
    import torch

    not_captured(device)
    factors = []
    # Kept tables serve training too, wherever they were first made; no default device moves them.
    with torch.inference_mode(False), torch.device("cpu"):
        for run in runs:
            turned = phasors[..., run.pairs]
            pair = np.stack([turned.real, turned.imag], axis=-1 if run.interleaved else 0)
            factors.append(torch.from_numpy(np.ascontiguousarray(pair)).to(device))
    return Tables(runs, tuple(factors), dim)


def place(device: Any) -> tuple[str, int]:
    """Where tables are good: on one device and one stream.

    torch gives the memory of a table that is dropped to whoever asks next on the stream that it was
    made on, while a kernel on another stream may still read it.
    """
    import torch

    here = torch.device(device)
    stream = torch.cuda.current_stream(here).cuda_stream if here.type == "cuda" else 0
    return str(here), stream


def not_captured(device: Any) -> None:
    """Refuse to make tables while a CUDA graph is captured: only what lies ready can be in it."""
    import torch

    if torch.device(device).type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise ValueError(
            "positions must be those of an earlier call on this stream, or prepared, while a graph "
            "is captured"
        )


def send_phasors(phasors: np.ndarray, device: Any) -> Tensor:
    """Complex (..., S, pairs) as cos and sin (2, ..., S, pairs), a tensor on ``device``."""
    import torch

    not_captured(device)
    with torch.inference_mode(False), torch.device("cpu"):
        return torch.from_numpy(np.stack([phasors.real, phasors.imag])).to(device)


def rotate(x: Tensor, tables: Tables) -> Tensor:
    """``x`` (..., S, dim) turned, as a new tensor; differentiable."""
    import torch

    if torch.compiler.is_compiling() or _transformed(x):
        return written_out(x, tables)
    if x.numel() == 0:
        return x.clone()
    turn = _operator()
    for run, factor in zip(tables.runs, tables.factors, strict=True):
        x = turn(x, factor, run.interleaved, run.start, False)
    return x


def rotate_into(x: Tensor, tables: Tables, out: Tensor) -> None:
    """The same into ``out``, which is x itself or does not overlap it; not differentiable."""
    import torch

    refuse_gradients(x, out)
    if x.numel() == 0:
        return
    torch.autograd.graph.increment_version(out)  # kernels of our own do not tell autograd
    with torch.no_grad():
        for run, factor in zip(tables.runs, tables.factors, strict=True):
            part, into = x[..., run.channels], out[..., run.channels]
            same = out is x and not run.interleaved and x.dtype == factor.dtype
            same = same and not _in_one_launch(x)
            source = part.clone() if same else part
            _turn(source, factor, run.interleaved, False, into)
        if out is not x:
            _pass(x, tables.runs, out)


def refuse_gradients(x: Tensor, out: Tensor) -> None:
    """Writing into an array is not differentiable."""
    import torch

    if torch.is_grad_enabled() and (x.requires_grad or out.requires_grad):
        raise ValueError(
            "out cannot be given where gradients are wanted: call without it, or under "
            "torch.no_grad()"
        )


def in_graph(x: Any) -> bool:
    """Whether x is a tensor in a graph that ``torch.compile`` is capturing."""
    if not hasattr(x, "requires_grad"):
        return False
    import torch

    return bool(torch.compiler.is_dynamo_compiling())


def wants_gradients(positions: Any) -> bool:
    """Whether positions are a tensor that gradients are to reach: no table passes them on."""
    if not hasattr(positions, "requires_grad") or not positions.is_floating_point():
        return False
    import torch

    inside = torch._C._functorch
    while inside.is_functorch_wrapped_tensor(positions):
        if inside.is_gradtrackingtensor(positions):
            return True
        positions = inside.get_unwrapped(positions)
    return bool(torch.is_grad_enabled() and positions.requires_grad)


def opaque(positions: Any) -> bool:
    """Whether positions are wrapped by torch.func: their values are not to be had here."""
    if not hasattr(positions, "requires_grad"):
        return False
    import torch

    wrapped = bool(torch._C._functorch.is_functorch_wrapped_tensor(positions))
    return wrapped and not wants_gradients(positions)


def _transformed(x: Tensor) -> bool:
    """Whether torch.func or forward mode looks through: they need operators they know."""
    import torch

    if torch._C._functorch.is_functorch_wrapped_tensor(x):
        return True
    return torch.autograd.forward_ad.unpack_dual(x).tangent is not None


def _pass(x: Tensor, runs: tuple[Run, ...], out: Tensor) -> None:
    for kept in untouched(runs, x.shape[-1]):
        out[..., kept] = x[..., kept]


def written_out(x: Tensor, tables: Tables) -> Tensor:
    """The same in operators that everything of torch knows."""
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


_registering = threading.Lock()


def _operator() -> Any:
    """``posenc_ref::rotate``, registered when it is first used."""
    with _registering:
        return _registered()


@functools.cache
def _registered() -> Any:
    import torch

    def forward(x: Tensor, factor: Tensor, interleaved: bool, start: int, back: bool) -> Tensor:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        pairs = factor.shape[-2] if interleaved else factor.shape[-1]
        run = Run(interleaved, start, 0, pairs)
        _turn(x[..., run.channels], factor, interleaved, back, out[..., run.channels])
        _pass(x, (run,), out)
        return out

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, factor, ctx.interleaved, ctx.start, ctx.back = inputs
        ctx.save_for_backward(factor)

    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (factor,) = ctx.saved_tensors
        return turn(grad, factor, ctx.interleaved, ctx.start, not ctx.back), None, None, None, None

    turn = torch.library.custom_op(
        "posenc_ref::rotate",
        forward,
        mutates_args=(),
        schema="(Tensor x, Tensor factor, bool interleaved, int start, bool back) -> Tensor",
    )
    turn.register_fake(
        lambda x, factor, interleaved, start, back: torch.empty_like(
            x, memory_format=torch.contiguous_format
        )
    )
    turn.register_autograd(backward, setup_context=keep)
    return turn


def _turn(x: Tensor, factor: Tensor, interleaved: bool, back: bool, out: Tensor) -> None:
    """One run of pairs into ``out``: x itself, unless they are halves, or apart from it.

    In dtypes that are narrower than the factor's, halves may be in place as well.
    """
    import torch

    if _in_one_launch(x):
        from .triton_rotary import turn

        turn(x, factor, interleaved, back, out)
        return
    if x.dtype != factor.dtype:
        in_tiles(
            x, factor, -3 if interleaved else -2, out,
            lambda wide, table, result: _turn(wide, table, interleaved, back, result),
        )  # fmt: skip
        return
    sign = -1 if back else 1
    if not interleaved:
        c, s = factor.unbind(0)
        x1, x2 = x.chunk(2, dim=-1)
        y1, y2 = out.chunk(2, dim=-1)
        torch.mul(x1, c, out=y1).addcmul_(x2, s, value=-sign)
        torch.mul(x2, c, out=y2).addcmul_(x1, s, value=sign)
    elif _even(x) and _even(out):
        by = torch.view_as_complex(factor)
        pairs, into = (torch.view_as_complex(t.unflatten(-1, (-1, 2))) for t in (x, out))
        torch.mul(pairs, by.conj() if back else by, out=into)
    else:
        c, s = factor.unbind(-1)
        x1, x2 = x.unflatten(-1, (-1, 2)).unbind(-1)
        y = out.unflatten(-1, (-1, 2))
        first = (x1 * c).addcmul_(x2, s, value=-sign)
        second = (x2 * c).addcmul_(x1, s, value=sign)
        y[..., 0].copy_(first)
        y[..., 1].copy_(second)


def kernel(x: Tensor) -> str:
    """What makes a difference on a GPU, for ``explain=True``."""
    if _in_one_launch(x):
        return ", by a Triton kernel"
    return ", by torch's own kernels: Triton is not installed" if x.is_cuda else ""


def _in_one_launch(x: Tensor) -> bool:
    """Whether x is on a GPU and Triton is there; torch's own CUDA wheels depend on it."""
    return bool(x.is_cuda) and _triton()


@functools.cache
def _triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _even(x: Tensor) -> bool:
    """Whether x can be seen as complex numbers, at addresses that are multiples of their size.

    torch's kernels for CPUs crash at others, which arrays that it shares with NumPy may have.
    """
    *lead, last = x.stride()
    fits = last == 1 and x.storage_offset() % 2 == 0 and all(s % 2 == 0 for s in lead)
    return fits and x.data_ptr() % (2 * x.element_size()) == 0
