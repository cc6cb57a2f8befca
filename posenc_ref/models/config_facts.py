"""The facts about each model type that its configuration does not state.

``data/text_models.json`` and ``data/vision_models.json`` hold the conventions that only the
modelling code of transformers 5.23.0 states, one line for each ``model_type``.  That code is in
``models/<file>/modeling_<file>.py``, where ``file`` is the model type unless the line has another.
``data/config_defaults.json`` holds the defaults of the configuration classes;
``tools/configurations/config_defaults.py`` writes it.

``data/text_models.json`` also lists the model types that are not supported (``refused``).  The keys
in the line of a model type are:

==================  ==============================================================================
layout, sign,       Fields of :class:`RoPE`.
output_layout
interleave_key      A configuration entry; if it is false, input and output are half-split.
head                The rule for the size of a head (see ``config_heads``).
slice               "trailing": the last channels of a head rotate instead of the first.
rotary_dim          The configuration entry with the number of rotated channels.
partial             The default of the configuration entry ``partial_rotary_factor``.  Models
                    without this key do not read that entry.
partial_keys        Older names of ``partial_rotary_factor``, or of the number of rotated channels.
base                The base, if the configuration cannot change it.
base_keys           Configuration entries outside rope_parameters that hold the base: a list, or
                    one name for each layer type.
layer_bases         The configuration entry with a list of the base of each layer.
parameters          The default of rope_parameters.
per_layer_type      Whether rope_parameters may be nested by layer type.
labels              The names by which rope_parameters calls the layer types.
flat_scaling        The layer types to which a rope_scaling that is not nested applies.
unscaled            The configuration entry that lists the layers with scaled frequencies.
rope_types          The allowed rope types.
renames             Other names of rope types, with the rope type that each means.
ignored             Keys of rope_parameters that the model does not read.
sections, axes,     M-RoPE: the default sections, the names of the axes in the order of the
arrangement         positions, and the arrangement of the sections.
softmax             The rule for the softmax scale (see ``config_scores``).
query_scale         The rule for the query scale (see ``config_scores``).
values              "shared" if one tensor is key and value, both rotated (see :class:`Attention`).
sinks               The layer types whose heads have sinks, or "all".
reads               Further entries that the configuration class writes or reads.
when                Configuration entries with the values that mean a rotary encoding.
==================  ==============================================================================
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc_ref._text import one_line, shown
from posenc_ref.limits import HEAD_DIM, LENGTH

from .config_fields import count, entry

_DATA = Path(__file__).parent / "data"


@functools.cache
def table(name: str) -> Mapping[str, Any]:
    """Return one of the JSON files of ``posenc_ref/models/data``."""
    loaded: Mapping[str, Any] = json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


@functools.cache
def known(model_type: str) -> str | None:
    """Return the name of the table that contains ``model_type`` ("text_models", ...), or None."""
    for name in ("text_models", "vision_models"):
        if model_type in table(name)["models"]:
            return name
    return None


def parts(model_type: str) -> Mapping[str, str]:
    """Return {part: default ``model_type``} for the parts of a composite model that have RoPE.

    The name of a part is its key in the configuration, such as "vision_config".
    """
    found: Mapping[str, str] = table("config_defaults")["parts"].get(model_type, {})
    return found


class Settings:
    """The entries of a configuration, and for each where its value comes from.

    An entry that is missing or null has the default of the configuration class in transformers.
    """

    def __init__(self, config: Mapping[str, Any], model_type: str, layout: str | None = None):
        self.config = config
        self.model_type = model_type
        source = known(model_type)
        version = table("config_defaults")["transformers"]
        if source is None:
            assert layout is not None  # config.py refuses such a configuration
            # Unknown models are assumed to rotate in the usual way and to read a partial factor.
            self.conventions: Mapping[str, Any] = {"layout": layout, "partial": 1.0}
            self.code = "the caller gives the layout; other conventions are assumed to be Llama's"
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
        """Return the value that the configuration itself has for ``key`` or its alias, or None."""
        names = [key, self._aliases.get(key, key)]
        try:
            values = [entry(self.config, name, rule=key) for name in names]
        except (TypeError, ValueError) as error:
            raise self.wrong(str(error)) from None
        found = [value for value in values if value is not None]
        if found and any(value != found[0] for value in found):
            raise self.wrong(
                f"{names[0]} and {names[1]} disagree: {shown(found[0])} and {shown(found[1])}"
            )
        return found[0] if found else None

    def reads(self, key: str) -> bool:
        """Return whether the configuration class has a default or another name for an entry."""
        return key in self.defaults or key in self._aliases or key in self._aliases.values()

    def default(self, key: str) -> Any:
        """Return the default of the configuration class, or None."""
        value = self.defaults.get(self._aliases.get(key, key), self.defaults.get(key))
        return value

    def get(self, key: str) -> Any:
        """Return the value of an entry, else the default of the configuration class, else None."""
        value = self.given(key)
        return self.default(key) if value is None else value

    def source(self, key: str) -> str:
        """Return the source of ``get(key)``: the configuration or the default of its class.

        :attr:`ModelEncoding.provenance` holds it.
        """
        return f"config: {key}" if self.given(key) is not None else self._class

    @property
    def class_default(self) -> str:
        """The words by which ``provenance`` names a default of the configuration class."""
        return self._class

    def integer(self, key: str, *, minimum: int = 1) -> int:
        """Return a required entry as an integer."""
        value = self.get(key)
        if value is None:
            raise self.wrong(f"{key} is missing, and the configuration class has no default")
        try:
            return count(key, value, minimum, LENGTH)
        except (TypeError, ValueError) as error:
            raise self.wrong(str(error)) from None

    def channels(self, number: int) -> int:
        """Return the size of a head that follows from other entries; raise if it is too large."""
        if not 1 <= number <= HEAD_DIM:
            raise self.wrong(f"a head must have 1 to {HEAD_DIM} channels, got {number}")
        return number

    def wrong(self, message: str) -> ValueError:
        """Return an error whose message names the configuration."""
        return ValueError(
            f"configuration of model_type {shown(self.model_type)}: {one_line(message)}"
        )
