"""A case as the predicates of flags see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from posenc_ref import Encoding, Rotary, from_dict
from posenc_ref._namespace import is_array
from posenc_ref.conformance.exact.bits import read_array

Json = Mapping[str, Any]


@dataclass(frozen=True)
class View:
    """The surface, the encoding and the inputs of a case."""

    surface: str
    declared: Json | None
    inputs: Mapping[str, Any]

    @classmethod
    def of(cls, surface: str, declared: Json | None, inputs: Json) -> View:
        """The view of a case in its JSON form."""
        return cls(surface, declared, {name: read_array(data) for name, data in inputs.items()})

    @cached_property
    def encoding(self) -> Encoding | None:
        """The declared encoding."""
        return None if self.declared is None else from_dict(self.declared)

    @property
    def positions(self) -> np.ndarray:
        """The positions of the call, if it has any, else an empty array."""
        return np.asarray(self.inputs.get("positions", np.zeros(0)))

    @property
    def family(self) -> str:
        """The family of the encoding, if there is one."""
        return "" if self.encoding is None else self.encoding.family

    @property
    def rotary(self) -> Rotary | None:
        """The encoding, if it is a rotary one."""
        return self.encoding if isinstance(self.encoding, Rotary) else None

    def field(self, name: str, default: Any = None) -> Any:
        """A field of the encoding; the default where it is an array of learned numbers."""
        value = getattr(self.encoding, name, default)
        return default if is_array(value) else value

    @property
    def length(self) -> int | None:
        """The length of the call, where the encoding depends on it."""
        if self.rotary is None or not self.rotary.depends_on_length:
            return None
        if self.positions.size:
            return int(self.positions.max()) + 1
        seq_len = self.inputs.get("seq_len")
        return None if seq_len is None else int(seq_len)
