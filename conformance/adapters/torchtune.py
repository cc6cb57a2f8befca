"""Rotary modules of torchtune."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from posenc_ref import Llama3Scaling, RoPE
from posenc_ref.conformance.calling.positions import require_indices
from posenc_ref.conformance.harness.implementation import Implementation

from .library import LibraryFunction, functions_of

_INTERLEAVED = partial(RoPE, 64, layout="interleaved")


def functions() -> list[LibraryFunction]:
    """Return one function for each rotary class."""

    def function(name: str, file: str, expected: RoPE, **settings: Any) -> LibraryFunction:
        build = partial(_build, file.removesuffix(".py").replace("/", "."), name, **settings)
        return functions_of("torchtune", f"{file}: ")(name, name, build, expected)

    return [
        function("RotaryPositionalEmbeddings", "modules/position_embeddings.py", _INTERLEAVED()),
        function("Llama3ScaledRoPE", "models/llama3_1/_position_embeddings.py",
                 _INTERLEAVED(base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
                 base=500000),
        function("Phi3RotaryPositionalEmbeddings", "models/phi3/_position_embeddings.py",
                 RoPE(64, layout="half")),
    ]  # fmt: skip


def _build(file: str, name: str, **settings: Any) -> Implementation:
    cls = getattr(importlib.import_module(f"torchtune.{file}"), name)
    module = cls(64, max_seq_len=131072, **settings)

    def apply(x: Any, positions: Any) -> Any:
        require_indices(positions)
        return module(x, input_pos=positions)  # 0.1 takes no positions by row

    return Implementation(apply, "apply", "torchtune", None, "torch", "bshd", head_dim=64)
