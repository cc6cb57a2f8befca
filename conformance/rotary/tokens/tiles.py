"""Mistakes of kernels that work in tiles of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.rotary.wrong_rotations import ELEMENTS

#: The sizes of tiles in which tokens may be rotated twice.
_TILES = tuple(2**n for n in range(3, 11))


def twice_in_tiles(encoding: Rotary) -> Iterator[Mistake]:
    """Yield tokens that two tiles rotate, because the last one is moved back to be full."""
    if encoding.attention_factor() != 1.0:
        return
    for n in _TILES:

        def predict(call: Any, n: int = n) -> Truth:
            size, at = call.x.shape[2], np.arange(call.x.shape[2])
            twice = (at >= max(size - n, 0)) & (at < size // n * n) & (size % n > 0)
            own = call.positions
            again = np.where(twice, 2 * own + encoding.offset, own)
            return apply_truth(encoding, call.x, again if twice.any() else own)

        yield Mistake(
            ELEMENTS,
            f"the last tile of {n} tokens is moved back so that it is full, and works in place: "
            "tokens that the tile before has rotated are rotated again",
            predict,
            "Write to another array than the one that is read, or rotate only the tokens that no "
            "tile has rotated.",
        )


def first_of_tiles(most: int) -> Iterator[Mistake]:
    """Yield tokens whose positions are made from that of one token of each tile.

    Tiles have less than ``most`` tokens.
    """
    yield from _last_tiles(most)
    for n in (n for n in _TILES if n < most):

        def first(call: Any, n: int = n) -> np.ndarray:
            return np.asarray(call.positions[..., np.arange(call.x.shape[2]) // n * n])

        def last(call: Any, n: int = n) -> np.ndarray:
            size = call.x.shape[2]
            at = np.minimum(np.arange(size) // n * n + n, size) - 1
            return np.asarray(call.positions[..., at])

        def counted(call: Any, n: int = n) -> np.ndarray:
            return np.asarray(first(call, n) + np.arange(call.x.shape[2]) % n)

        remedy = f"Load the position of every token: tiles of {n} may have any positions."
        for words, used in (
            (f"in every tile of {n} tokens, positions are counted on from that of the first",
             counted),
            (f"all tokens of a tile of {n} have the position of its first", first),
            (f"all tokens of a tile of {n} have the position of its last", last),
        ):  # fmt: skip

            def predict(call: Any, used: Any = used) -> Truth:
                return apply_truth(call.encoding, call.x, used(call))

            yield Mistake(ELEMENTS, words, predict, remedy)


def _last_tiles(most: int) -> Iterator[Mistake]:
    """Yield tokens of a last, incomplete tile that share the position of one token."""
    remedy = "Load the position of every token of the last, incomplete tile too."
    for n in (n for n in (2, 4, *_TILES) if n < most):
        for words, of in (
            ("the first of them", lambda i, size, start: np.minimum(i, start)),
            ("the last of them", lambda i, size, start: np.where(i < start, i, size - 1)),
            ("the last token before them", lambda i, size, start: np.minimum(i, max(start - 1, 0))),
            ("the first token of the call", lambda i, size, start: np.where(i < start, i, 0)),
        ):

            def predict(call: Any, n: int = n, of: Any = of) -> Truth:
                size = call.x.shape[2]
                at = of(np.arange(size), size, size // n * n)
                return apply_truth(call.encoding, call.x, call.positions[..., at])

            text = f"the tokens after the last whole tile of {n} have the position of {words}"
            yield Mistake(ELEMENTS, text, predict, remedy)
