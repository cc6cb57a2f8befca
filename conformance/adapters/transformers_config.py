"""Read the encodings that configurations of `transformers` declare."""

from __future__ import annotations

import importlib
from typing import Any

from posenc_ref import RoPE, from_config
from posenc_ref.conformance.harness.rotated import rotated_channels


def file_of(model: str, kind: str = "modeling") -> Any:
    """Return the modeling or configuration file of a model in ``transformers``."""
    return importlib.import_module(f"transformers.models.{model}.{kind}_{model}")


def declared_rope(config: Any, layout: str, head_dim: int, layer_type: str | None) -> RoPE | None:
    """Return the RoPE that `from_config` reads for heads of this size, or None.

    Raise ValueError if an unknown kind of model states no base: its default is not known.
    """
    try:
        model = from_config(config, layout=layout)
        own = model.only if layer_type is None else model.encodings[layer_type]
    except (KeyError, TypeError, ValueError):
        return None
    if model.provenance.get("base", "").startswith("default of PretrainedConfig"):
        raise ValueError(
            f"the configuration of {model.name} states no base (rope_theta), and the default of "
            "this model is not known: pass encoding=RoPE(..., base=...)"
        )
    found = rotated_part(own, head_dim)
    return found if isinstance(found, RoPE) and found.head_dim == head_dim else None


def rotated_part(encoding: Any, head_dim: int | None) -> Any:
    """Return ``encoding``, limited to its rotated channels if ``head_dim`` counts only these."""
    if isinstance(encoding, RoPE) and head_dim == encoding.rotary_dim != encoding.head_dim:
        return rotated_channels(encoding)
    return encoding


def on_host(weight: Any) -> Any:
    """Return a parameter as a NumPy array with the same values; bfloat16 becomes float32."""
    weight = weight.detach().cpu()
    return (weight.float() if str(weight.dtype) == "torch.bfloat16" else weight).numpy()


def attribute(config: Any, name: str) -> Any:
    """Return a configuration's value, or None if it is absent or differs between layers."""
    try:
        return getattr(config, name, None)
    except Exception:  # per-layer values raise other errors than AttributeError
        return None


def head_dim_of(config: Any) -> int | None:
    """Return the head size in a configuration of `transformers`."""
    width = attribute(config, "embed_dim") or attribute(config, "hidden_size")
    heads = attribute(config, "num_attention_heads")
    explicit = attribute(config, "head_dim")
    return explicit or (width // heads if width and heads else None)
