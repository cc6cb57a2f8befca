"""Calls of several axes whose offset, or the start of a chunk, is not used on every axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.oracle.apply import apply_truth

#: The positions (B, S) on the other axes, in words, from the start and the index of every token.
_OTHERS: tuple[tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]], ...] = (
    ("tokens are counted from 0", lambda start, index: index),
    ("every token has the position of the first", lambda start, index: start),
    ("every token is at 0", lambda start, index: 0 * index),
)


def axis_starts(encoding: Rotary, start: str) -> Iterator[Mistake]:
    """Yield calls in which some axes lack a part of start + index; messages say ``start``."""
    count = encoding.num_axes
    if count == 1 or encoding.depends_on_length:
        return
    for size in range(count - 1, 0, -1):
        for axes in combinations(range(count), size):
            others = [axis for axis in range(count) if axis not in axes]
            for words, of in _OTHERS:
                own, rest = (
                    f"ax{'e' if len(a) > 1 else 'i'}s {_listed(a)}" for a in (axes, others)
                )
                yield Mistake(
                    "decode-offset",
                    f"{start} is added to the index on {own} only: on {rest}, {words}",
                    partial(_predicted, encoding, others, of),
                    f"Text has the same position on every axis: {start} + i.",
                )


def _listed(axes: Any) -> str:
    return " and ".join(map(str, axes))


def _predicted(encoding: Rotary, others: list[int], of: Any, call: Any) -> Truth:
    x, t = call.rotated(), call.tokens()
    size = (x.shape[0], np.size(t.index))
    start = np.broadcast_to(t.start[:, 0] if np.ndim(t.start) > 1 else t.start, size)
    index = np.broadcast_to(t.index, size)
    p = np.array(np.broadcast_to(start + index, (encoding.num_axes, *size)))
    p[others] = of(start, index)
    return apply_truth(encoding, x, p[..., size[1] - x.shape[2] :])
