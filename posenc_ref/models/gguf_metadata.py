"""Positional encodings from the metadata of a GGUF file, the format of llama.cpp.

This module reads a mapping of the metadata. ``posenc_ref.conformance.adapters.from_gguf`` reads the
file; it needs the ``gguf`` package, which this module does not import.

``data/gguf_architectures.json`` has the facts that only llama.cpp's C++ code states, one line for
each ``general.architecture``:

============  =====================================================================================
rope          How the d channels of the rotated slice form pairs.  "norm": channels 2k and 2k + 1;
              "neox": channels k and k + d/2; "mrope" and "imrope": as "neox", with several position
              axes; "none": no rotation.
latent        Whether the last channels of a head rotate instead of the first.
layers        The ``model_type`` that has the same layer schedule.
sliding_base  The base of layers with a sliding window.
softmax       The softmax scale, as a number; or {"blocks": n}: models with n layers have the scale
              ``(embedding_length / head_count) ** -0.5``, others ``head_dim ** -0.5``.
truncate      Whether YaRN's ramp is truncated.
switch        Whether ``rope.scaling.finetuned = false`` means no positional encoding.
============  =====================================================================================
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from posenc_ref import _validate as validate
from posenc_ref._text import one_line
from posenc_ref.encoding import Encoding
from posenc_ref.multi_axis import MultiAxisRoPE
from posenc_ref.rope import LAYOUT_ALIASES, LAYOUTS, RoPE
from posenc_ref.schedules.scaling import FrequencySchedule

from .config_facts import table
from .context import Described
from .gguf_schedule import gguf_schedule
from .gguf_values import Metadata
from .layer_defaults import config_layer_types, config_rope_layers
from .model_encoding import ModelEncoding
from .query_scale import QueryScale, QueryTemperature

_LAYOUT = {"norm": "interleaved", "neox": "half", "mrope": "half", "imrope": "half"}


def from_gguf_metadata(
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Any] | None = None,
    *,
    layout: str | None = None,
) -> ModelEncoding:
    """Return the positional encoding of a model from the metadata of its GGUF file.

    Formula
        The frequencies are ``freq_base ** (-2k / dimension_count)``, changed by the schedule in
        ``rope.scaling``.  The tensor ``rope_freqs.weight``, if there is one, divides them: files
        store Llama 3.1's scaling in this tensor.
    Source
        llama.cpp, ``src/llama-model.cpp``: ``load_hparams`` and ``llama_model_rope_type``.
    Traps
        The layout is that of the *file*: llama.cpp's converter permutes Llama's query and key
        weights, so a model that is half-split at Hugging Face is interleaved in its GGUF file.
        ggml itself multiplies the attention factor by ``1 + 0.1 ln(factor)``.  ggml always
        truncates YaRN's ramp, but gpt-oss was trained without truncation, so this function returns
        an encoding without truncation for gpt-oss.

    Parameters
    ----------
    metadata : mapping
        ``{"general.architecture": "llama", "llama.rope.freq_base": 500000.0, ...}``
    tensors : mapping, optional
        The tensors ``rope_freqs.weight``, ``rope_factors_long.weight`` and
        ``rope_factors_short.weight``, as far as the file has them.
    layout : {"half", "interleaved"}, optional
        Required for an unknown architecture.

    Raises
    ------
    ValueError
        The architecture is unknown or has no rotary encoding, or a key is missing or unknown.
    """
    return described_metadata(metadata, tensors, layout=layout).model


def described_metadata(
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Any] | None = None,
    *,
    layout: str | None = None,
) -> Described:
    """Return the encoding that :func:`from_gguf_metadata` reads, with the lengths beside it."""
    meta = Metadata(metadata)
    known = table("gguf_architectures")["architectures"]
    if layout is not None:
        validate.choice("layout", layout, LAYOUTS, LAYOUT_ALIASES)
    elif meta.architecture not in known:
        raise meta.wrong(
            'its channel layout is unknown: pass layout="interleaved" (llama.cpp\'s NORM) '
            'or layout="half" (NEOX)'
        )
    facts = known.get(meta.architecture, {"rope": "norm"})
    if facts["rope"] == "none":
        raise meta.wrong("it has no rotary encoding")
    encodings, layer_types = _layers(meta, facts, tensors or {}, layout)
    scale, scale_source = _softmax(meta, facts)
    source = facts.get("source", table("gguf_architectures")["source"])
    provenance = {
        "base": meta.name("rope.freq_base"),
        "head_dim": f"{meta.name('attention.key_length')}, or embedding_length // head_count",
        "layout": "the caller" if layout else f"{facts['rope']}: {source}",
        "layer_types": source,
    }
    if scale_source:
        provenance["softmax_scale"] = scale_source
    model = ModelEncoding(
        one_line(metadata.get("general.name") or meta.architecture),
        encodings=encodings,
        layer_types=layer_types,
        softmax_scale=scale,
        query_scale=_query_scale(meta, encodings),
        provenance=provenance,
    )
    window = meta.get("attention.sliding_window")
    windows: dict[str, int | None] = {
        name: int(window) for name in encodings if "sliding" in name and window
    }
    length = meta.get("context_length")
    return Described(model, length and int(length), meta.name("context_length"), windows)


def _head_dim(meta: Metadata) -> int:
    given = meta.get("attention.key_length_mla", meta.get("attention.key_length"))
    return meta.width() if given is None else int(given)


def _encoding(
    meta: Metadata,
    facts: Mapping[str, Any],
    layout: str | None,
    base: float,
    scaling: FrequencySchedule | None,
) -> Encoding:
    dim = _head_dim(meta)
    rotary = meta.integer("rope.dimension_count", dim)
    start = dim - rotary if facts.get("latent") else 0
    pairing = layout or _LAYOUT[facts["rope"]]
    try:
        if facts["rope"] in ("mrope", "imrope"):
            sections = tuple(int(n) for n in meta.get("rope.dimension_sections", ()) if n)
            arrangement = "interleaved" if facts["rope"] == "imrope" else "chunked"
            if sum(sections) != rotary // 2:
                raise ValueError(
                    f"{meta.name('rope.dimension_sections')} must add up to the {rotary // 2} "
                    f"rotated pairs, got {sections}"
                )
            return MultiAxisRoPE(
                dim,
                sections=sections,
                layout=pairing,
                arrangement=arrangement,
                base=base,
                scaling=scaling,
            )
        return RoPE(
            dim, layout=pairing, base=base, rotary_dim=rotary, rotary_start=start, scaling=scaling
        )
    except (TypeError, ValueError) as error:
        raise meta.wrong(str(error)) from None


def _layers(
    meta: Metadata, facts: Mapping[str, Any], tensors: Mapping[str, Any], layout: str | None
) -> tuple[dict[str, Encoding | None], tuple[str, ...]]:
    """Return the encodings by layer type, and the type of every layer."""
    count = meta.integer("block_count")
    types, rotates = ["full_attention"] * count, [True] * count
    if "layers" in facts:
        config = {"model_type": facts["layers"], "num_hidden_layers": count}
        config["sliding_window"] = meta.get("attention.sliding_window", 1)
        types, rotates = list(config_layer_types(config)), list(config_rope_layers(config))
    elif meta.architecture == "olmo2" and meta.get("attention.sliding_window"):
        types = list(config_layer_types({"model_type": "olmo3", "num_hidden_layers": count}))
    heads = meta.get("attention.head_count_kv")
    if isinstance(heads, list | tuple):
        if len(heads) != count:
            raise meta.wrong(
                f"{meta.name('attention.head_count_kv')} must have one entry for each of the "
                f"{count} layers, got {len(heads)}"
            )
        types = [t if h else "linear_attention" for t, h in zip(types, heads, strict=False)]
    if facts.get("switch") and meta.get("rope.scaling.finetuned") is False:
        rotates = [False] * count  # Granite's switch for "no positional encoding"

    base = _base(meta, "rope.freq_base", 10000.0)
    scaling = gguf_schedule(
        meta, facts, tensors, base, meta.integer("rope.dimension_count", _head_dim(meta))
    )
    full = _encoding(meta, facts, layout, base, scaling)
    sliding = full
    local = meta.get("rope.freq_base_swa", facts.get("sliding_base"))
    if local is not None:  # layers with a sliding window are never scaled
        sliding = _encoding(meta, facts, layout, _base(meta, "rope.freq_base_swa", local), None)
    names: list[str] = []
    encodings: dict[str, Encoding | None] = {}
    distinct = Counter(t for t, _ in set(zip(types, rotates, strict=True)))
    mixed = {t for t, number in distinct.items() if number > 1}
    for layer_type, turns in zip(types, rotates, strict=True):
        name = layer_type if turns or layer_type not in mixed else f"{layer_type}_nope"
        names.append(name)
        if layer_type != "linear_attention":
            own = sliding if layer_type == "sliding_attention" else full
            encodings.setdefault(name, own if turns else None)
    if not encodings:
        raise meta.wrong("none of its layers has attention")
    return encodings, tuple(names)


def _base(meta: Metadata, key: str, default: float) -> float:
    try:
        return validate.real(meta.name(key), meta.get(key, default), above=1.0)
    except ValueError as error:
        raise meta.wrong(str(error)) from None


def _softmax(meta: Metadata, facts: Mapping[str, Any]) -> tuple[float | None, str]:
    """Return the factor on q . k (None for 1/sqrt(head_dim)) and its source."""
    given = meta.get("attention.scale")
    if given:
        if given < 0:
            raise meta.wrong(f"{meta.name('attention.scale')} must be positive, got {given!r}")
        return float(given), meta.name("attention.scale")
    source = table("gguf_architectures")["source"]
    rule = facts.get("softmax")
    if isinstance(rule, float):
        return rule, source
    if rule is not None and meta.integer("block_count") == rule["blocks"]:
        return float(meta.width()) ** -0.5, source
    log_multiplier = meta.get("rope.scaling.yarn_log_multiplier")
    if facts.get("latent") and log_multiplier:
        factor = float(meta.get("rope.scaling.factor", 1.0))
        g = 1.0 + float(log_multiplier) * math.log(max(factor, 1.0))
        return _head_dim(meta) ** -0.5 * g * g, meta.name("rope.scaling.yarn_log_multiplier")
    return None, ""


def _query_scale(meta: Metadata, encodings: Mapping[str, Encoding | None]) -> dict[str, QueryScale]:
    """Return Llama 4's query temperature by layer type; its constants are in llama.cpp's code."""
    if meta.architecture != "llama4":
        return {}
    without = [name for name, encoding in encodings.items() if encoding is None]
    return dict.fromkeys(without, QueryTemperature(0.1, 8192, offset=1))
