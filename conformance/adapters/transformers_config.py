"""Read the encodings that configurations of `transformers` declare."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import posenc_ref

from .rotary_function import attribute

# Names of the base; older configurations use the last two.
BASES = ("rope_theta", "rotary_emb_base", "rotary_embedding_base")


def modeling_of(model: str) -> Any:
    """Return the ``transformers`` module that defines the classes of a model."""
    return importlib.import_module(f"transformers.models.{model}.modeling_{model}")


def configuration_of(model: str) -> Any:
    """Return the ``transformers`` module that defines the configurations of a model."""
    return importlib.import_module(f"transformers.models.{model}.configuration_{model}")


def declared_rope(
    config: Any, *, layout: str, head_dim: int, rotary_dim: int | None, layer_type: str | None
) -> posenc_ref.RoPE | None:
    """Return the RoPE that `config` declares, or None if its form is not known.

    The caller gives `layout`, which no configuration has. The default base is 10000.
    """
    parameters = rope_parameters(config, layer_type)
    if any(isinstance(value, Mapping) for value in parameters.values()):
        return None  # parameters differ by layer type, and none is given
    base = parameters.get("rope_theta")
    if base is None:
        base = next((b for name in BASES if (b := attribute(config, name)) is not None), 10000.0)
    kind = parameters.get("rope_type", "default")
    scaling: Any = None
    if kind == "linear":
        scaling = posenc_ref.LinearScaling(parameters["factor"])
    elif kind == "llama3":
        scaling = posenc_ref.Llama3Scaling(
            parameters["factor"],
            parameters["low_freq_factor"],
            parameters["high_freq_factor"],
            parameters["original_max_position_embeddings"],
        )
    elif kind != "default":
        return None
    return posenc_ref.RoPE(
        head_dim, layout=layout, base=base, rotary_dim=rotary_dim, scaling=scaling
    )


def rope_parameters(config: Any, layer_type: str | None) -> Mapping[str, Any]:
    """Return the rotary parameters of a configuration, or those of one of its layer types."""
    parameters = attribute(config, "rope_parameters") or {}
    nested = parameters.get(layer_type)
    return nested if isinstance(nested, Mapping) else parameters


def on_host(weight: Any) -> Any:
    """Return a parameter as a NumPy array with the same values; bfloat16 becomes float32."""
    weight = weight.detach().cpu()
    return (weight.float() if str(weight.dtype) == "torch.bfloat16" else weight).numpy()
