"""The layer schedule of a model from its configuration, with defaults for each model type.

Most configurations on the Hub list ``layer_types`` in full. Older ones give a period, or nothing,
and rely on the default of their configuration class. The tables below hold those defaults, from
transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc_ref import _validate as validate
from posenc_ref._text import shown

from .config_fields import entry
from .layer_schedule import every_nth, layer_types, rope_layers, window_from, window_letters


class UnknownLayers(ValueError):
    """A configuration does not state the order of its layers, and its class has no default."""


class _Every(NamedTuple):
    """A schedule with layer type ``full`` at every n-th layer and ``other`` at the rest.

    The configuration entry ``key`` overrides n.
    """

    n: int
    key: str = ""
    phase: str | int = "last"
    also: tuple[int, ...] = ()
    full: str = "full_attention"
    other: str = "sliding_attention"


_WINDOW = "sliding_window_pattern"
_LINEAR = "linear_attention"
_INDEXED = _Every(1, full="indexed_attention")
_ENDS_FULL = _Every(6, also=(-1,))  # the classes of Gemma 4 force the last layer to full attention

_SCHEDULES = {
    "afmoe": _Every(4, "global_attn_every_n_layers"),
    "axk2": _INDEXED,
    "bailing_hybrid": _Every(6, "layer_group_size", other=_LINEAR),
    "beam": _ENDS_FULL,
    "cohere2": _Every(4, _WINDOW),
    "cwm": _Every(4, phase="first"),
    "deepseek_v32": _INDEXED,
    "diffusion_gemma_text": _ENDS_FULL,
    "embedding_gemma2_text": _ENDS_FULL._replace(key=_WINDOW),
    "exaone4": _Every(4, _WINDOW),
    "exaone_moe": _Every(4, _WINDOW),
    "flint": _Every(4, phase=1, also=(0, 1, -1)),
    "gemma2": _Every(2),
    "gemma3_text": _Every(6, _WINDOW),
    "gemma3n_text": _Every(5),
    "gemma4_text": _ENDS_FULL,
    "gemma4_unified_text": _ENDS_FULL,
    "glm5_next_text": _Every(4, full="indexed_attention", other=_LINEAR),
    "glm_moe_dsa": _INDEXED,
    "gpt_oss": _Every(2),
    "granite_swa": _Every(4, phase="first"),
    "granitemoe_swa": _Every(4, phase="first"),
    "hy_v4": _INDEXED,
    "jamba": _Every(8, "attn_layer_period", phase=4, other=_LINEAR),
    "kolibri1": _Every(5),
    "mimo_v2_flash": _Every(6, also=(0,)),
    "minimax": _Every(2, phase="first", other=_LINEAR),
    "mistral_large4_text": _INDEXED,
    "modernbert": _Every(3, "global_attn_every_n_layers", "first"),
    "modernbert-decoder": _Every(3, "global_attn_every_n_layers", "first"),
    "muse_glimmer_text": _Every(4, phase="from-end"),
    "muse_spark_text": _Every(4, phase="from-end"),
    "neomme": _Every(6, also=(-1,)),
    "olmo3": _Every(4),
    "olmo_hybrid": _Every(4, other=_LINEAR),
    "qwen3_5_moe_text": _Every(4, "full_attention_interval", other=_LINEAR),
    "qwen3_5_text": _Every(4, "full_attention_interval", other=_LINEAR),
    "qwen3_next": _Every(4, "full_attention_interval", other=_LINEAR),
    "qwen4_exp_text": _Every(4, "full_attention_interval", full="indexed_attention", other=_LINEAR),
    "t5_gemma_module": _Every(2),
    "t5gemma2_decoder": _Every(6, _WINDOW),
    "t5gemma2_text": _Every(6, _WINDOW),
    "ultrabert": _Every(3),
    "vaultgemma": _Every(2),
    "zaya": _Every(1, full="hybrid"),
}

_LAST_IS_FULL = (
    "diffusion_gemma_text",
    "embedding_gemma2_text",
    "gemma4_text",
    "gemma4_unified_text",
)
# If use_sliding_window: sliding attention from layer max_window_layers on. Defaults of the two.
_WINDOW_FROM = {
    "dots1": (62, True),  # has no use_sliding_window
    "qwen2": (28, False),
    "qwen2_5_omni_talker": (28, False),
    "qwen2_5_omni_text": (28, False),
    "qwen2_5_vl_text": (80, False),
    "qwen2_vl_text": (80, False),
    "qwen3": (28, False),
}
_NEED_LAYER_TYPES = (
    "deepseek_v4",
    "dots3_note_text",
    "granitemoehybrid",
    "inkling2_text",
    "inkling_text",
    "kimi_linear",
    "lfm2",
    "lfm2_moe",
    "lfm3",
    "nemotron_h",
)
_KEYS = sorted({s.key for s in _SCHEDULES.values() if s.key} | {"attention_windows"})

# In these models full-attention layers have no positional encoding; sliding layers have RoPE.
_NOPE_WHERE_FULL = ("afmoe", "beam", "cohere2", "cohere2_moe", "flint")
# The same, but only if the configuration has a sliding window.
_NOPE_WHERE_FULL_IF_SLIDING = ("exaone4", "exaone_moe", "kolibri1")
_NEVER_ROPE = ("inkling2_text", "inkling_text", "jamba", "kimi_linear", "nemotron_h")
#: The layer type of each entry of DeepSeek-V4's compress_ratios: tokens for each compressed key.
_COMPRESSION = {
    0: "sliding_attention",
    4: "compressed_sparse_attention",
    128: "heavily_compressed_attention",
}
_INTERVALS = {"llama4_text": 4, "mistral_large4_text": 4, "smollm3": 4}


def config_layer_types(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the type of every layer, from the text part of a Hugging Face ``config.json``.

    ``layer_types`` is used if present. Otherwise this function follows the configuration class of
    ``model_type`` in transformers 5.23: it reads the same entries (``sliding_window_pattern``,
    ``max_window_layers``, ``no_rope_layers``...) and has the same defaults. If the class reads no
    such entries, every layer has full attention.

    Parameters
    ----------
    config : mapping
        It has ``num_hidden_layers``, and ``model_type`` or ``layer_types``. For a multimodal model,
        pass its ``text_config``.

    Returns
    -------
    tuple of str, one for each layer

    Raises
    ------
    ValueError
        ``layer_types`` has the wrong length; or it is missing, and this function does not know the
        default of ``model_type`` (LFM2, Nemotron-H and others).
    """
    num_layers, model = _of(config)
    given = entry(config, "layer_types")
    if given is not None:
        types = tuple(map(str, given))
        if len(types) != num_layers:
            raise ValueError(
                f"layer_types must name each of the {num_layers} layers (num_hidden_layers), "
                f"got {len(types)}"
            )
        if types[-1:] != ("full_attention",) and types and model in _LAST_IS_FULL:
            raise ValueError(
                f"layer_types must end with 'full_attention' for model_type {model!r} "
                f"(transformers changes the last layer to it), got {types[-1]!r}"
            )
        return types
    if model in _WINDOW_FROM:
        first, used = _WINDOW_FROM[model]
        if not entry(config, "use_sliding_window", used) or config.get("sliding_window", 0) is None:
            return layer_types([True] * num_layers)
        return window_from(num_layers, entry(config, "max_window_layers", first))
    if model == "ultrabert" and entry(config, "attention_windows") is not None:
        return layer_types([not window for window in entry(config, "attention_windows")])
    if model == "qwen2_moe":  # reversed: every other layer *below* max_window_layers
        below = entry(config, "max_window_layers", 28) if entry(config, "use_sliding_window") else 0
        return layer_types([i % 2 == 1 or i >= below for i in range(num_layers)])
    if model == "llama4_text":
        return layer_types([not r for r in config_rope_layers(config)], other="chunked_attention")
    if model == "smollm3":
        window = (
            bool(entry(config, "use_sliding_window")) and config.get("sliding_window") is not None
        )
        return layer_types([not window or rotates for rotates in config_rope_layers(config)])
    if model == "ministral":
        return layer_types([config.get("sliding_window", 4096) is None] * num_layers)
    if model == "cohere2_moe":
        dense = validate.integer("first_k_dense_replace", entry(config, "first_k_dense_replace", 0))
        if dense > num_layers:
            raise ValueError(
                f"first_k_dense_replace must be at most num_hidden_layers = "
                f"{num_layers}, got {dense}"
            )
        prefix = every_nth(dense, entry(config, "prefix_dense_sliding_window_pattern", 1))
        return layer_types([*prefix, *every_nth(num_layers - dense, entry(config, _WINDOW, 4))])
    if model in ("exaone4", "exaone_moe") and config.get("sliding_window", 0) is None:
        return layer_types([True] * num_layers)
    if model == "deepseek_v4" and (ratios := entry(config, "compress_ratios")) is not None:
        if any(r not in _COMPRESSION for r in ratios) or len(ratios) < num_layers:
            raise ValueError(
                f"compress_ratios must have one of {', '.join(map(str, _COMPRESSION))} for each of "
                f"the {num_layers} layers, got {shown(list(ratios))}"
            )
        return tuple(_COMPRESSION[r] for r in ratios[:num_layers])  # the rest predicts more tokens
    if model in _SCHEDULES:
        return _scheduled(_SCHEDULES[model], config, num_layers)
    unread = [key for key in _KEYS if config.get(key) is not None]
    if model in _NEED_LAYER_TYPES or unread:
        raise UnknownLayers(
            f"layer_types must be given for model_type {model!r}: they cannot be computed from "
            f"{', '.join(unread) or 'other entries'}"
        )
    return layer_types([True] * num_layers)


def config_rope_layers(config: Mapping[str, Any]) -> tuple[bool, ...]:
    """Return which layers use RoPE, from the text part of a Hugging Face ``config.json``.

    As in transformers 5.23, the first of these rules that applies decides:

    * a layer uses RoPE if its entry in the list ``layer_rope_theta`` is not 0;
    * in Llama 4, SmolLM3 and Mistral Large 4, a layer uses RoPE if its entry in the list
      ``no_rope_layers`` is 1; without that list, every n-th layer uses none, where n is
      ``no_rope_layer_interval``;
    * Jamba, Kimi Linear, Nemotron-H and Inkling use no RoPE;
    * a layer type with a null entry in ``rope_parameters`` does not use RoPE;
    * in Cohere 2, EXAONE 4, AFMoE and others, full-attention layers do not use RoPE;
    * in all other models, every layer uses RoPE.

    Layers without softmax attention are treated like the others, although they rotate nothing.

    Parameters
    ----------
    config : mapping
        As for :func:`config_layer_types`.

    Returns
    -------
    tuple of bool, one for each layer

    Raises
    ------
    ValueError
        As for :func:`config_layer_types`, or a list does not have one entry for each layer.
    """
    num_layers, model = _of(config)
    bases = entry(config, "layer_rope_theta")
    if bases is not None:
        return rope_layers(num_layers, layer_rope_theta=bases)
    if model in ("muse_glimmer_text", "muse_spark_text"):
        # The layers are counted from the last one; layer_types has no effect.
        return tuple(not full for full in every_nth(num_layers, 4, phase="from-end"))
    if model in _INTERVALS:
        flags = entry(config, "no_rope_layers")
        # Llama 4 treats an empty list as a missing one; early conversions wrote it.
        if flags is not None and (len(flags) or model != "llama4_text"):
            return rope_layers(num_layers, no_rope_layers=flags)
        interval = entry(config, "no_rope_layer_interval", _INTERVALS[model])
        return rope_layers(num_layers, no_rope_layer_interval=interval)
    if model in _NEVER_ROPE:
        return (False,) * num_layers
    parameters = entry(config, "rope_parameters") or {}
    unset = [kind for kind in parameters if parameters[kind] is None]
    if unset and not set(unset).isdisjoint(types := config_layer_types(config)):
        return tuple(kind not in unset for kind in types)  # Beam, Cohere Compass
    without = model in _NOPE_WHERE_FULL or (
        model in _NOPE_WHERE_FULL_IF_SLIDING and config.get("sliding_window", 0) is not None
    )
    if not without:
        return (True,) * num_layers
    rotates = [kind != "full_attention" for kind in config_layer_types(config)]
    if model == "cohere2_moe" and entry(config, "prefix_dense_sliding_window_pattern", 1) == 1:
        dense = entry(config, "mlp_layer_types")
        if dense is None:
            first = entry(config, "first_k_dense_replace", 0)
            dense = ["dense" if i < first else "sparse" for i in range(num_layers)]
        rotates = [r or kind == "dense" for r, kind in zip(rotates, dense, strict=True)]
    return tuple(rotates)


def _of(config: Mapping[str, Any]) -> tuple[int, str]:
    if not isinstance(config, Mapping):
        raise TypeError(f"config must be a mapping such as json.load gives, got {shown(config)}")
    if "num_hidden_layers" not in config:
        raise ValueError(
            "config must have num_hidden_layers; for a multimodal model, pass its text_config"
        )
    if entry(config, "num_hidden_layers") is None:
        raise ValueError("num_hidden_layers must be an integer, got None")
    return int(config["num_hidden_layers"]), str(config.get("model_type", ""))


def _scheduled(rule: _Every, config: Mapping[str, Any], num_layers: int) -> tuple[str, ...]:
    n = config.get(rule.key, rule.n)
    entry(config, rule.key)  # checks a value that is not null
    if isinstance(n, str):
        return window_letters(num_layers, n)
    n = validate.integer(rule.key or "n", n, minimum=1)
    phase = rule.phase
    if rule.key == "attn_layer_period":
        phase = validate.integer("attn_layer_offset", entry(config, "attn_layer_offset", phase))
    chosen = every_nth(num_layers, n, phase=phase, also=rule.also)
    return layer_types(chosen, full=rule.full, other=rule.other)
