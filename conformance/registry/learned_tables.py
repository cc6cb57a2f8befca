"""Learned tables for one axis or several, and sums and joins of tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from posenc_ref import AxialLearned, Hybrid, Learned, Sinusoidal, Time2Vec
from posenc_ref.conformance.exact.error_numbers import Counted, given
from posenc_ref.conformance.exact.recipe import Recipe
from posenc_ref.conformance.exact.reference import at

from . import numbers, register
from .feature_tables import time2vec
from .image_tables import sinusoidal

_WEIGHT = numbers("learned-rows", 6, 4)
_ROWS = numbers("axial-rows", 3, 4), numbers("axial-columns", 5, 6)
_SUMMED = numbers("axial-summed-rows", 3, 5), numbers("axial-summed-columns", 4, 5)
_LAST = "Unsorted positions; one reads the last row of the table."


def _learned_rows(e: Learned) -> Iterable[Recipe]:
    last = len(e.weight) - 1 - e.offset
    comment = "Unsorted positions; one occurs twice, and one reads the last row of the table."
    return [at("scattered", comment, 0, last, 2, last)]


@register(
    Learned,
    spec="Devlin et al. 2018, BERT, arXiv:1810.04805, section 3",
    examples={"learned-6": Learned(_WEIGHT), "learned-6-offset-2": Learned(_WEIGHT, offset=2)},
    inputs=_learned_rows,
)
def learned(e: Learned, p: Any) -> Sequence[Any]:
    """Return the row at the position plus the offset."""
    return list(given(e.weight)[int(p.value) + e.offset])


def _axial_rows(e: AxialLearned) -> Iterable[Recipe]:
    if e.flat:
        return [at("scattered", _LAST, 0, 7, 3, e.rows - 1)]
    comment = "Each axis has its own positions; some read the last row of a table."
    return [at("scattered", comment, [0, 2, 1, 2], [3, 0, 1, 3])]


@register(
    AxialLearned,
    spec="Kitaev et al. 2020, Reformer, arXiv:2001.04451; DETR, arXiv:2005.12872",
    examples={
        "axial-flat": AxialLearned(_ROWS, flat=True),
        "axial-xy": AxialLearned(_ROWS, order=(1, 0)),
        "axial-sum": AxialLearned(_SUMMED, combine="sum"),
    },
    inputs=_axial_rows,
)
def axial_learned(e: AxialLearned, *p: Any) -> Sequence[Any]:
    """Return the rows of all axes, concatenated or added."""
    index = [int(x.value) for x in p]
    if e.flat:
        index = [*divmod(index[0], len(e.tables[1]))]
    rows = [given(table)[i] for table, i in zip(e.tables, index, strict=True)]
    if e.combine == "sum":
        return [x + y for x, y in zip(*rows, strict=True)]
    assert e.order is not None
    return [v for axis in e.order for v in rows[axis]]


_FORMULAS: dict[Any, Any] = {Learned: learned, Sinusoidal: sinusoidal, Time2Vec: time2vec}


@register(
    Hybrid,
    spec="Ao et al. 2021, SpeechT5, arXiv:2110.07205 (sum); posenc_ref.Hybrid (concatenation)",
    examples={
        "hybrid-sum": Hybrid((Sinusoidal(4), Learned(_WEIGHT))),
        "hybrid-concat": Hybrid((Learned(_WEIGHT), Sinusoidal(6)), combine="concat"),
    },
    inputs=lambda e: [at("scattered", _LAST, 0, 5, 3, 1)],
)
def hybrid(e: Hybrid, p: Counted) -> Sequence[Any]:
    """Return the rows of the combined tables, added or concatenated."""
    rows = [_FORMULAS[type(part)](part, p) for part in e.parts]
    if e.combine == "sum":
        return [sum(column) for column in zip(*rows, strict=True)]
    return [v for row in rows for v in row]
