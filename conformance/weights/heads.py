"""The attention heads of a model, layer by layer, from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc_ref import ModelEncoding, MultiAxisRoPE, RoPE, from_config
from posenc_ref._documents import read_json
from posenc_ref._text import one_line
from posenc_ref.models.config import settings_of
from posenc_ref.models.config_facts import table
from posenc_ref.models.config_fields import entry
from posenc_ref.rope import LAYOUTS

#: The conventions that --from and --to name; None depends on the model.
CONVENTIONS: Mapping[str, str | None] = {
    "half": "half",
    "interleaved": "interleaved",
    "meta": "interleaved",
    "hf": None,
    "gguf": None,
}
#: Names of the same facts in Meta's params.json and in configurations without a model_type.
_PLAIN = {
    "heads": ("num_attention_heads", "n_heads", "n_head"),
    "keys": ("num_key_value_heads", "n_kv_heads", "n_head_kv", "num_kv_heads"),
    "width": ("hidden_size", "dim", "n_embd", "d_model"),
}
#: Models whose architecture in GGUF files has another name.
_ARCHITECTURES = {
    "mistral": "llama", "mixtral": "llama", "cohere": "command-r", "glm": "chatglm",
    "phi": "phi2", "deepseek_v2": "deepseek2", "deepseek_v3": "deepseek2",
    "gemma3_text": "gemma3", "llama4_text": "llama4", "qwen2_vl_text": "qwen2vl",
    "granitemoehybrid": "granitehybrid", "hunyuan_v1_dense": "hunyuan-dense",
    "hunyuan_v1_moe": "hunyuan-moe",
}  # fmt: skip
#: Layouts of llama.cpp's rope types.
_GGML = {"norm": "interleaved", "neox": "half", "mrope": "half", "imrope": "half"}
#: Models whose q projection holds a gate after the query of each head.
_GATED = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen4_exp")
#: Configuration entries that state the layout, and their value for interleaved pairs.
LAYOUT_KEYS = {"rope_interleave": True, "rotary_emb_interleaved": True, "is_neox_style": False}


@dataclass(frozen=True)
class Heads:
    """The heads of one attention layer.

    Parameters
    ----------
    dim : int
        The channels of a head.
    rotary_dim, rotary_start : int
        The rotated channels of a head.
    """

    dim: int
    rotary_dim: int
    rotary_start: int

    def __str__(self) -> str:
        last = self.rotary_start + self.rotary_dim - 1
        rotated = "" if self.rotary_dim == self.dim else f", channels {self.rotary_start}..{last}"
        return f"heads of {self.dim}{rotated}"


@dataclass(frozen=True)
class Model:
    """What a configuration says about query and key weights.

    Parameters
    ----------
    name : str
        The ``model_type``, or "" for a configuration without one.
    n_heads, n_kv_heads : int, optional
        As far as the configuration states one number for all layers.
    layers : tuple of Heads or None
        The heads of each layer, None for a layer whose queries and keys do not rotate; empty if the
        configuration does not list the layers.
    heads : Heads, optional
        The heads of all layers that rotate; None if they differ.
    layout : str, optional
        The layout of Hugging Face's weights; None if it is unknown.
    layout_key : str, optional
        The entry of the configuration that states the layout.
    latent : bool
        Whether attention is latent (DeepSeek).
    query_rank : int, optional
        The size of the compressed query in latent attention.
    gated : bool
        Whether the q projection holds a gate after the query of each head.
    shared : int
        How many of the last layers reuse the keys of earlier ones.
    """

    name: str
    n_heads: int | None
    n_kv_heads: int | None
    layers: tuple[Heads | None, ...]
    heads: Heads | None
    layout: str | None = None
    layout_key: str | None = None
    latent: bool = False
    query_rank: int | None = None
    gated: bool = False
    shared: int = 0

    def at(self, layer: int | None) -> Heads | None:
        """Return the heads of a layer, or None if it does not rotate."""
        if layer is not None and layer < len(self.layers):
            return self.layers[layer]
        if self.heads is None:
            raise ValueError(
                f"the layers of {self.name} have heads of different sizes, and the configuration "
                f"does not say which layer {layer} has"
            )
        return self.heads


def read_model(config: Mapping[str, Any] | Path, convention: str | None = None) -> Model:
    """Return the heads that a configuration describes.

    Parameters
    ----------
    config : mapping or Path
        Hugging Face's ``config.json``, Meta's ``params.json``, or the entries num_attention_heads,
        num_key_value_heads, head_dim, rotary_dim and rotary_start without a model_type.
    convention : str, optional
        The convention of the weights; "half", "interleaved" or "meta" for an unknown model_type.

    Raises
    ------
    ValueError
        An entry is missing or wrong, or the model has no rotary encoding.
    """
    data = _load(config)
    if "model_type" not in data:
        return _plain(data)
    layout = None
    try:
        encoding = from_config(data)
    except ValueError as error:
        if CONVENTIONS.get(convention or "hf") is None:
            raise ValueError(f"{error} (on the command line, --from half or interleaved)") from None
        layout = CONVENTIONS[str(convention)]
        try:
            encoding = from_config(data, layout=layout)
        except ValueError:
            raise error from None
    settings = settings_of(data, layout=layout)
    kinds = {name: _heads(e) for name, e in encoding.encodings.items()}
    found = {heads for heads in kinds.values() if heads is not None}
    if not found:
        raise ValueError(f"{encoding.name} has no rotary encoding: there is nothing to convert")
    key = settings.conventions.get("interleave_key")
    stated = key or next((k for k in LAYOUT_KEYS if k in settings.config), None)
    heads, keys = settings.get("num_attention_heads"), _first(settings.config, "keys")
    if "num_global_key_value_heads" in settings.config:
        keys = None  # some layers have the one, some the other
    if settings.model_type == "falcon" and not settings.given("new_decoder_architecture"):
        keys = (
            1 if entry(settings.config, "multi_query", True) else heads
        )  # num_kv_heads is not read
    base = settings.model_type.removesuffix("_text")
    return Model(
        settings.model_type,
        n_heads=heads if isinstance(heads, int) else None,
        n_kv_heads=keys if isinstance(keys, int) else None,
        layers=tuple(kinds.get(name) for name in encoding.layer_types),
        heads=found.pop() if len(found) == 1 else None,
        layout=_layout(encoding) if layout is None else None,
        layout_key=stated,
        latent=settings.conventions.get("head") == "latent",
        query_rank=settings.get("q_lora_rank"),
        gated=base in _GATED,
        shared=int(settings.get("num_kv_shared_layers") or 0),
    )


def resolve(option: str, convention: str, model: Model | None) -> str:
    """Return the layout, "half" or "interleaved", that a convention means for a model.

    Formula
        ``meta`` is interleaved.  ``hf`` is the layout in which transformers rotates the
        ``model_type``: half for Llama, interleaved for Cohere.  ``gguf`` is that of llama.cpp.
        Without a ``model_type``, both are those of Llama.
    """
    name = "" if model is None else model.name
    if convention not in CONVENTIONS:
        raise ValueError(f"{option} must be one of {', '.join(CONVENTIONS)}, got {convention!r}")
    if convention == "hf":
        layout = "half" if model is None or not name else model.layout
    elif convention == "gguf":
        layout = _gguf(name or "llama")
    else:
        layout = CONVENTIONS[convention]
    if layout is None:
        raise ValueError(
            f"{option} {convention}: its layout is not known for model_type {name!r}; give "
            f"{option} half (pairs i and i + d/2) or {option} interleaved (pairs 2i and 2i + 1)"
        )
    return layout


def _gguf(model_type: str) -> str | None:
    """Return the layout of a model type in GGUF files, or None if it is unknown."""

    def plain(name: str) -> str:
        return name.replace("_", "").replace("-", "")

    names = {
        plain(name): facts for name, facts in table("gguf_architectures")["architectures"].items()
    }
    facts = names.get(plain(_ARCHITECTURES.get(model_type, model_type)), {})
    return _GGML.get(facts.get("rope", ""))


def _load(config: Mapping[str, Any] | Path) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return config
    if not config.is_file():
        raise ValueError(f"there is no configuration {config}")
    data = read_json(config)
    if not isinstance(data, Mapping):
        raise ValueError(f"{config} must hold a JSON object, got {type(data).__name__}")
    return data


def _first(data: Mapping[str, Any], fact: str) -> Any:
    found = (entry(data, key) for key in _PLAIN[fact])
    return next((value for value in found if value is not None), None)


def _plain(data: Mapping[str, Any]) -> Model:
    """Return the heads that a configuration without a ``model_type`` describes."""
    n_heads, width = _first(data, "heads"), _first(data, "width")
    dim = entry(data, "head_dim", width and n_heads and width // n_heads)
    if not n_heads or not dim:
        raise ValueError(
            "a configuration without model_type must state num_attention_heads (or n_heads), and "
            "head_dim or hidden_size (or dim), got the keys "
            + (one_line(", ".join(map(str, data))) or "(none)")
        )
    if "qk_rope_head_dim" in data:
        raise ValueError("a configuration with qk_rope_head_dim must state its model_type")
    start = entry(data, "rotary_start", 0)
    partial = int(dim * entry(data, "partial_rotary_factor", 1.0))
    rotary_dim = entry(data, "rotary_dim", partial - start)
    if rotary_dim % 2 or not 2 <= rotary_dim <= dim - start:
        raise ValueError(
            f"rotary_dim must be an even number from 2 to {dim - start}, the channels from "
            f"rotary_start = {start} on, got {rotary_dim}"
        )
    heads = Heads(dim, rotary_dim, start)
    return Model("", n_heads, _first(data, "keys"), (), heads)


def _heads(encoding: Any) -> Heads | None:
    if encoding is None:
        return None
    if not isinstance(encoding, RoPE | MultiAxisRoPE) or encoding.layout not in LAYOUTS:
        raise ValueError(f"the pairs of {encoding!r} are neither half-split nor interleaved")
    return Heads(encoding.head_dim, int(encoding.rotary_dim or 0), encoding.rotary_start)


def _layout(encoding: ModelEncoding) -> str | None:
    layouts = {e.layout for e in encoding.encodings.values() if isinstance(e, RoPE | MultiAxisRoPE)}
    return layouts.pop() if len(layouts) == 1 else None
