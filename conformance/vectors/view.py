"""Properties of a case's surface, encoding and inputs, from which flags are computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Encoding, Rotary
from posenc_ref._namespace import is_array


@dataclass(frozen=True)
class View:
    """The surface, the encoding and the inputs of a case."""

    surface: str
    encoding: Encoding | None
    inputs: Mapping[str, Any]

    @property
    def positions(self) -> np.ndarray:
        """Return the positions of the call, or an empty array if it has none."""
        return np.atleast_1d(self.inputs.get("positions", np.zeros(0)))

    @property
    def family(self) -> str:
        """Return the family of the encoding, or "" without one."""
        return "" if self.encoding is None else self.encoding.family

    @property
    def rotary(self) -> Rotary | None:
        """Return the encoding if it is rotary, else None."""
        return self.encoding if isinstance(self.encoding, Rotary) else None

    def field(self, name: str, default: Any = None) -> Any:
        """Return a field of the encoding, or ``default`` if there is none or it is an array."""
        value = getattr(self.encoding, name, default)
        return default if is_array(value) else value

    @property
    def length(self) -> int | None:
        """Return the length of the call, or None if the encoding does not depend on it."""
        if self.rotary is None or not self.rotary.depends_on_length:
            return None
        if self.positions.size:
            return int(self.positions.max()) + 1
        seq_len = self.inputs.get("seq_len")
        return None if seq_len is None else int(seq_len)

    def contiguous(self) -> bool:
        """Return whether the positions are 0, 1, 2, ... without a gap."""
        p = self.positions
        return p.size > 0 and p.dtype.kind == "i" and bool((p == np.arange(p.shape[-1])).all())

    def near_quarter_turn(self) -> bool:
        """Return whether |cos| or |sin| of an angle of at least 100 is below 2**-12."""
        rope, at = self.rotary, self.positions
        if rope is None or rope.num_axes > 1 or at.ndim != 1:
            return False
        angle = np.abs(at)[:, None] * np.abs(rope.frequencies(self.length))
        limit = rope.attention_factor(self.length) * 2.0**-12
        small = np.minimum(*map(np.abs, rope.cos_sin(at))) < limit
        return bool((small & (angle >= 100)).any())

    def several_axes(self) -> bool:
        """Return whether a token has several positions, one for each axis."""
        return self.rotary is not None and self.rotary.num_axes > 1 and self.positions.size > 0

    def axes_differ(self) -> bool:
        """Return whether the positions of the axes differ."""
        at = self.positions
        return self.several_axes() and at.ndim > 1 and bool((at != at[0]).any())

    def bucket_edges(self) -> bool:
        """Return whether there are relative positions on both sides of every bucket edge."""
        thresholds = self.field("thresholds")
        if self.surface not in ("bucket", "bias") or thresholds is None:
            return False
        if self.surface == "bias":
            return bool(max(self.inputs["q_len"], self.inputs["k_len"]) > thresholds[-2])
        r = set(np.abs(self.inputs["relative_position"]).ravel().tolist())
        return all({n - 1, n} <= r for n in thresholds)

    def uneven_heads(self) -> bool:
        """Return whether the number of heads is no power of two."""
        heads = self.field("num_heads") if hasattr(self.encoding, "slopes") else 1
        n = self.inputs.get("num_heads") or heads
        return bool(n & (n - 1))


def on(*surfaces: str) -> Callable[[View], bool]:
    """Return a test whether a case is on one of the surfaces."""
    return lambda v: v.surface in surfaces


def beyond(limit: int) -> Callable[[View], bool]:
    """Return a test whether the absolute value of some position exceeds ``limit``."""
    return lambda v: bool(v.positions.size and np.abs(v.positions).max() > limit)
