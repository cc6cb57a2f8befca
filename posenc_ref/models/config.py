"""Positional encodings from the ``config.json`` of a model on the Hugging Face Hub."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc_ref import _validate as validate
from posenc_ref._text import one_line, shown
from posenc_ref.rope import LAYOUT_ALIASES, LAYOUTS

from .context import Described, config_context
from .model_encoding import ModelEncoding

if TYPE_CHECKING:
    from .config_facts import Settings

# The default part of a composite configuration, the first of these that it has.
_MAIN = ("text_config", "llm_config", "thinker_config", "vlm_config", "audio_video_config")

# The kinds of model types (config_kinds) for which a composite names its parts instead.
_WITHOUT = ("learned", "convolution", "none", "parts", "code")


def from_config(
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    part: str | None = None,
    layout: str | None = None,
    override: Mapping[str, Any] | None = None,
) -> ModelEncoding:
    """Return the positional encoding of a model from its Hugging Face configuration.

    Every spelling is read. The rotary parameters may be in ``rope_scaling`` or ``rope_parameters``,
    and may differ by layer type. The type of scaling may be called ``type`` or ``rope_type``.
    ``rope_theta`` and ``partial_rotary_factor`` may be among the rotary parameters or at the top
    level of the configuration. Facts that no configuration states (layout, rotated slice, axis
    order) come from tables by ``model_type``, which follow the modelling code of transformers.
    Missing entries have the defaults of the configuration class.  Configurations of diffusers (with
    ``_class_name``) and timm (with ``architecture``) are read as well.

    Parameters
    ----------
    config : mapping or path
        The parsed ``config.json``, or the path of the file or of its folder.
    part : str, optional
        The part of a composite configuration: ``part="vision_config"``, or ``"vision"``, is the
        vision tower. By default the text model.
    layout : {"half", "interleaved"}, optional
        The layout of the weights. Required if ``model_type`` is unknown, or if these weights have
        another layout than the ones that transformers loads.
    override : mapping, optional
        Entries that replace those of the configuration, as vLLM's ``--hf-overrides`` does:
        ``{"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}``.  Mappings are merged.

    Returns
    -------
    ModelEncoding
        An encoding for each layer type, the type of each layer, and further factors on logits.

    Raises
    ------
    ValueError
        ``model_type`` is unknown, or its configuration states no encoding (the message says why);
        keys are unknown, missing or contradict each other; or a key changes positions and is not
        read, such as ``use_logn_attn``.  The message names the key, its value and
        the allowed values.
    """
    return described_config(config, part=part, layout=layout, override=override).model


def described_config(
    config: Any,
    *,
    part: str | None = None,
    layout: str | None = None,
    override: Mapping[str, Any] | None = None,
    learned: bool = False,
) -> Described:
    """Return the encoding that :func:`from_config` reads, with the lengths beside it.

    If ``learned`` is True, learned numbers, which no configuration has, are 0 instead of refused.
    """
    # The tables and their readers are loaded with the first configuration.
    from posenc_ref._documents import naming

    from .config_facts import known
    from .config_other import is_other, other_model, other_settings
    from .config_text import text_model
    from .config_vision import vision_model
    from .override import overridden

    with naming(_file(config)):
        elsewhere = _elsewhere(config, part, layout, override)
        if elsewhere is not None:
            return Described(elsewhere)
        data, model_type = _located(config, part, layout, override)
        if layout is None and is_other(data, model_type):
            settings = other_settings(data, model_type)
            found = config_context(settings, other_model(settings, learned))
        else:
            build = vision_model if known(model_type) == "vision_models" else text_model
            settings = _settings(data, model_type, layout)
            found = config_context(settings, build(settings, model_type))
    return found if override is None else overridden(found, override)


def settings_of(config: Any, *, part: str | None = None, layout: str | None = None) -> Settings:
    """Return the entries of a configuration with their defaults; for the arguments of from_config.

    Raises ValueError for an unknown ``model_type`` without a layout, and for entries that change
    positions and are not read.
    """
    data, model_type = _located(config, part, layout, None)
    if layout is None:
        from .config_other import is_other, other_settings

        if is_other(data, model_type):
            return other_settings(data, model_type)
    return _settings(data, model_type, layout)


def _elsewhere(
    config: Any, part: str | None, layout: str | None, override: Mapping[str, Any] | None
) -> ModelEncoding | None:
    """Return the encoding of a configuration of diffusers or timm, or None for any other."""
    from .other.diffusers import diffusers_model, is_diffusers
    from .other.timm import is_timm, timm_model

    data = _read(config)
    read = diffusers_model if is_diffusers(data) else timm_model if is_timm(data) else None
    if read is None:
        return None
    for name, value in (("part", part), ("layout", layout)):
        if value is not None:
            raise ValueError(
                f"{name} must be None for a configuration of diffusers or timm, got {shown(value)}"
            )
    if override is not None:
        from .override import override as apply_override

        data = apply_override(data, override)
    return read(data)


def _file(config: Any) -> str | None:
    """Return the path of a configuration, or None for a mapping."""
    return str(config) if isinstance(config, str | os.PathLike) else None


def _located(
    config: Any, part: str | None, layout: str | None, override: Mapping[str, Any] | None
) -> tuple[Mapping[str, Any], str]:
    """Return the configuration of a part after the override, and its model type."""
    data = _read(config)
    if override is not None:
        from .override import override as apply_override

        data = apply_override(data, override)
    if layout is not None:
        validate.choice("layout", layout, LAYOUTS, LAYOUT_ALIASES)
    return _part(data, part)


def _settings(data: Mapping[str, Any], model_type: str, layout: str | None) -> Settings:
    from .config_facts import Settings, known
    from .config_keys import refuse_unread
    from .other.kinds import unknown

    if layout is None and known(model_type) is None:
        raise ValueError(unknown(model_type))
    settings = Settings(data, model_type, layout)
    refuse_unread(settings)
    return settings


def _read(config: Any) -> Mapping[str, Any]:
    from posenc_ref._documents import check_document, read_json, require_regular

    if isinstance(config, str | os.PathLike):
        path = Path(config)
        # Unlike Path.is_file, these are False for a name that is too long.
        path = path / "config.json" if os.path.isdir(path) else path
        require_regular(path)
        if not os.path.isfile(path):
            raise ValueError(
                f"config must be a config.json or its folder; there is no {one_line(path)}"
            )
        config = read_json(path)
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise TypeError(f"config must be a mapping or a path, got {shown(config)}")
    check_document(config, "config")
    wrong = [key for key in config if not isinstance(key, str)]
    if wrong:
        raise TypeError(f"config must have strings as keys, got {shown(wrong[0])}")
    return config


def _part(data: Mapping[str, Any], part: str | None) -> tuple[Mapping[str, Any], str]:
    """Return the configuration of this part (by default the text model), and its model type."""
    from .config_facts import known, parts
    from .config_keys import refuse_outside
    from .other.kinds import canonical, inner_parts, kind_of, reason

    model_type = data.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise ValueError(
            f"config must name its model_type, such as 'llama'; got {shown(model_type)} among the "
            f"keys {one_line(', '.join(map(str, data)))}"
        )
    model_type = canonical(model_type)
    inner = parts(model_type) or inner_parts(model_type)
    nested = [key for key, value in data.items() if isinstance(value, Mapping)]
    if part is not None:
        if part not in data and part not in inner and f"{part}_config" in {*nested, *inner}:
            part = f"{part}_config"
        if part not in data and part not in inner:
            for outer in (key for key in _MAIN if key in nested):  # Qwen-Omni nests its parts
                if {part, f"{part}_config"} & set(data[outer]):
                    return _inside(data[outer], inner.get(outer), outer, model_type, part)
            listed = ", ".join(map(repr, dict.fromkeys([*inner, *nested])))
            allowed = f"one of {listed}" if listed else "None, because config has no parts"
            raise ValueError(f"part must be {allowed}, got {part!r}")
        return _inside(_mapping(data, part), inner.get(part), part, model_type)
    main = next((key for key in _MAIN if key in nested), None)
    if kind_of(model_type) == "parts":
        text = None if main is None else _mapping(data, main).get("model_type", inner.get(main))
        if not isinstance(text, str) or kind_of(text) in _WITHOUT:
            raise ValueError(reason(model_type))
    elif main is None and known(model_type) is None and inner:
        only = next(iter(inner)) if len(inner) == 1 else None
        main = next((key for key in _MAIN if key in inner), only)
        if main is not None and "hidden_size" in data:
            if {"depth", "patch_size"} & set(data) and "num_hidden_layers" not in data:
                raise ValueError(
                    f"config is only the vision part of a {model_type!r} configuration: pass the "
                    'whole configuration and part="vision_config"'
                )
            return data, inner[main]  # in older files the top level has the text model's entries
        if main is None:
            listed = ", ".join(map(repr, inner))
            raise ValueError(
                f"model_type {model_type!r} has several parts: pass part=, one of {listed}"
            )
    if main is None:
        return data, model_type
    inside = _mapping(data, main)
    refuse_outside(data, inside, main)
    return _inside(inside, inner.get(main), main, model_type)


def _mapping(data: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """Return a part of a composite configuration, which is empty if it is missing or null."""
    own = data.get(part)
    if own is None:
        return {}
    if not isinstance(own, Mapping):
        raise ValueError(f"{part} must be a mapping, got {shown(own)}")
    return own


def _inside(
    data: Mapping[str, Any],
    default: str | None,
    part: str,
    whole: str,
    inner: str | None = None,
) -> tuple[Mapping[str, Any], str]:
    """Return the configuration of a part, or of the part ``inner`` in it, and its model type.

    ``default`` is used if the part names no model type, or the type of the whole model, as in older
    files.
    """
    model_type = data.get("model_type") or default
    if model_type == whole and default is not None:
        model_type = default
    if not model_type:
        raise ValueError(f"{part} must name its model_type")
    return _part({**data, "model_type": model_type}, inner)
