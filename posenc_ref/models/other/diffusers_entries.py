"""The entries of a ``config.json`` of diffusers, with the defaults of their arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from posenc_ref import _validate as validate
from posenc_ref._text import shown
from posenc_ref.models.config_facts import table

#: Arguments whose names concern positions.
POSITIONAL = re.compile(r"rope|rotary|pos_emb|position|axes|theta|ntk|interpolation|yarn")
#: Arguments with such a name that change no frequency and no row: limits, and other clocks.
_HARMLESS = frozenset({
    "rope_max_seq_len", "axes_lens", "time_theta", "rope_double_precision", "pos_embed_seq_len",
    "positional_embeddings", "num_positional_embeddings", "rope_temporal_skip_len",
    "max_position_embeddings", "use_layer3d_rope",
})  # fmt: skip


def version() -> str:
    """Return the release of diffusers whose classes are known."""
    return f"diffusers {table('diffusers_models')['diffusers']}"


class Entries:
    """The entries of a configuration with their defaults; it remembers which ones were read."""

    def __init__(self, name: str, config: Mapping[str, Any], defaults: Mapping[str, Any]):
        self.name, self.config, self.defaults = name, config, defaults
        self.used: set[str] = set()

    def get(self, key: str) -> Any:
        """Return an entry, or the default of the argument if the configuration lacks it."""
        self.used.add(key)
        return self.config.get(key, self.defaults.get(key))

    def count(self, expression: str) -> int:
        """Return an entry, or a product or quotient of two, as a positive integer."""
        first, sign, second = (*expression.split(" "), "", "")[:3]
        number = validate.integer(first, self.get(first), minimum=1)
        if not sign:
            return number
        other = validate.integer(second, self.get(second), minimum=1)
        return number * other if sign == "*" else number // other

    def source(self, key: str) -> str:
        """Return where the value of an entry comes from."""
        if key in self.config:
            return f"config: {key}"
        return f"default of {self.name} in {version()}"

    def wrong(self, message: str) -> ValueError:
        """Return an error whose message names the class."""
        return ValueError(f"configuration of {self.name}: {message}")

    def refuse_unread(self) -> None:
        """Raise ValueError for an entry that may change positions and was not read."""
        for key, value in self.config.items():
            if key in self.used or key in _HARMLESS or not POSITIONAL.search(key):
                continue
            known = key in self.defaults
            default = self.defaults.get(key)
            if value in (None, False) or (known and _plain(value) == _plain(default)):
                continue
            allowed = f"its default {shown(default)}" if known else "no value: it has no such entry"
            raise self.wrong(
                f"the entry {key} (= {shown(value)}) may change positions, and posenc-ref reads "
                f"{allowed}. If your implementation ignores it, remove it or set it to null"
            )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | list) else value
