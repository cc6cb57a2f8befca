"""Batches of text, images, videos and audio, written as segments, for M-RoPE position ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from posenc_ref import MRoPEPositions

TEXT, IMAGE, VIDEO, AUDIO = 0, 1, 2, 3
#: Text tokens between two frames of a video whose frames are separated: a timestamp.
TIMESTAMP = 2
#: A chunk of a video with its sound, if they come in chunks: the video of two seconds, its sound.
CHUNK_SECONDS = 2.0


@dataclass(frozen=True)
class Text:
    """n tokens of text, markers of images and the like included."""

    n: int


@dataclass(frozen=True)
class Image:
    """An image of h x w tokens."""

    h: int
    w: int


@dataclass(frozen=True)
class Video:
    """A video of t grids of h x w tokens, ``seconds`` apart, and ``sound`` tokens of its audio."""

    t: int
    h: int
    w: int
    seconds: float = 1.0
    sound: int = 0


@dataclass(frozen=True)
class Audio:
    """n tokens of audio."""

    n: int


Segment = Text | Image | Video | Audio


class Batch(NamedTuple):
    """The arguments of surface ``mrope_position_ids``, in order."""

    token_types: np.ndarray
    image_grids: np.ndarray
    video_grids: np.ndarray
    seconds_per_grid: np.ndarray
    attention_mask: np.ndarray
    n_steps: int


def batch(
    rule: MRoPEPositions, rows: Sequence[Sequence[Segment]], steps: int = 2, side: str = "left"
) -> Batch:
    """Return rows of segments as one batch, padded on this side to the longest row."""
    types = [[kind for part in row for kind in _types(rule, part)] for row in rows]
    space, time = rule.spatial_merge_size, rule.temporal_merge_size
    parts = [part for row in rows for part in row]
    images = [(1, space * p.h, space * p.w) for p in parts if isinstance(p, Image)]
    videos = [(time * p.t, space * p.h, space * p.w) for p in parts if isinstance(p, Video)]
    seconds = [p.seconds for p in parts if isinstance(p, Video)]
    return padded(types, images, videos, seconds, steps, side)


def padded(
    types: Sequence[Sequence[int]],
    images: Sequence[tuple[int, int, int]],
    videos: Sequence[tuple[int, int, int]] = (),
    seconds: Sequence[float] | None = None,
    steps: int = 2,
    side: str = "left",
) -> Batch:
    """Return rows of token types with their grids as one batch, padded to the longest row."""
    size = max(map(len, types))
    rows, mask = [], []
    for row in types:
        gap, real = [TEXT] * (size - len(row)), [1] * len(row)
        rows.append([*gap, *row] if side == "left" else [*row, *gap])
        mask.append(gap + real if side == "left" else real + gap)
    every = [1.0] * len(videos) if seconds is None else seconds
    return Batch(
        np.array(rows), _grids(images), _grids(videos), np.array(every, np.float64),
        np.array(mask), steps,
    )  # fmt: skip


def _grids(rows: Sequence[Any]) -> np.ndarray:
    return np.array(rows, np.int64).reshape(-1, 3)


def _types(rule: MRoPEPositions, part: Segment) -> Iterator[int]:
    """Yield the type of each token of a segment."""
    match part:
        case Text(n):
            yield from [TEXT] * n
        case Audio(n):
            yield from [AUDIO] * n
        case Image(h, w):
            yield from [IMAGE] * (h * w)
        case Video(t, h, w, seconds, sound):
            if sound:
                yield from _interleaved(rule, t, h * w, seconds, sound)
                return
            for frame in range(t):
                if frame and rule.split_frames:
                    yield from [TEXT] * TIMESTAMP
                yield from [VIDEO] * (h * w)


def _interleaved(
    rule: MRoPEPositions, frames: int, size: int, seconds: float, sound: int
) -> Iterator[int]:
    """Yield the tokens of a video and of its sound by time, or in chunks of two seconds."""
    rate = rule.tokens_per_second or 1.0
    chunk = int(rate * CHUNK_SECONDS) if rule.markers == "shared" else 1
    times = [frame * rate * seconds // chunk for frame in range(frames)]
    found = [(time, 0, VIDEO) for time in times for _ in range(size)]
    found += [(place // chunk, 1, AUDIO) for place in range(sound)]
    if chunk == 1:  # in order of time, the frame before the sound of the same time
        found = [(frame * rate * seconds, 0, VIDEO) for frame in range(frames) for _ in range(size)]
        found += [(place, 1, AUDIO) for place in range(sound)]
    yield from (kind for _, _, kind in sorted(found, key=lambda one: one[:2]))


T, I, V, A = Text, Image, Video, Audio  # noqa: E741


def layouts(rule: MRoPEPositions) -> Iterator[tuple[str, list[list[Segment]], str, bool]]:
    """Yield (name, rows, side of the padding, required) of each call, small ones first."""
    for name, rows, side, required in _layouts(rule):
        videos = any(isinstance(part, Video) for row in rows for part in row)
        if rule.videos or not videos:
            yield name, rows, side, required
        elif len(rows) > 1:
            yield name, [[_still(part) for part in row] for row in rows], side, required


def _still(part: Segment) -> Segment:
    """Return an image in place of a video."""
    return Image(part.h, part.w) if isinstance(part, Video) else part


def _layouts(rule: MRoPEPositions) -> Iterator[tuple[str, list[list[Segment]], str, bool]]:
    rate = rule.tokens_per_second or 1.0
    yield "text", [[T(6)]], "left", True
    yield "a wide image", [[T(2), I(2, 4), T(3)]], "left", True
    yield "a tall image", [[T(1), I(4, 2), T(2)]], "left", True
    yield "two images", [[T(2), I(2, 3), T(3), I(3, 1), T(2)]], "left", True
    yield "a video of few frames", [[T(2), V(2, 3, 2), T(3)]], "left", True
    yield "a video of many frames", [[T(1), V(6, 2, 1), T(3)]], "left", True
    mixed: list[Segment] = [T(2), I(1, 3), T(2), V(3, 2, 2), T(4), I(2, 2), T(1)]
    yield "image, video, image", [mixed], "left", True
    yield "two rows of one length", [
        [T(2), I(2, 3), T(2)], [T(1), I(3, 2), T(3)],
    ], "left", True  # fmt: skip
    rows: list[list[Segment]] = [
        [T(3), I(3, 2), T(2)], [T(4)], [T(1), V(4, 1, 2, 0.5), T(3), I(2, 4), T(2)],
    ]  # fmt: skip
    yield "padding on the left", rows, "left", True
    yield "padding on the right", rows, "right", False
    if rule.tokens_per_second is not None:
        for seconds in (0.5, 1.5):
            yield f"{seconds} s per grid", [[T(2), V(4, 2, 1, seconds), T(2)]], "left", True
        timed: list[Segment] = [T(1), V(3, 1, 2, 2.0), T(2), V(4, 2, 2, 0.25), T(2)]
        yield "videos of different rates", [timed], "left", True
    if rule.audio:
        yield "audio", [[T(2), A(5), T(3)]], "left", True
        heard: list[Segment] = [T(2), I(2, 2), T(3), A(4), T(2), V(2, 2, 2), T(3)]
        yield "image, audio, video", [heard], "left", True
        for name, film in (
            (
                "a video with its sound",
                V(3, 2, 1, 0.5, sound=int(1.25 * rate)),
            ),
            (
                "a video with longer sound",
                V(2, 1, 2, 0.5, sound=int(3 * rate)),
            ),
            ("a short video of a large picture with its sound", V(1, 3, 7, 0.5, sound=4)),
        ):
            yield name, [[T(4), film, T(4)]], "left", True
    yield "many rows", _random(rule, 5), "left", False


def _random(rule: MRoPEPositions, rows: int) -> list[list[Segment]]:
    rng = np.random.default_rng(7)

    def media() -> Segment:
        t, h, w = (int(n) for n in rng.integers(1, (6, 5, 5)))
        kinds = 3 if rule.audio else 2
        made: list[Segment] = [I(h, w), V(t, h, w, float(rng.choice([0.5, 1, 2]))), A(t)]
        return made[rng.integers(kinds)]

    found: list[list[Segment]] = []
    for _ in range(rows):
        row: list[Segment] = [T(int(rng.integers(2, 9)))]
        for _ in range(int(rng.integers(0, 4))):
            row += [media(), T(int(rng.integers(2, 6)))]
        found.append(row)
    return found
