"""The types of a model's layers, and the rotation of each type, from its configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from posenc_ref._text import shown
from posenc_ref.limits import KINDS

from .config_facts import Settings
from .layer_defaults import UnknownLayers, config_layer_types, config_rope_layers

# Layer types without softmax attention; they have no positional encoding.
WITHOUT_ATTENTION = frozenset({"conv", "linear_attention", "mamba", "moe", "recurrent"})
_LEGACY = {"attention": "full_attention", "mamba": "linear_attention"}


class Layers(NamedTuple):
    """The name of each layer, and for each name the kind of its layers.

    Layers of the same kind have the same name.  Layers without attention have no entry in
    ``kinds``.  ``source`` is where the names come from.
    """

    names: tuple[str, ...]
    kinds: dict[str, Kind]
    source: str


class Kind(NamedTuple):
    """A layer type, whether its layers use RoPE, and their base and scaling.

    Layers of one type can be of several kinds: SmolLM3 has full attention with and without RoPE.
    ``base=None`` means the base in the rotary parameters of the layer type.
    """

    layer_type: str
    rotates: bool = True
    base: float | None = None
    scaled: bool = True


#: Configuration keys that state which layers rotate or have a sliding window.
_SCHEDULE = (
    "no_rope_layers",
    "no_rope_layer_interval",
    "sliding_window_pattern",
    "max_window_layers",
)


def layers(settings: Settings) -> Layers:
    """Return the layers of a model, each named by its layer type.

    If layers of one type rotate differently, their names have suffixes: ``full_attention_nope``
    does not rotate, ``full_attention_unscaled`` has plain RoPE, ``sliding_attention_500000`` has
    base 500000.
    """
    types, source = _types(settings)
    kinds = _kinds(settings, types)
    # DeepSeek-V4 names its tables "main" and "compress", each for several layer types.
    labels = settings.conventions.get("labels", {})
    types = tuple(labels.get(t, t) for t in types)
    kinds = [k and k._replace(layer_type=labels.get(k.layer_type, k.layer_type)) for k in kinds]
    distinct = Counter(k.layer_type for k in {k for k in kinds if k is not None})
    several = {t for t, number in distinct.items() if number > 1}
    names = tuple(t if k is None else _name(k, several) for t, k in zip(types, kinds, strict=True))
    found = {name: k for name, k in zip(names, kinds, strict=True) if k is not None}
    found |= {label: Kind(label) for label in labels.values() if label not in found}
    if not found:
        raise settings.wrong("none of its layers has attention")
    if len(found) > KINDS:
        raise settings.wrong(
            f"a model must have at most {KINDS} different kinds of layers, got {len(found)}"
        )
    return Layers(names if source else (), found, source)


def _types(settings: Settings) -> tuple[tuple[str, ...], str]:
    """Return the type of every layer, and where the types come from.

    If the configuration does not determine them, return each layer type once and no source.
    """
    config = dict(settings.config) | {"model_type": settings.model_type}
    count = settings.get("num_hidden_layers")
    blocks, chosen = settings.given("block_types"), settings.given("attn_layer_indices")
    given = settings.given("layer_types")
    if given is not None:
        config["layer_types"] = [_LEGACY.get(t, t) for t in given]
        count = len(given) if settings.given("num_hidden_layers") is None else count
    elif blocks is not None:  # RecurrentGemma's pattern
        if not blocks:
            raise settings.wrong("block_types must name at least one block, got []")
        pattern = [blocks[i % len(blocks)] for i in range(count or 0)]
        config["layer_types"] = [_LEGACY.get(t, t) for t in pattern]
    elif chosen is not None:  # Bamba
        attention = set(chosen)
        config["layer_types"] = [
            "full_attention" if i in attention else "linear_attention" for i in range(count or 0)
        ]
    if count is None:
        return _unknown_layers(settings), ""
    config["num_hidden_layers"] = count
    try:
        types = config_layer_types(config)
    except UnknownLayers:
        # If the configuration does not state the order of the layers, it stays unknown.
        if given is not None or any(settings.given(key) is not None for key in _SCHEDULE):
            raise
        return _unknown_layers(settings), ""
    settings.config = config  # later readers use its layer_types
    return types, "config: layer_types" if given is not None else f"schedule of {settings.code}"


def _unknown_layers(settings: Settings) -> tuple[str, ...]:
    parameters = settings.given("rope_parameters") or settings.conventions.get("parameters")
    nested = [key for key, value in (parameters or {}).items() if isinstance(value, dict)]
    labels = settings.conventions.get("labels", {})
    return tuple(labels) or tuple(nested) or ("full_attention",)


def _kinds(settings: Settings, types: Sequence[str]) -> list[Kind | None]:
    config = dict(settings.config) | {"model_type": settings.model_type}
    config |= {"layer_types": list(types), "num_hidden_layers": len(types)}
    rotates = config_rope_layers(config)
    bases = _bases(settings, types)
    scaled = _scaled(settings, len(types))
    return [
        None if t in WITHOUT_ATTENTION else Kind(t, r, b if r else None, s or not r)
        for t, r, b, s in zip(types, rotates, bases, scaled, strict=True)
    ]


def _bases(settings: Settings, types: Sequence[str]) -> list[float | None]:
    """Return for each layer the base that the configuration lists (Granite SWA), or None."""
    key = settings.conventions.get("layer_bases")
    given = None if key is None else settings.given(key)
    if given is None:
        return [None] * len(types)
    if not isinstance(given, list | tuple) or len(given) < len(types):
        raise settings.wrong(
            f"{key} must list the base of each of the {len(types)} layers, got {shown(given)}"
        )
    return [float(base) if base else None for base in given[: len(types)]]


def _scaled(settings: Settings, count: int) -> list[bool]:
    """Return for each layer whether its frequencies are scaled; Molmo 2 lists the scaled ones."""
    key = settings.conventions.get("unscaled")
    given: Any = None if key is None else settings.given(key)
    scaled = set(range(count) if given is None else given)
    return [i in scaled for i in range(count)]


def _name(kind: Kind, several: set[str]) -> str:
    if kind.layer_type not in several:
        return kind.layer_type
    if not kind.rotates:
        return f"{kind.layer_type}_nope"
    if not kind.scaled:
        return f"{kind.layer_type}_unscaled"
    return kind.layer_type if kind.base is None else f"{kind.layer_type}_{kind.base:g}"
