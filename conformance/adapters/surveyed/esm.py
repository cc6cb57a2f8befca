"""The rotation of ESM3 and ESM C."""

from __future__ import annotations

from functools import partial
from typing import Any

from posenc_ref import LinearScaling, RoPE
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.calling.positions import window_start
from posenc_ref.conformance.harness.implementation import Implementation


def functions() -> list[LibraryFunction]:
    """Return the module with every setting, and as models on a GPU have it."""
    function = functions_of("esm", "layers/rotary.py: ")
    source = "RotaryEmbedding, apply_rotary_emb_torch"
    return [
        function("RotaryEmbedding", source, _rotary, RoPE(64, layout="half"),
                 dtypes=("float32", "bfloat16")),
        function("RotaryEmbedding, bfloat16 module", source, partial(_rotary, cast=True),
                 RoPE(64, layout="half"), dtypes=("bfloat16",),
                 says="after model.to(torch.bfloat16), as ESMC.from_pretrained and "
                      "ESM3.from_pretrained do on a GPU"),
        function("RotaryEmbedding, interleaved", source, partial(_rotary, interleaved=True),
                 RoPE(64, layout="interleaved"), dtypes=("float32",),
                 says="interleaved=True: pairs of even and odd channels"),
        function("RotaryEmbedding, scaling_factor", source, partial(_rotary, scaling_factor=4.0),
                 RoPE(64, layout="half", scaling=LinearScaling(4.0)), dtypes=("float32",)),
    ]  # fmt: skip


def _rotary(cast: bool = False, **settings: Any) -> Implementation:
    import torch
    from esm.layers.rotary import RotaryEmbedding

    module = RotaryEmbedding(64, **settings)
    if cast:
        module.to(torch.bfloat16)

    def apply(x: Any, positions: Any) -> Any:
        rows = x.transpose(1, 2)
        return module(rows, rows, window_start(positions))[0].transpose(1, 2)

    return Implementation(apply, "apply", "esm", backend="torch", head_dim=64)
