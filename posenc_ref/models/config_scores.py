"""The factors on the logits of a model: softmax scale and query temperature."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from posenc_ref import _validate as validate

from .config_facts import Settings
from .config_rope import Rotary
from .query_scale import PowerTemperature, QueryScale, QueryTemperature


def softmax_scale(settings: Settings, dim: int, rotary: Rotary | None) -> tuple[float | None, str]:
    """Return the factor on q . k (None for ``dim ** -0.5``) and its source.

    ``dim`` is 0 if the layer types have different head sizes.

    Formula
        ``query_pre_attn_scalar ** -0.5`` in Gemma 2 and 3, ``attention_multiplier`` in Granite, a
        constant such as 1 in Gemma 4, and ``dim ** -0.5 * g ** 2`` in DeepSeek with YaRN, where
        ``g = 0.1 mscale_all_dim ln(factor) + 1`` for factors above 1, else 1.
    Source
        The attribute ``scaling`` of the attention classes in transformers 5.23.  For DeepSeek:
        ``yarn_apply_mscale`` in transformers, ``softmax_scale`` in DeepSeek-V3's
        inference/model.py.
    """
    rule = settings.conventions.get("softmax")
    if rule is None:
        return None, ""
    scale, source = _rule(settings, rule, dim, rotary)
    return (None, "") if dim and scale == dim**-0.5 else (scale, source)


def _rule(settings: Settings, rule: Any, dim: int, rotary: Rotary | None) -> tuple[float, str]:
    if isinstance(rule, float):
        return rule, settings.code
    if rule == "half-head":
        return (dim / 2) ** -0.5, f"(head_dim / 2) ** -0.5 ({settings.code})"
    if rule == "latent":
        g = _mscale(rotary)
        return dim**-0.5 * g * g, f"head_dim ** -0.5 * {g!r} ** 2, from mscale_all_dim and factor"
    value = settings.get(rule)
    if value is None:
        return dim**-0.5, ""
    try:
        number = validate.real(rule, value, above=0.0)
    except (TypeError, ValueError) as error:
        raise settings.wrong(str(error)) from None
    if rule == "attention_multiplier":
        return number, settings.source(rule)
    return number**-0.5, f"{rule} ** -0.5 ({settings.source(rule)})"


def _mscale(rotary: Rotary | None) -> float:
    if rotary is None or rotary.rope_type == "default":
        return 1.0
    mscale, factor = rotary.keys.get("mscale_all_dim"), rotary.keys.get("factor")
    if not mscale or factor is None or factor <= 1:
        return 1.0
    return 0.1 * float(mscale) * math.log(factor) + 1.0


def query_scale(
    settings: Settings, encodings: Mapping[str, Any], rotary: Rotary | None
) -> tuple[dict[str, QueryScale], str]:
    """Return the query scales by layer type, and their source.

    Source
        transformers 5.23: Llama 4 (layers without RoPE, ``attn_temperature_tuning``), Ministral 3
        and Mistral 4 (every layer, ``llama_4_scaling_beta``), Beam (layers without RoPE).
    """
    rule = settings.conventions.get("query_scale")
    without = [name for name, encoding in encodings.items() if encoding is None]
    if rule == "llama4" and settings.get("attn_temperature_tuning"):
        length = settings.integer("floor_scale")
        beta = settings.get("attn_scale")
        scale: QueryScale = QueryTemperature(beta, length, offset=1)
        return dict.fromkeys(without, scale), f"{settings.source('attn_scale')}; {settings.code}"
    if rule == "llama4-beta" and rotary is not None:
        beta = rotary.keys.get("llama_4_scaling_beta")
        if beta is not None:
            length = rotary.keys["original_max_position_embeddings"]
            scale = QueryTemperature(beta, length)
            return dict.fromkeys(encodings, scale), f"{rotary.where}: llama_4_scaling_beta"
    if rule == "beam":
        return dict.fromkeys(without, PowerTemperature(0.1, 2048)), settings.code
    return {}, ""
