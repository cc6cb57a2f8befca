"""The ways to ask a function of another library for a table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref.conformance.calling.roles import role_of
from posenc_ref.conformance.calling.signatures import signature_of
from posenc_ref.conformance.calling.size_order import width_first
from posenc_ref.conformance.harness.foreign import NotTried

from .foreign import Foreign
from .rows import Parts, tokens_of

#: The number of rows of a trial call, and the most rows that are asked for.
ROWS, MOST_ROWS = 11, 2**14
#: The most tokens whose result has an entry for each pair.
MOST_PAIRED = 2**9
#: The channels of images in calls, the usual ones first.
CHANNELS = (64, 32, 16, 128, 256, 3, 768)
#: The channels of videos: first a number of which every axis may have a third, in pairs.
VOLUME_CHANNELS = (96, *CHANNELS[:4])
#: The roles of a pair of sizes.
PAIRS = ("grid", "image_size")
#: Returns the arrays of a call for a grid, in any shape.
GridCall = Callable[[int, int], Parts]
#: Returns the arrays of a call for a video of frames, height and width, in any shape.
VolumeCall = Callable[[int, int, int], Parts]
#: Returns the arrays of a call for positions (S,).
RowCall = Callable[[np.ndarray], Parts]


def require_rows(positions: np.ndarray, *, relative: bool = False) -> None:
    """Raise an exception unless positions are those of a table that the suite asks for."""
    if positions.dtype.kind not in "iu" or (positions.min(initial=0) < 0 and not relative):
        raise ValueError("positions must be integers from 0: the function takes a length")
    if np.abs(positions).max(initial=0) >= MOST_ROWS:
        raise NotTried(f"the suite makes no table longer than {MOST_ROWS} rows")


def channels_of(fn: Foreign) -> tuple[int, ...]:
    """Return the numbers of channels to try: those that the object states, then the usual ones."""
    return tuple(dict.fromkeys((*fn.channels, *CHANNELS)))


def row_calls(fn: Foreign) -> Iterator[tuple[str, RowCall]]:
    """Yield the ways to ask for rows at positions (S,)."""

    def indexed(call: Callable[[int], Parts]) -> RowCall:
        @functools.cache
        def of_pairs() -> bool:
            """Whether the result has an entry for each pair of tokens."""
            return any(p.shape.count(ROWS) > 1 for p in call(ROWS))

        def ask(positions: np.ndarray) -> Parts:
            require_rows(positions)
            n = max(int(positions.max(initial=0)) + 1, ROWS)
            if n > MOST_PAIRED and of_pairs():
                raise NotTried(f"the suite asks for no pairs of more than {MOST_PAIRED} tokens")
            if np.array_equal(positions, np.arange(n)):
                return call(n)
            return tuple(p[positions] for p in tokens_of(call(n), (n,)))

        return ask

    roles = {role_of(name) for name in signature_of(fn.function).parameters}
    if "positions" in roles:
        yield from _at_positions(fn)
    yield "the number of rows", indexed(lambda n: fn(n, length=n))
    for channels in channels_of(fn):
        for shape in ((1, -1, channels), (1, 1, -1, channels), (-1, channels)):

            def of_x(n: int, shape: tuple[int, ...] = shape) -> Parts:
                x = np.zeros([n if side == -1 else side for side in shape])
                return fn(x, x=x)

            yield f"x of shape {shape}, where -1 stands for S", indexed(of_x)
    yield "tokens (1, S)", indexed(lambda n: fn(np.full((1, n), 2), tokens=np.full((1, n), 2),
                                                x=np.full((1, n), 2)))  # fmt: skip
    if "positions" not in roles:
        yield from _at_positions(fn)


def _at_positions(fn: Foreign) -> Iterator[tuple[str, RowCall]]:
    """Yield the calls with positions, alone and with an x of some channels."""
    for words, lead in (("(S,)", ()), ("(1, S)", (1,))):
        for channels in (None, 64, 32):

            def ask(
                positions: np.ndarray,
                lead: tuple[int, ...] = lead,
                channels: int | None = channels,
            ) -> Parts:
                p = positions.reshape((*lead, positions.size))
                x = {} if channels is None else {"x": np.zeros((1, 1, 1, channels))}
                return fn(p, positions=p, **x)

            yield f"positions {words}", ask


def _pair(fn: Foreign) -> tuple[str, bool]:
    """Return how a pair of sizes of a grid is described, and whether the width is first."""
    names = [n for n in signature_of(fn.function).parameters if role_of(n) in PAIRS]
    turned = any(width_first(fn.function, name) for name in names) != fn.turned
    return ("(width, height)" if turned else "(height, width)"), turned


def grid_calls(fn: Foreign) -> Iterator[tuple[str, GridCall]]:
    """Yield the ways to ask for the table of a grid."""
    words, turned = _pair(fn)
    yield "height and width", lambda h, w: fn(grid_height=h, grid_width=w, side=h)
    for kind in (tuple, list):

        def pair(h: int, w: int, kind: type = kind) -> Parts:
            size = kind((w, h) if turned else (h, w))
            return fn(size, grid=size, image_size=size, length=size)

        yield f"one pair {words}", pair

    def square(h: int, w: int) -> Parts:
        if h != w:
            raise ValueError("the function takes one side")
        return fn(h, grid=h, image_size=h, side=h)

    yield "the side of a square", square
    masked = "tokens" in fn.required and bool({"x", "image"} & fn.roles)
    for channels in channels_of(fn):
        for shape in ((1, channels, "h", "w"), (1, "h", "w", channels)):

            def image(h: int, w: int, shape: tuple[Any, ...] = shape) -> Parts:
                side = {"h": h * fn.patch, "w": w * fn.patch}
                x = np.zeros([side.get(n, n) for n in shape])
                mask = {"tokens": np.ones((1, h, w), np.int64)} if masked else {}
                return fn(x, x=x, image=x, **mask)

            words = f"an image {shape}".replace("'", "")
            yield words + (" and a mask of 1" if masked else ""), image
    if "shape" in signature_of(fn.function).parameters:
        for channels in channels_of(fn):

            def of_shape(h: int, w: int, channels: int = channels) -> Parts:
                return fn(shape=(1, channels, h, w), grid=(1, channels, h, w))

            yield f"the shape (1, {channels}, h, w) of an image", of_shape


def volume_calls(fn: Foreign) -> Iterator[tuple[str, VolumeCall]]:
    """Yield the ways to ask for the table of a video or of a volume."""

    def three(t: int, h: int, w: int) -> Parts:
        named = {"x": t} if "t" in signature_of(fn.function).parameters else {}
        return fn(t, frames=t, grid_height=h, grid_width=w, **named)

    yield "frames, height and width", three
    for kind in (tuple, list):

        def triple(t: int, h: int, w: int, kind: type = kind) -> Parts:
            sizes = kind((t, h, w))
            return fn(sizes, grid=sizes, image_size=sizes, grid_thw=sizes)

        yield "one triple (frames, height, width)", triple

    words, turned = _pair(fn)

    def pair(t: int, h: int, w: int) -> Parts:
        size = (w, h) if turned else (h, w)
        return fn(t, frames=t, grid=size, image_size=size, crop=((0, 0), size))

    yield f"frames and one pair {words}", pair

    def square(t: int, h: int, w: int) -> Parts:
        if h != w:
            raise ValueError("the function takes one side")
        return fn(t, frames=t, grid=h, image_size=h, side=h)

    yield "frames and the side of a square", square
    for channels in VOLUME_CHANNELS:
        for shape in ((1, channels, "t", "h", "w"), (1, "t", "h", "w", channels)):

            def video(t: int, h: int, w: int, shape: tuple[Any, ...] = shape) -> Parts:
                side = {"t": t, "h": h * fn.patch, "w": w * fn.patch}
                x = np.zeros([side.get(n, n) for n in shape])
                return fn(x, x=x, image=x)

            yield f"a video {shape}".replace("'", ""), video


def patch_calls(fn: Foreign) -> Iterator[tuple[str, GridCall]]:
    """Yield the ways to ask for the table of a square by its patches."""
    for channels in channels_of(fn)[:3]:

        def flat(h: int, w: int, channels: int = channels) -> Parts:
            if h != w:
                raise ValueError("the function takes the patches of a square")
            x = np.zeros((1, h * w, channels))
            return fn(x, x=x)

        yield f"the patches of a square (1, S, {channels})", flat
