"""The lengths that a model's configuration states beside its encoding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .model_encoding import ModelEncoding

if TYPE_CHECKING:
    from .config_facts import Settings

#: Entries with the length of the context, in the order in which they are looked up.
_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
#: Models in which every layer has the window ``sliding_window`` (transformers 5.23).
_ALL_SLIDE = frozenset({"mistral", "mixtral", "phi3", "phimoe", "starcoder2"})


class Described(NamedTuple):
    """A model's encodings, the length of its context, and the windows of its layers.

    ``length`` is None if no source states it, and ``source`` says where it comes from.
    ``windows`` has the number of keys that a query sees, or None for all, for each layer type whose
    window is known.
    """

    model: ModelEncoding
    length: int | None = None
    source: str = ""
    windows: Mapping[str, int | None] = {}


def config_context(settings: Settings, model: ModelEncoding) -> Described:
    """Return the model with the context length and the windows of its configuration."""
    length, source = None, ""
    for key in _LENGTHS:
        value = settings.given(key)
        if value is not None and value > 0:
            length, source = int(value), settings.source(key)
            break
    return Described(model, length, source, _windows(settings, model))


def _windows(settings: Settings, model: ModelEncoding) -> dict[str, int | None]:
    entries = {"sliding": "sliding_window", "chunked": "attention_chunk_size"}
    found: dict[str, int | None] = {}
    for layer_type in model.encodings:
        keys = [key for word, key in entries.items() if word in layer_type]
        if settings.model_type in _ALL_SLIDE:
            keys = ["sliding_window"]
        for key in keys:
            if key in settings.config:
                found[layer_type] = _window(settings.given(key))
    return found


def _window(size: Any) -> int | None:
    return size if isinstance(size, int) and size > 0 else None
