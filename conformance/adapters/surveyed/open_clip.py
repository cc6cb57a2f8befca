"""The sinusoids of OpenCLIP's vision towers."""

from __future__ import annotations

from typing import Any

from posenc_ref import Sinusoidal2D
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.harness.implementation import Implementation


def functions() -> list[LibraryFunction]:
    """Return the table of ``pos_embed_type="sin_cos_2d"``; the others are learned."""
    function = functions_of("open-clip-torch", "pos_embed.py: ")
    return [
        function("get_2d_sincos_pos_embed", "get_2d_sincos_pos_embed", _grid,
                 Sinusoidal2D(64, axis_order="wh"), dtypes=("float32",),
                 says="square images; the columns named emb_h are those of the width"),
    ]  # fmt: skip


def _grid() -> Implementation:
    import torch
    from open_clip.pos_embed import get_2d_sincos_pos_embed

    def grid(height: int, width: int) -> Any:
        if height != width:
            raise ValueError("height must be width: the function takes one size")
        return torch.from_numpy(get_2d_sincos_pos_embed(64, height)).float()

    return Implementation(grid, "grid", "open-clip-torch", backend="torch")
