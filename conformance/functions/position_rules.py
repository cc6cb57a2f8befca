"""Position ids of whole prompts: surfaces ``mrope_position_ids`` and ``mrope_packed``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import (
    CanvasPositions,
    ImageGenerationPositions,
    MRoPEPositions,
    PositionRule,
    XDRoPEPositions,
)
from posenc_ref.conformance.diagnosis.mistake import Mistake

from .function import Arguments, Plain
from .mrope import MROPE
from .mrope_canvas import CANVAS
from .mrope_common import GRID, Kind, two_of_rule
from .mrope_generation import GENERATION
from .mrope_layouts import Batch
from .mrope_packed import packed_calls, packed_mistakes, two_of_packed
from .mrope_xd import XD

#: How the rules of each class are judged.
KINDS: dict[type[PositionRule], Kind] = {
    MRoPEPositions: MROPE,
    XDRoPEPositions: XD,
    CanvasPositions: CANVAS,
    ImageGenerationPositions: GENERATION,
}


def kind_of(rule: PositionRule) -> Kind:
    """Return how a rule is judged."""
    return next(kind for cls, kind in KINDS.items() if isinstance(rule, cls))


def _calls(rule: PositionRule, seed: int, dtype: str) -> Iterator[Arguments]:
    kind = kind_of(rule)
    for name, rows, side, required in kind.layouts(rule):
        yield Arguments(name, tuple(kind.batch(rule, rows, side=side)), required)


def _mistakes(rule: PositionRule) -> Iterator[Mistake]:
    yield from kind_of(rule).mistakes(rule)


def _judged(arguments: tuple[Any, ...]) -> np.ndarray:
    """Return where results are judged, (1, B, S + n_steps): at real and at generated tokens."""
    given = Batch(*arguments)
    real = np.asarray(given.attention_mask) == 1
    return np.pad(real, ((0, 0), (0, given.n_steps)), constant_values=True)[None]


POSITION_RULE_ROWS = {
    "mrope_position_ids": Plain(
        _calls,
        _mistakes,
        GRID,
        together=lambda rule: two_of_rule(_mistakes(rule)),
        judged=_judged,
    ),
    "mrope_packed": Plain(
        lambda rule, seed, dtype: packed_calls(kind_of(rule), rule),
        lambda rule: packed_mistakes(kind_of(rule), rule),
        "packing",
        together=lambda rule: two_of_packed(kind_of(rule), rule),
        remedy=lambda rule: (
            "Number the tokens of each document by the declared rule, from 0 in every document: "
            "its text, its images and its videos."
        ),
    ),
}
