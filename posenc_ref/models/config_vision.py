"""The encoding of a vision tower from its configuration.

Towers have two or three position axes and no frequency scaling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from posenc_ref.multi_axis import MultiAxisRoPE

from .config_facts import Settings
from .config_rope import rotary_parameters
from .model_encoding import ModelEncoding

#: The one layer type of a tower.
LAYER_TYPE = "vision"


def vision_model(settings: Settings, name: str) -> ModelEncoding:
    """Return the encoding of a vision tower.

    ``provenance["axes"]`` names the axes of its positions, in order.

    Source
        ``compute_axial_rope_parameters`` and ``recomposition_frequencies`` of the towers in
        transformers 5.23.  DINOv3, Llama 4 and EfficientLoFTR have their own code there.
    """
    conventions = settings.conventions
    rotary = rotary_parameters(settings, [LAYER_TYPE])[LAYER_TYPE]
    assert rotary is not None  # null occurs only in nested parameters, which towers do not have
    dim, source = _dim(settings)
    count = 3 if conventions["axes"].startswith("t,") else 2
    sections = _sections(settings, dim, count)
    scale = 2 * math.pi if conventions.get("position_scale") == "2 pi" else 1.0
    encoding = MultiAxisRoPE(
        dim,
        sections=sections,
        layout=settings.layout,
        arrangement=_arrangement(conventions["arrangement"], sections),
        spacing=conventions["spacing"],
        base=rotary.base,
        offset=conventions.get("offset", 0.0),
        position_scale=scale,
    )
    return ModelEncoding(
        name,
        encodings={LAYER_TYPE: encoding},
        softmax_scale=conventions.get("softmax"),
        provenance={
            "head_dim": source,
            "base": rotary.base_source,
            "layout": settings.layout_source,
            "axes": f"positions are ({conventions['axes']}): {settings.code}",
        },
    )


def _dim(settings: Settings) -> tuple[int, str]:
    rule = settings.conventions.get("head", "head_dim")
    if rule == "memory":
        names = (
            "memory_attention_hidden_size",
            "memory_attention_downsample_rate",
            "memory_attention_num_attention_heads",
        )
        hidden, rate, heads = (settings.integer(name) for name in names)
        return settings.channels(hidden // (rate * heads)), "; ".join(
            settings.source(name) for name in names
        )
    if rule == "hidden_size":  # rotated before the heads are cut
        return settings.channels(settings.integer("hidden_size")), settings.source("hidden_size")
    if rule == "head_dim" and settings.get("head_dim") is not None:
        return settings.integer("head_dim"), settings.source("head_dim")
    width = "embed_dim" if rule == "embed_dim" else "hidden_size"
    dim = settings.channels(settings.integer(width) // settings.integer("num_attention_heads"))
    given = settings.given("head_dim")
    if given is not None and given != dim:
        raise settings.wrong(
            f"head_dim must be {width} // num_attention_heads = {dim} for this tower, got {given}"
        )
    return dim, f"{width} // num_attention_heads ({settings.source(width)})"


def _sections(settings: Settings, dim: int, count: int) -> tuple[int, ...]:
    """Return the number of pairs of every axis, ``dim // (2 * count)`` for each.

    With three axes, channels from ``6 * (dim // 6)`` on do not rotate.
    """
    pairs = dim // (2 * count)
    if count == 2 and dim % 4:
        raise settings.wrong(f"the head's size must be divisible by 4 for two axes, got {dim}")
    if pairs < 1:
        raise settings.wrong(
            f"the head's size must be at least {2 * count} for {count} axes, got {dim}"
        )
    return (pairs,) * count


def _arrangement(rule: str, sections: tuple[int, ...]) -> str | tuple[int, ...]:
    """Return the ``arrangement`` of :class:`MultiAxisRoPE` for a name in vision_models.json."""
    known: Mapping[str, Any] = {
        "chunked": "chunked",
        "alternating": "interleaved",
        "alternating, last axis first": (1, 0) * sections[0],
        "chunked, last axis first": (1,) * sections[0] + (0,) * sections[0],
    }
    return known[rule]  # type: ignore[no-any-return]
