"""Calls that the adapters of ``diffusers`` share."""

from __future__ import annotations

import importlib
from typing import Any

from posenc_ref import MultiAxisRoPE
from posenc_ref.conformance.calling.grids import Grid

LIBRARY = "diffusers"
MODELS = "models/transformers/transformer_"
SHARED = "models/embeddings.py: "
#: The channels of FLUX and HunyuanVideo: those of an index or frame, of the row and the column.
FLUX = (16, 56, 56)
VIDEO = Grid(3)


def axial(channels: tuple[int, ...], base: Any, **more: Any) -> MultiAxisRoPE:
    """Return the rotation with these channels for each axis, which start at frequency 1 each."""
    sections = tuple(n // 2 for n in channels)
    settings = {"layout": "interleaved"} | more
    return MultiAxisRoPE(sum(channels), sections=sections, spacing="restart", base=base, **settings)


def class_of(model: str, name: str) -> Any:
    """Return a class of ``diffusers.models.transformers.transformer_<model>``."""
    module = importlib.import_module(f"diffusers.models.transformers.transformer_{model}")
    return getattr(module, name)


def image(*sizes: int) -> Any:
    """Return latents of these sizes without values: the classes read their shape alone."""
    import torch

    return torch.zeros(1, 1, *sizes)


def turned(x: Any, tables: Any, half: bool = False) -> Any:
    """Return x (B, H, S, D) rotated by tables of cosines and sines (S, D)."""
    from diffusers.models.embeddings import apply_rotary_emb

    return apply_rotary_emb(x, tables, use_real_unbind_dim=-2 if half else -1)


def turned_complex(x: Any, table: Any) -> Any:
    """Return x (B, H, S, D) rotated by complex numbers (S, D / 2)."""
    from diffusers.models.embeddings import apply_rotary_emb

    return apply_rotary_emb(x.transpose(1, 2), table[None], use_real=False).transpose(1, 2)
