"""Mistakes of attention that rotates its values or its output, where they are declared plain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from posenc_ref import Attention, Rotary, XPos
from posenc_ref.conformance.oracle.attention import Attended
from posenc_ref.conformance.oracle.transforms import adjoint

#: A code, a message, a change, and what to do about it.
Row = tuple[str, str, Callable[[Attended], Attended], str]
VALUES, OUTPUT = "value-rotation", "output-rotation"
_PLAIN = "Rotate queries and keys only: use the values, and the output, without a rotation."


def turned_values(of: Attention) -> Iterator[Row]:
    """Yield plain values that are rotated, with or without the output."""
    e = of.encoding
    if of.values != "plain" or not isinstance(e, Rotary) or isinstance(e, XPos):
        return
    for first, words in (
        (False, ""),
        (True, f", in the first {e.head_dim} channels where they have more"),
    ):
        for where, code, turn, back in (
            ("values are rotated to the positions of their keys, as the keys are", VALUES, e, None),
            ("values are rotated to the positions of their keys, and the output is rotated back "
             "by those of the queries", VALUES, e, adjoint(e)),
            ("the output is rotated to the positions of the queries, as the queries are", OUTPUT,
             None, e),
            ("the output is rotated back by the positions of the queries", OUTPUT,
             None, adjoint(e)),
            ("values are rotated by minus the positions of their keys", VALUES, adjoint(e), None),
        ):  # fmt: skip
            change = partial(_turned, turn=turn, back=back, first=first)
            yield code, f"{where}{words}", change, _PLAIN


def _turned(call: Attended, turn: Rotary | None, back: Rotary | None, *, first: bool) -> Attended:
    e = turn or back
    assert e is not None
    size, channels = e.head_dim, call.v.shape[-1]
    if channels < size or (channels > size and not first):
        return call
    q_at, k_at = call.scored.positions
    factor = e.attention_factor(call.length if e.depends_on_length else None)
    by = np.ones(channels)
    by[np.ravel(e.pairs())] = factor
    if turn is not None:
        call = call.replace(v=call.v * by, turn=(turn, k_at))
    if back is not None:
        call = call.replace(back=(back, q_at), gain=factor)
    return call
