"""The values in the metadata of a GGUF file, each checked by the rule for its key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc_ref._documents import check_document
from posenc_ref._text import one_line, shown
from posenc_ref.limits import HEAD_DIM

from .gguf_fields import RULES
from .gguf_schedule import KEYS


class Metadata:
    """The metadata of one file.

    The methods take keys without the prefix of the architecture, such as ``rope.freq_base``.
    """

    def __init__(self, values: Mapping[str, Any]):
        if not isinstance(values, Mapping):
            raise TypeError(f"metadata must be a mapping, got {shown(values)}")
        wrong = [key for key in values if not isinstance(key, str)]
        if wrong:
            raise TypeError(f"metadata must have strings as keys, got {shown(wrong[0])}")
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}
        check_document(plain, "metadata")
        name = values.get("general.architecture")
        if not isinstance(name, str):
            raise ValueError(
                f"metadata must have general.architecture, such as 'llama', got {shown(name)}"
            )
        self.architecture = name
        self._values = plain
        for key in values:
            if key.startswith(f"{name}.rope.") and key[len(name) + 1 :] not in KEYS:
                raise self.wrong(
                    f"the key {shown(key)} (= {shown(values[key])}) is not known; known are "
                    + ", ".join(f"{name}.{k}" for k in KEYS)
                )

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of ``key``, or ``default`` if it is missing."""
        value = self._values.get(self.name(key))
        if value is None:
            return default
        if key in RULES:
            try:
                RULES[key](self.name(key), value)
            except (TypeError, ValueError) as error:
                raise self.wrong(str(error)) from None
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """Return the value of ``key`` as an integer, or ``default`` if the file has no such key.

        Raise ValueError if there is no default either.
        """
        value = self.get(key, default)
        if isinstance(value, list | tuple):
            value = max(value, default=None)  # one for each layer; some have none
        if value is None:
            raise self.wrong(f"the key {self.name(key)!r} is missing")
        return int(value)

    def width(self) -> int:
        """Return the size of a head, from the sizes of the hidden state and the number of heads."""
        heads = self.integer("attention.head_count")
        if heads < 1:
            raise self.wrong(f"{self.name('attention.head_count')} must be at least 1, got {heads}")
        width = self.integer("embedding_length") // heads
        if not 1 <= width <= HEAD_DIM:
            raise self.wrong(f"a head must have 1 to {HEAD_DIM} channels, got {width}")
        return width

    def name(self, key: str) -> str:
        """Return ``key`` with the prefix of the architecture, as in the file."""
        return f"{self.architecture}.{key}"

    def wrong(self, message: str) -> ValueError:
        """Return an error whose message names the architecture, once."""
        where = f"GGUF metadata of architecture {shown(self.architecture)}: "
        return ValueError(where + one_line(message.removeprefix(where)))
