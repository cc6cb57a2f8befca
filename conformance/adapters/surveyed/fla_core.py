"""The rotation of fla-core, by its tables and its reference in PyTorch."""

from __future__ import annotations

from functools import partial
from typing import Any

from posenc_ref import RoPE
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import gathered

_LIBRARY = "fla-core"


def functions() -> list[LibraryFunction]:
    """Return the tables of the module with the reference of its kernel, and the module."""
    function = functions_of(_LIBRARY, "modules/rotary/ops.py: ")
    tables = "RotaryEmbedding._update_cos_sin_cache, rotary_embedding_ref"
    vectors = ("float32", "bfloat16")
    return [
        function("rotary_embedding_ref", tables, _reference, RoPE(64, layout="half"),
                 dtypes=vectors, says="the module's tables, and the reference of its kernel"),
        function("rotary_embedding_ref, interleaved", tables, partial(_reference, True),
                 RoPE(64, layout="interleaved"), dtypes=vectors),
        function("rotary_embedding_ref, bfloat16 module", tables,
                 partial(_reference, cast=True), RoPE(64, layout="half"), dtypes=("bfloat16",),
                 says="after module.to(torch.bfloat16): the frequencies are computed again"),
        function("RotaryEmbedding", "RotaryEmbedding.forward", _kernel, RoPE(64, layout="half"),
                 says="a Triton kernel, which needs a GPU"),
    ]  # fmt: skip


def _module(interleaved: bool = False) -> Any:
    from fla.modules.rotary import RotaryEmbedding

    return RotaryEmbedding(64, interleaved=interleaved)


def _reference(interleaved: bool = False, cast: bool = False) -> Implementation:
    import torch
    from fla.modules.rotary.ops import rotary_embedding_ref

    module = _module(interleaved)
    if cast:
        module.to(torch.bfloat16)

    def apply(x: Any, positions: Any) -> Any:
        module._update_cos_sin_cache(131072, device=x.device, dtype=x.dtype)

        def rotate(x: Any, cos: Any, sin: Any) -> Any:
            rows = (x.transpose(1, 2), cos[:, 0], sin[:, 0])
            return rotary_embedding_ref(*rows, interleaved).transpose(1, 2)

        return gathered(module._cos_cached, module._sin_cached, rotate)(x, positions)

    again = partial(_reference, interleaved, cast)
    return Implementation(apply, "apply", _LIBRARY, backend="torch", head_dim=64, factory=again)


def _kernel() -> Implementation:
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("the kernel is written in Triton and needs a GPU")
    module = _module().cuda()

    def apply(x: Any, positions: Any) -> Any:
        from posenc_ref.conformance.calling.positions import window_start

        rows = x.transpose(1, 2).cuda()
        return module(rows, rows, window_start(positions))[0].transpose(1, 2).cpu()

    return Implementation(apply, "apply", _LIBRARY, backend="torch", head_dim=64)
