"""What modules of `transformers` and their configurations say they should be."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import posenc_ref

from .rotary_function import attribute

# Older configurations have a name of their own for the base.
BASES = ("rope_theta", "rotary_emb_base", "rotary_embedding_base")


def modeling_of(model: str) -> Any:
    """Return the module of ``transformers`` that holds the classes of a model."""
    return importlib.import_module(f"transformers.models.{model}.modeling_{model}")


def configuration_of(model: str) -> Any:
    """Return the module of ``transformers`` that holds the configurations of a model."""
    return importlib.import_module(f"transformers.models.{model}.configuration_{model}")


def declared_rope(
    config: Any, *, layout: str, head_dim: int, rotary_dim: int | None, layer_type: str | None
) -> posenc_ref.RoPE | None:
    """Return the RoPE that `config` describes, or None where it is of no form known here.

    No configuration says how channels are paired: `layout` is the caller's. A configuration that
    names no base means 10000.
    """
    parameters = rope_parameters(config, layer_type)
    if any(isinstance(value, Mapping) for value in parameters.values()):
        return None  # one set per layer type, and no layer type chosen
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
    """Return the rotary parameters of a configuration, of one layer type where it has several."""
    parameters = attribute(config, "rope_parameters") or {}
    nested = parameters.get(layer_type)
    return nested if isinstance(nested, Mapping) else parameters


def on_host(weight: Any) -> Any:
    """Return a parameter as a NumPy array of the same values; NumPy has no bfloat16."""
    weight = weight.detach().cpu()
    return (weight.float() if str(weight.dtype) == "torch.bfloat16" else weight).numpy()
