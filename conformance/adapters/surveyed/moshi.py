"""Encodings of Moshi: its rotation and its sinusoids."""

from __future__ import annotations

from functools import partial
from typing import Any

from posenc_ref import RoPE, Sinusoidal
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.calling.positions import window_start
from posenc_ref.conformance.harness.implementation import Implementation


def functions() -> list[LibraryFunction]:
    """Return the rotation in both layouts, and the sinusoids of both callers."""
    rope = functions_of("moshi", "modules/rope.py: ")
    function = functions_of("moshi", "modules/transformer.py: ")
    sines = Sinusoidal(64, layout="concat", first="cos", denominator="half-1")
    vectors = ("float32", "bfloat16")
    return [
        rope("apply_rope", "RotaryEmbedding, apply_rope", _rope, RoPE(64, layout="interleaved"),
             dtypes=vectors),
        rope("apply_rope, not interleaved", "RotaryEmbedding, apply_rope",
             partial(_rope, interleave=False), RoPE(64, layout="half"), dtypes=vectors,
             says='positional_embedding="rope_concat", as in Mimi'),
        function("create_sin_embedding", "create_sin_embedding", _sines, sines,
                 dtypes=("float32",), says="as ConditionFuser calls it, in float32"),
        function("StreamingTransformer, sin, bfloat16",
                 "StreamingTransformer.forward, create_sin_embedding",
                 _sum, sines, dtypes=("bfloat16",),
                 says='positional_embedding="sin"; positions and angles have the dtype of x'),
    ]  # fmt: skip


def _rope(interleave: bool = True) -> Implementation:
    import torch
    from moshi.modules.rope import RotaryEmbedding
    from moshi.utils.compile import no_compile

    module = RotaryEmbedding(interleave)

    def apply(x: Any, positions: Any) -> Any:
        offset = torch.full((len(x),), window_start(positions))
        with no_compile():
            return module(x, x, offset)[0]

    return Implementation(apply, "apply", "moshi", backend="torch", head_dim=64)


def _sines() -> Implementation:
    from moshi.modules.transformer import create_sin_embedding

    def table(positions: Any) -> Any:
        return create_sin_embedding(positions.view(1, -1, 1), 64)[0]

    return Implementation(table, "table", "moshi", backend="torch")


def _sum() -> Implementation:
    """Adapt a transformer without layers, which adds the sinusoids to its input."""
    from moshi.modules.transformer import StreamingTransformer

    module = StreamingTransformer(64, 4, 0, 64, positional_embedding="sin")
    return Implementation(module, "add", "moshi", backend="torch", head_dim=64)
