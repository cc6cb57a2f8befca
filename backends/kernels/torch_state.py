"""Checks of tensors and of torch's state: captured graphs, gradients, transforms, streams."""

from __future__ import annotations

from typing import Any

Tensor = Any


def tensor_type() -> Any:
    """Return ``torch.Tensor``."""
    import torch

    return torch.Tensor


def is_dense(x: Tensor) -> bool:
    """Return whether x is a tensor with strides, not a sparse one."""
    import torch

    return bool(x.layout == torch.strided)


def device_and_stream(device: Any) -> tuple[str, int]:
    """Return the device and its current stream, the only ones that may use a table made now.

    torch gives the memory of a freed table to the next request on the stream that made the table,
    while a kernel on another stream may still read it.
    """
    import torch

    here = torch.device(device)
    stream = torch.cuda.current_stream(here).cuda_stream if here.type == "cuda" else 0
    return str(here), stream


def makes_real_tensors() -> bool:
    """Return whether new tensors hold data; in a fake mode or a transform they do not."""
    import torch

    probe = torch.empty(0)
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(probe)
    return type(probe) is torch.Tensor and not wrapped


def not_captured(device: Any) -> None:
    """Raise while a CUDA graph is captured, because new tables would lie in the graph's memory."""
    import torch

    if torch.device(device).type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise ValueError(
            "while a graph is captured, positions must equal those of an earlier call on this "
            "stream, whose tables are cached; or call fused(...).prepare(positions) before the "
            "capture, and use its result in the capture"
        )


def refuse_gradients(x: Tensor, out: Tensor) -> None:
    """Raise if autograd records: a write into ``out`` has no gradient."""
    import torch

    if torch.is_grad_enabled() and (x.requires_grad or out.requires_grad):
        raise ValueError(
            "out cannot be given where gradients are wanted: call without it, or under "
            "torch.no_grad()"
        )


def in_graph(x: Any) -> bool:
    """Return whether x is a tensor in a graph that ``torch.compile`` is capturing."""
    if not hasattr(x, "requires_grad"):
        return False
    import torch

    return bool(torch.compiler.is_dynamo_compiling())


def wants_gradients(positions: Any) -> bool:
    """Return whether positions are a tensor that requires gradients.

    Cached tables have no gradient with respect to positions.
    """
    if not hasattr(positions, "requires_grad") or not positions.is_floating_point():
        return False
    import torch

    inside = torch._C._functorch
    while inside.is_functorch_wrapped_tensor(positions):
        if inside.is_gradtrackingtensor(positions):
            return True
        positions = inside.get_unwrapped(positions)
    return bool(torch.is_grad_enabled() and positions.requires_grad)


def is_wrapped(positions: Any) -> bool:
    """Return whether torch.func has wrapped positions, so that their values cannot be read."""
    if not hasattr(positions, "requires_grad"):
        return False
    import torch

    wrapped = bool(torch._C._functorch.is_functorch_wrapped_tensor(positions))
    return wrapped and not wants_gradients(positions)


def is_transformed(x: Tensor) -> bool:
    """Return whether torch.func or forward-mode differentiation tracks x.

    Neither supports the operator ``posenc_ref::rotate``, only torch's own operators.
    """
    import torch

    if torch._C._functorch.is_functorch_wrapped_tensor(x):
        return True
    return torch.autograd.forward_ad.unpack_dual(x).tangent is not None


def is_complex_aligned(x: Tensor) -> bool:
    """Return whether x can be viewed as complex numbers at addresses aligned to their size.

    torch's CPU kernels crash at other addresses, which arrays shared with NumPy may have.
    """
    *lead, last = x.stride()
    fits = last == 1 and x.storage_offset() % 2 == 0 and all(s % 2 == 0 for s in lead)
    return fits and x.data_ptr() % (2 * x.element_size()) == 0
