"""The conventions and defaults of each model type that its configuration does not state.

Two kinds of table, with one line for each ``model_type``.  ``data/text_models.json`` and
``data/vision_models.json`` hold the conventions that are stated only in the modelling code of
transformers 5.23.0 (``models/<file>/modeling_<file>.py``; ``file`` is the model type itself unless
the entry says otherwise).  ``data/config_defaults.json`` holds the defaults of the configuration
classes, written by ``tools/config_defaults.py``.

Entries of a text model
    ``layout``, ``output_layout``, ``sign``: as the fields of :class:`RoPE`; ``interleave_key``:
    the configuration entry that, if false, means half-split input and output.
    ``head``: how the head's size is found (see ``config_heads``); ``slice``: "trailing".
    ``rotary_dim``: the entry that holds the number of rotated channels; ``partial``: the model
    reads ``partial_rotary_factor``, with this default; ``partial_keys``: older names of it.
    ``base``: a constant base, which the configuration cannot change; ``base_keys``: entries for the
    base outside of rope_parameters (a list, or one name for each layer type).
    ``parameters``: the default of rope_parameters; ``per_layer_type``: they may be nested by layer
    type; ``labels``: the names used for layer types there; ``flat_scaling``: the layer types to
    which a rope_scaling without nesting applies.
    ``rope_types``: the allowed ones; ``renames``: their aliases;
    ``ignored``: keys that the model does not read.
    ``sections``, ``arrangement``, ``axes``: M-RoPE,
    the axes named in the order of the positions.
    ``softmax``, ``query_scale``: the rule for the
    scale (see ``config_scores``).
    ``when``: entries that must have one of these values, else the
    model is not rotary.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc_ref import _validate as validate

_DATA = Path(__file__).parent / "data"


@functools.cache
def table(name: str) -> Mapping[str, Any]:
    """Return one of the JSON files of ``posenc_ref/models/data``."""
    loaded: Mapping[str, Any] = json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


@functools.cache
def known(model_type: str) -> str | None:
    """Return the name of the table with this model type ("text_models", ...), or None."""
    for name in ("text_models", "vision_models"):
        if model_type in table(name)["models"]:
            return name
    return None


def parts(model_type: str) -> Mapping[str, str]:
    """Return the rotary parts of a composite configuration, as {entry: default ``model_type``}."""
    found: Mapping[str, str] = table("config_defaults")["parts"].get(model_type, {})
    return found


class Settings:
    """The entries of a configuration with the defaults of its class, and the source of each.

    An entry that is missing or null has the default of the class.
    """

    def __init__(self, config: Mapping[str, Any], model_type: str, layout: str | None = None):
        self.config = config
        self.model_type = model_type
        source = known(model_type)
        version = table("config_defaults")["transformers"]
        if source is None:
            if layout is None:
                raise ValueError(_unknown(model_type))
            # Unknown models are assumed to rotate in the usual way and to read a partial factor.
            self.conventions: Mapping[str, Any] = {"layout": layout, "partial": 1.0}
            self.code = "the layout is the caller's, the rest as in Llama"
        else:
            self.conventions = table(source)["models"][model_type]
            file = self.conventions.get("file", model_type)
            self.code = f"transformers {version}, models/{file}/modeling_{file}.py"
        class_defaults = table("config_defaults")["models"].get(model_type, {})
        self.defaults: Mapping[str, Any] = class_defaults.get("defaults", {})
        # The class's own rope_theta takes precedence over the default that all classes share.
        own = class_defaults.get("defaults", {}).get("rope_theta")
        self.theta: Any = class_defaults.get("theta", 10000.0) if own is None else own
        self._aliases: Mapping[str, str] = class_defaults.get("aliases", {})
        self._class = f"default of {class_defaults.get('class', 'PretrainedConfig')}"
        self._class += f" in transformers {version}"
        self.layout = layout or self.conventions["layout"]
        self.layout_source = self.code if layout is None or source is None else "the caller"

    def given(self, key: str) -> Any:
        """Return the configuration's own value of ``key`` or its alias, or None."""
        names = [key, self._aliases.get(key, key)]
        found = [self.config[name] for name in names if self.config.get(name) is not None]
        if found and any(value != found[0] for value in found):
            raise self.wrong(f"{names[0]} and {names[1]} disagree: {found[0]!r} and {found[1]!r}")
        return found[0] if found else None

    def default(self, key: str) -> Any:
        """Return the default of the configuration class, or None."""
        value = self.defaults.get(self._aliases.get(key, key), self.defaults.get(key))
        return value

    def get(self, key: str) -> Any:
        """Return the value of an entry, by default that of the class, or None."""
        value = self.given(key)
        return self.default(key) if value is None else value

    def source(self, key: str) -> str:
        """Return the source of the value that :meth:`get` returns."""
        return f"config: {key}" if self.given(key) is not None else self._class

    @property
    def class_default(self) -> str:
        """The source of a default of the configuration class, in words."""
        return self._class

    def integer(self, key: str, *, minimum: int = 1) -> int:
        """Return a required entry as an integer."""
        value = self.get(key)
        if value is None:
            raise self.wrong(f"{key} is missing, and its class has no default for it")
        try:
            return validate.integer(key, value, minimum=minimum)
        except (TypeError, ValueError) as error:
            raise self.wrong(str(error)) from None

    def wrong(self, message: str) -> ValueError:
        """Return an error whose message names the configuration."""
        return ValueError(f"configuration of model_type {self.model_type!r}: {message}")


def _unknown(model_type: str) -> str:
    """Return the error message for a model type without an entry."""
    refused = table("text_models")["refused"].get(model_type)
    if refused is not None:
        return f"model_type {model_type!r} is not expressed here: {refused}"
    defaults = table("config_defaults")
    if model_type in defaults["others"]:
        version = defaults["transformers"]
        return (
            f"model_type {model_type!r} has no rotary encoding in transformers {version}; where "
            'this one has, pass layout="half" or layout="interleaved"'
        )
    import difflib  # only errors need it

    names = [*table("text_models")["models"], *table("vision_models")["models"], *defaults["parts"]]
    near = difflib.get_close_matches(model_type, names)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return (
        f"model_type {model_type!r} is not known{hint} No configuration says how channels are "
        'paired: pass layout="half" (as in Llama) or layout="interleaved" (as in GPT-J)'
    )
