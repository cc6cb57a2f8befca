"""Flags: why a case is there.  Every flag is recomputed from the case, so that none can lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Encoding, Rotary, from_dict

from .bits import read_array

Json = Mapping[str, Any]


@dataclass(frozen=True)
class View:
    """What a flag may look at."""

    surface: str
    encoding: Encoding | None
    inputs: Mapping[str, Any]

    @classmethod
    def of(cls, surface: str, declared: Json | None, inputs: Json) -> View:
        """The view of a case in its JSON form."""
        value = None if declared is None else from_dict(declared)
        return cls(surface, value, {name: read_array(data) for name, data in inputs.items()})

    @property
    def positions(self) -> np.ndarray:
        """The positions of the call, if it has any, else an empty array."""
        found = self.inputs.get("positions")
        return np.zeros(0) if found is None else np.asarray(found)

    def field(self, name: str, default: Any = None) -> Any:
        """A field of the encoding."""
        return getattr(self.encoding, name, default)


@dataclass(frozen=True)
class Flag:
    """The definition of a flag, as files carry it, and its test."""

    bug_type: tuple[str, ...]  #: codes of findings (``posenc explain CODE``)
    catches: str
    test: Callable[[View], bool]
    refusable: bool = False  #: an implementation may raise instead of answering

    def to_json(self) -> dict[str, Any]:
        """The definition without its test."""
        return {
            "bug_type": list(self.bug_type),
            "catches": self.catches,
            "refusable": self.refusable,
        }


def _beyond(limit: int) -> Callable[[View], bool]:
    return lambda v: bool(v.positions.size and np.abs(v.positions).max() > limit)


def _contiguous(v: View) -> bool:
    p = v.positions
    return p.ndim == 1 and p.dtype.kind == "i" and np.array_equal(p, np.arange(p.size))


def _scattered(v: View) -> bool:
    return bool(v.positions.size) and not _contiguous(v)


def _near_quarter_turn(v: View) -> bool:
    """Whether cos or sin of some angle of 100 or more is below 2**-12: the value is all tail."""
    if not isinstance(v.encoding, Rotary) or v.positions.ndim != 1 or not v.positions.size:
        return False
    cos, sin = v.encoding.cos_sin(v.positions)
    angle = np.abs(v.positions)[:, None] * np.abs(v.encoding.frequencies())
    small = np.minimum(np.abs(cos), np.abs(sin)) < 2.0**-12
    return bool((small & (angle >= 100)).any())


FLAGS: dict[str, Flag] = {
    "FirstPositions": Flag(
        ("layout", "sign", "not-a-rotation", "position-origin"),
        "What is wrong at positions 0, 1, 2, ... already; every implementation must accept them.",
        _contiguous,
    ),
    "ScatteredPositions": Flag(
        ("decode-offset", "wrong-row", "position-origin"),
        "The index of the token taken for its position, or a table that ends early.",
        _scattered,
        refusable=True,
    ),
    "RepeatedPositions": Flag(
        ("wrong-row",),
        "Tables built by counting on from the first position.",
        lambda v: v.positions.ndim == 1 and np.unique(v.positions).size < v.positions.size,
        refusable=True,
    ),
    "PastBfloat16": Flag(
        ("position-precision", "angle-precision"),
        "Positions or angles in bfloat16, which merges integers past 256.",
        _beyond(256),
        refusable=True,
    ),
    "PastFloat16": Flag(
        ("position-precision", "angle-precision", "position-range"),
        "Positions or angles in float16, which merges integers past 2048; tables that wrap.",
        _beyond(2048),
        refusable=True,
    ),
    "LongContext": Flag(
        ("position-range", "scaling-missing", "scaling-formula", "scaling-parameter"),
        "Tables clamped or wrapped at 4096 or 32768, positions in 16 bits.",
        _beyond(32767),
        refusable=True,
    ),
    "PastFloat32": Flag(
        ("range-reduction", "position-precision"),
        "Angles multiplied out in float64 or float32, where whole turns eat the digits.",
        _beyond(2**20),
        refusable=True,
    ),
    "NearQuarterTurn": Flag(
        ("range-reduction",),
        "cos and sin that reduce large angles with too short a pi: here one of them is nearly 0.",
        _near_quarter_turn,
        refusable=True,
    ),
    "NegativePositions": Flag(
        ("position-range", "wrong-row"),
        "Negative positions clamped to 0, or wrapped to the end of a table.",
        lambda v: bool(v.positions.size and v.positions.min() < 0),
        refusable=True,
    ),
    "FractionalPositions": Flag(
        ("position-precision",),
        "Positions truncated to integers.",
        lambda v: v.positions.dtype.kind == "f" and bool((v.positions % 1 != 0).any()),
        refusable=True,
    ),
    "RowPositions": Flag(
        ("row-offset", "position-axis"),
        "Rows of a batch that are given other positions than their own.",
        lambda v: v.positions.ndim > 1 and v.positions.shape[-2] > 1,
        refusable=True,
    ),
    "DistinctSizes": Flag(
        ("position-axis", "shape"),
        "The head or batch axis taken for the sequence: all three sizes differ.",
        lambda v: "x" in v.inputs and len({n for n in v.inputs["x"].shape[:3] if n > 1}) == 3,
    ),
}

#: The flag of a case that kills nothing, which is what justifies it.
PINS = "PinsDefinition"
FLAGS[PINS] = Flag(
    ("inaccurate",),
    "No wrong implementation of the corpus is declared as this and caught by this case; it fixes "
    "what the definition says.",
    lambda v: False,  # decided by `kills`
)


def flags_of(view: View, kills: Sequence[str]) -> list[str]:
    """The flags of a case, in the order of the table."""
    found = [name for name, flag in FLAGS.items() if flag.test(view)]
    return found if kills else [*found, PINS]
