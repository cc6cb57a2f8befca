"""Read the encodings that configurations of `transformers` declare."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from posenc_ref import RoPE, from_config
from posenc_ref.conformance.harness.implementation import rotated_channels


def file_of(model: str, kind: str = "modeling") -> Any:
    """Return the modeling or configuration file of a model in ``transformers``."""
    return importlib.import_module(f"transformers.models.{model}.{kind}_{model}")


def configured(model: str, name: str, settings: Mapping[str, Any]) -> Any:
    """Return a configuration with ``settings``, in every release of transformers."""
    import transformers

    file = file_of(model, "configuration")
    # Models of text and images first had one configuration for both.
    cls = getattr(file, name, None) or getattr(file, name.replace("Text", ""))
    old = int(transformers.__version__.partition(".")[0]) < 5
    return cls(**before_5(settings) if old else settings)


def before_5(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which ``rope_parameters`` is as in transformers 4, which ignores it."""
    rest = {key: value for key, value in settings.items() if key != "rope_parameters"}
    rope = dict(settings.get("rope_parameters", {}))
    if any(isinstance(value, dict) for value in rope.values()):
        raise ValueError("transformers has rope_parameters for each layer type since 5.0")
    kind = rope.pop("rope_type", "default")
    alone = ("rope_theta", "partial_rotary_factor")
    rest |= {key: rope.pop(key) for key in alone if key in rope}
    scaling = {key: value for key, value in rope.items() if key not in settings}
    if scaling or kind != "default":
        rest["rope_scaling"] = {"type": "mrope" if "mrope_section" in scaling else kind} | scaling
    return rest


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
