"""The size of an attention head, and the slice of it that rotates, from a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc_ref._text import shown

from .config_facts import Settings
from .config_fields import entry

#: The names in ``partial_keys`` that hold a number of channels instead of a fraction.
COUNTS = ("rotary_dim", "qk_rope_head_dim", "attn_rotary_emb")


class Head(NamedTuple):
    """The size of an attention head and its rotated slice, and where the two sizes come from."""

    dim: int
    rotary_dim: int
    start: int
    source: str
    rotary_source: str


def head(settings: Settings, layer_type: str, partial: float | None) -> Head:
    """Return the head size and the rotated slice for the layers of one type.

    Formula
        ``dim = head_dim``, or ``hidden_size // num_attention_heads``.
        ``rotary_dim = int(dim * partial)``: computed in float64 and truncated, as all libraries do.
        In latent attention (DeepSeek), ``dim = qk_nope_head_dim + qk_rope_head_dim``, and the last
        ``qk_rope_head_dim`` channels rotate.

    Parameters
    ----------
    partial : float, optional
        The ``partial_rotary_factor``; None if the configuration has none.
    """
    rule = settings.conventions.get("head", "head_dim")
    if rule == "latent":
        return _latent(settings, layer_type, partial)
    dim, source = _dim(settings, rule, layer_type)
    key = settings.conventions.get("rotary_dim")
    if key is not None:
        rotary = _fixed(settings, key)
        rotary_source = settings.code if key == "clvp" else settings.source(key)
    else:
        rotary, rotary_source = _partial(settings, dim, partial, layer_type)
    if rotary % 2 or not 2 <= rotary <= dim:
        raise settings.wrong(
            f"the rotated channels must be an even number from 2 to the head's size {dim}, got "
            f"{rotary}" + ("" if partial is None else f" = int({dim} * {partial!r})")
        )
    trailing = settings.conventions.get("slice") == "trailing"
    return Head(dim, rotary, dim - rotary if trailing else 0, source, rotary_source)


def _dim(settings: Settings, rule: str, layer_type: str) -> tuple[int, str]:
    heads = "speech_encoder_attention_heads" if rule == "speech" else "num_attention_heads"
    if rule == "gemma4":
        own = _of_layer_type(settings, layer_type, "head_dim")
        if own is None and layer_type == "full_attention":
            stated = "global_head_dim" in settings.config  # null means head_dim
            own = settings.given("global_head_dim") if stated else 512
        if own is not None:
            return int(own), "config: per_layer_config, else global_head_dim (by default 512)"
        rule = "head_dim"
    if rule == "head_dim" and settings.get("head_dim") is not None:
        return settings.integer("head_dim"), settings.source("head_dim")
    width = settings.integer("hidden_size") * (2 if rule == "double" else 1)
    dim = settings.channels(width // settings.integer(heads))
    given = settings.given("head_dim")
    if given is not None and given != dim:
        raise settings.wrong(
            f"head_dim must be hidden_size // {heads} = {dim} for this model, got {given}"
        )
    times = "2 * " if rule == "double" else ""
    sources = " and ".join(dict.fromkeys([settings.source("hidden_size"), settings.source(heads)]))
    return dim, f"{times}hidden_size // {heads} ({sources})"


def _fixed(settings: Settings, key: str) -> int:
    if key == "clvp":
        heads = settings.integer("num_attention_heads")
        return settings.channels(max(settings.integer("projection_dim") // (2 * heads), 32))
    return settings.integer(key)


def _partial(
    settings: Settings, dim: int, partial: float | None, layer_type: str
) -> tuple[int, str]:
    default = settings.conventions.get("partial")
    if isinstance(default, Mapping):
        default = default[layer_type]
    if default is None:
        if partial not in (None, 1, 1.0):
            raise settings.wrong(
                f"partial_rotary_factor is {partial!r}, but this model rotates the whole head"
            )
        return dim, settings.code
    for key in COUNTS:
        if key in settings.conventions.get("partial_keys", ()) and settings.given(key) is not None:
            count = settings.integer(key)
            if partial is not None and int(dim * partial) != count:
                raise settings.wrong(
                    f"{key} = {count}, but partial_rotary_factor is {partial!r}, "
                    f"{int(dim * partial)} of {dim} channels: give one of them"
                )
            return count, settings.source(key)
    if partial is None:
        return int(dim * default), settings.class_default
    return int(dim * partial), "config: partial_rotary_factor"


def _latent(settings: Settings, layer_type: str, partial: float | None) -> Head:
    names = ("qk_nope_head_dim", "qk_rope_head_dim")
    own = [_of_layer_type(settings, layer_type, name) for name in names]
    nope = settings.integer(names[0], minimum=0) if own[0] is None else int(own[0])
    rope = settings.integer(names[1], minimum=2) if own[1] is None else int(own[1])
    dim = settings.channels(nope + rope)
    if partial not in (None, 1, 1.0):
        wholes = {dim, settings.get("head_dim") or dim}  # of either size, by model
        if rope not in {int(whole * float(partial or 0)) for whole in wholes}:
            raise settings.wrong(
                f"partial_rotary_factor is {partial!r}, but qk_rope_head_dim states that {rope} of "
                f"{dim} channels rotate"
            )
    sources = [settings.source(name) for name in names]
    return Head(dim, rope, nope, "; ".join(dict.fromkeys(sources)), sources[1])


def _of_layer_type(settings: Settings, layer_type: str, key: str) -> Any:
    """Return ``key`` for the layers of one type; None if the configuration has none for the type.

    It is in ``per_layer_config``, or in ``swa_<key>`` for layers with a sliding window.
    """
    if layer_type == "sliding_attention" and settings.given(f"swa_{key}") is not None:
        return settings.given(f"swa_{key}")
    layers, types = settings.given("per_layer_config"), settings.given("layer_types")
    if layers is None or not types:
        return None
    found = set()
    for i, values in layers.items():
        if not str(i).isdecimal() or not int(i) < len(types):
            raise settings.wrong(
                f"per_layer_config must have layers 0 .. {len(types) - 1} as keys, got {shown(i)}"
            )
        if isinstance(values, Mapping) and types[int(i)] == layer_type:
            try:
                found.add(entry(values, key))
            except (TypeError, ValueError) as error:
                raise settings.wrong(f"per_layer_config[{i}]: {error}") from None
    found -= {None}
    if len(found) > 1:
        raise settings.wrong(
            f"per_layer_config must have the same {key} for all {layer_type} layers, got {found}"
        )
    return next(iter(found), None)
