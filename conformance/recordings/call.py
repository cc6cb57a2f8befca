"""Recorded calls for the diagnosis by substitution, and their known mistakes about positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from posenc_ref import Rotary, XPos
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake, mistakes
from posenc_ref.conformance.diagnosis.position_mistakes import Tokens, batch, heads
from posenc_ref.conformance.oracle.apply import xpos_truth
from posenc_ref.conformance.oracle.calls import at_length
from posenc_ref.conformance.sequences.offset_mistakes import HALVES, offset_mistakes

from .shapes import Part

#: The most tokens and heads of a call that mistakes are substituted into.
_TOKENS, _HEADS = 512, 2


@dataclass(frozen=True)
class Recorded:
    """A recorded call, the declared encoding, and the length that its frequencies have."""

    encoding: Rotary
    part: Part
    length: int

    @property
    def x(self) -> np.ndarray:
        """Return the tokens (B, H, S, D) before the rotation."""
        return self.part.x

    @property
    def unmoved(self) -> bool:
        """Return whether every token has the position at which the rotation changes nothing."""
        p = self.part.positions + self.encoding.offset
        return not self.part.unplaced and bool(self.part.telling.any()) and not p.any()

    @property
    def contiguous(self) -> bool:
        """Return whether the positions of every row are consecutive."""
        p = self.part.positions
        packed = self.part.starts is not None and self.part.starts.size > 2
        return p.ndim == 2 and not packed and bool((np.diff(p, axis=1) == 1).all())

    def tokens(self) -> Tokens:
        """Return the first position, the index and the number of the tokens.

        They are those of a row if its positions are consecutive, else those of each sequence: it
        begins where recorded, or else where a position does not follow the one before.
        """
        p, n = self.part.positions, self.x.shape[2]
        if self.contiguous:
            return Tokens(p[:, :1][:, None], np.arange(n), np.array(n))
        begins = np.ones(p.shape, bool)
        if self.part.starts is None:
            begins[:, 1:] = np.diff(p, axis=1) != 1
        else:
            begins[:] = np.isin(np.arange(n), self.part.starts)
        first = np.maximum.accumulate(np.where(begins, np.arange(n), 0), axis=1)
        size = np.stack([np.bincount(row, minlength=n)[row] for row in first])
        start = np.take_along_axis(p, first, axis=1)
        return Tokens(start[:, None], (np.arange(n) - first)[:, None], size[:, None])

    def truth(self, tokens: slice = slice(None)) -> Truth:
        """Return the expected result of the chosen tokens."""
        return truth(
            self.encoding,
            self.x[:, :, tokens],
            self.part.positions[..., tokens],
            self.length,
            self.part.name,
        )

    def at(self, positions: np.ndarray) -> Truth:
        """Return the result at ``positions``, which broadcast to (B, H, S)."""
        p = np.broadcast_to(positions, self.x.shape[:-1])
        return truth(self.encoding, self.x, p, self.length, self.part.name)

    def judged(self) -> JudgedCall:
        """Return the call with some of its tokens and heads, for the substitution of mistakes."""
        p = self.part
        some = slice(0, _HEADS), slice(0, _TOKENS)
        few = replace(
            p,
            x=p.x[:, some[0], some[1]],
            y=p.y[:, some[0], some[1]],
            positions=p.positions[..., some[1]],
        )
        call = replace(self, part=few)
        mask = np.broadcast_to(few.finite[:, None, :, None], few.x.shape)
        return JudgedCall(p.name, few.y, call.truth(), call, mask)


def truth(encoding: Rotary, x: np.ndarray, positions: np.ndarray, length: int, name: str) -> Truth:
    """Return the reference of q, k or x; in xPos, k is scaled by the inverse of q's factor."""
    x = np.where(np.isfinite(x), x, 0.0)
    if isinstance(encoding, XPos):
        return xpos_truth(encoding, x, positions, keys=name == "k")
    return at_length(encoding, x, positions, length)


def position_mistakes(calls: list[Recorded]) -> Iterator[Mistake]:
    """Yield the known mistakes about positions that the recorded positions allow."""
    if all(call.part.positions.ndim == 3 for call in calls):
        yield from _of_axes(calls[0].encoding.num_axes)
        return
    packed = all(call.part.starts is not None for call in calls)
    unused = "starts of the sequences (cu_seqlens)" if packed else "recorded positions"
    step = all(call.x.shape[2] == 1 and call.part.positions.all() for call in calls)
    yield Mistake(
        "decode-offset",
        f"the {unused} are not used: tokens are counted from 0",
        lambda call: call.at(np.arange(call.x.shape[2])),
    )
    yield from mistakes(
        "position-axis",
        lambda index: lambda call: call.at(index(call.x)),
        ("the head index is used as the position", heads),
        ("the row index is used as the position", batch),
    )
    yield from mistakes(
        "decode-offset" if step else "position-origin",
        lambda by: lambda call: call.at(call.part.positions[:, None] + by),
        ("every position is one too large", 1),
        ("every position is one too small", -1),
    )
    if all(call.contiguous for call in calls):
        yield from offset_mistakes()
        return
    yield from mistakes(
        "row-offset",
        lambda row: lambda call: call.at(call.part.positions[row][None, None]),
        ("every row has the positions of the first one", 0),
        ("every row has the positions of the last one", -1),
    )
    yield from mistakes(
        "position-precision",
        lambda half: lambda call: call.at(half(1.0 * call.part.positions[:, None])),
        *((f"positions are held in {name}", half) for name, half in HALVES.items()),
    )


def _of_axes(count: int) -> Iterator[Mistake]:
    """Yield mistakes of positions (A, B, S)."""

    def counted(call: Recorded) -> Truth:
        p = call.part.positions
        index = np.broadcast_to(np.arange(p.shape[-1]), p.shape)
        return truth(call.encoding, call.x, index, call.length, call.part.name)

    yield Mistake(
        "decode-offset",
        "the recorded positions are not used: tokens are counted from 0 on every axis",
        counted,
    )
    for by, words in ((1, "large"), (-1, "small")):
        yield Mistake(
            "position-origin",
            f"the positions of every axis are one too {words}",
            lambda call, by=by: truth(  # type: ignore[misc]
                call.encoding, call.x, call.part.positions + by, call.length, call.part.name
            ),
        )
    for order in list(permutations(range(count)))[1:]:
        # Axis a takes the positions that are declared for axis order[a].
        yield Mistake(
            "axis-order",
            f"the axes are in the order {order}, declared {tuple(range(count))}",
            lambda call, order=order: truth(  # type: ignore[misc]
                call.encoding, call.x, call.part.positions[list(order)], call.length, call.part.name
            ),
            values={"declared": list(range(count)), "measured": list(order)},
        )
