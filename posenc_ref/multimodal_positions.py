"""M-RoPE positions: text, images, videos and audio in one sequence, three numbers per token."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _validate as validate
from .position_rule import host, merged_grids, refuse_left, rows_of, take
from .vision_positions import grid_positions

#: The token types, numbered as in the ``mm_token_type_ids`` of transformers.
TEXT, IMAGE, VIDEO, AUDIO = 0, 1, 2, 3
#: How the two tokens before and after a video with its sound are numbered.
MARKERS = ("separate", "shared")
_NAMES = {IMAGE: "image", VIDEO: "video"}


def mrope_positions(
    token_types: Any,
    *,
    image_grids: Any = (),
    video_grids: Any = (),
    attention_mask: Any = None,
    spatial_merge_size: int = 2,
    temporal_merge_size: int = 1,
    split_frames: bool = False,
    seconds_per_grid: Any = None,
    tokens_per_second: float | None = None,
    text_after: str = "max",
    fractional: bool = False,
    markers: str = "separate",
) -> np.ndarray:
    """Return M-RoPE positions (time, height, width) of text, images, videos and audio.

    Text that starts at position c has c, c + 1, ... on all three axes.  In an image or video that
    starts at c, the token in frame t, row h and column w of the merged grid has ``c + (t, h, w)``;
    tokens are in row-major order, frame by frame.  ``text_after`` defines where the next text
    starts:

    ``"max"``
        one more than the largest position so far, on any axis: Wang et al. 2024 (Qwen2-VL),
        arXiv:2409.12191, section 2.1; transformers 4, vLLM.
    ``"extent"``
        ``c + max(height, width)`` of the merged grid, however long the video: transformers 5.23.

    The two agree for images and single frames. They differ if a video has more frames than
    ``max(height, width)``. With "extent" the text after such a video repeats positions of the
    video.
    Decoding continues at the largest position plus one in both.

    Audio tokens are numbered like text. A run of video and audio tokens without text between them
    is a video with its sound, in any order: the video has its positions from c on, its audio
    counts c, c + 1, ... on all axes, and the next text starts after the larger of the two.

    ==================================  ======================================================
    model                               settings
    ==================================  ======================================================
    Qwen2-VL, PaddleOCR-VL              the defaults
    Qwen2.5-VL                          ``seconds_per_grid``, ``tokens_per_second=2``
    Qwen3-VL, Qwen3.5, GLM-4.1V, 4.5V   ``split_frames=True``
    Ernie 4.5 VL                        ``temporal_merge_size=2``
    Qwen2.5-Omni                        ``tokens_per_second=25``, ``markers="shared"``
    Qwen3-Omni                          ``tokens_per_second=13``, ``fractional=True``
    ==================================  ======================================================

    :func:`mrope_rule` gives these settings by ``model_type`` or configuration.

    Parameters
    ----------
    token_types : integers, shape (S,) or (B, S)
        0 text, 1 image, 2 video, 3 audio: the ``mm_token_type_ids`` of transformers.
    image_grids, video_grids : integers, shape (n, 3)
        Frames, height and width of each image or video in *patches* (before merging), in order of
        occurrence: first those of the first row of the batch, then those of the second, ...
    attention_mask : integers or booleans, like token_types, optional
        0 marks padding, which gets position 0 and is not counted.
    spatial_merge_size, temporal_merge_size : int
        Patches per token along height and along width; frames per token in videos.
    split_frames : bool
        Treat every frame of a video as an image, with timestamps as text in between.  All tokens of
        a frame then have the same time position.
    seconds_per_grid : floats, one per video, optional
        Seconds between frames of the grid, for Qwen2.5-VL: frame k is at time
        ``trunc(k * tokens_per_second * seconds)`` instead of k.  Computed in float32, as in that
        model, because rounding can change the integer: the float32 number nearest to 0.7 is below
        0.7, yet its product with 10 rounds to 7.
    tokens_per_second : float, optional
        Required with seconds_per_grid.
    text_after : {"max", "extent"}
        The position after an image or video, as above.
    fractional : bool
        Keep fractions of times instead of truncating them; the result is float64.
    markers : {"separate", "shared"}
        "shared": the two start tokens of a video with its sound (of the video, of the audio) have
        one position, and so have its two end tokens.

    Returns
    -------
    int64 array (float64 if fractional), shape (3, S) or (3, B, S)
        Decoding continues on all axes at one more than the largest position of the row.

    Traps
        vLLM and transformers 4 compute ``k * seconds`` first, and get a time that is one lower for
        a few frames (165 of 76,800 at common frame rates).  transformers 4.57 truncates the seconds
        to whole numbers first (huggingface/transformers#48669).

    Raises
    ------
    ValueError
        The image or video tokens do not fit the grids, a grid has no tokens, a merge size does not
        divide a grid, or a token type or setting is unknown.
    """
    types, mask = rows_of(token_types, attention_mask, ("text", "image", "video", "audio"))
    space = validate.integer("spatial_merge_size", spatial_merge_size, minimum=1)
    time = validate.integer("temporal_merge_size", temporal_merge_size, minimum=1)
    validate.choice("text_after", text_after, ("max", "extent"))
    shared = validate.choice("markers", markers, MARKERS) == "shared"
    dtype = np.float64 if validate.boolean("fractional", fractional) else np.int64
    images = merged_grids("image_grids", image_grids, space)
    videos = merged_grids("video_grids", video_grids, space, time)
    steps = _steps(seconds_per_grid, tokens_per_second, len(videos))
    if validate.boolean("split_frames", split_frames):
        steps = [step for (t, _, _), step in zip(videos, steps, strict=True) for _ in range(t)]
        videos = [(1, h, w) for t, h, w in videos for _ in range(t)]
    waiting = {
        IMAGE: [(grid, 1.0) for grid in images],
        VIDEO: list(zip(videos, steps, strict=True)),
    }

    positions = np.zeros((3, *types.shape), dtype=dtype)
    for b, (row, real) in enumerate(zip(types, mask, strict=True)):
        parts, start, runs = [np.zeros((3, 0), dtype=dtype)], dtype(0), _runs(row[real])
        for number, run in enumerate(runs):
            if run[0] in (TEXT, AUDIO) and VIDEO not in run:
                ends = [shared and _sounds(runs, n) for n in (number - 1, number + 1)]
                parts.append(np.tile(start + _counted(run.size, *ends), (3, 1)))
                start = parts[-1].max() + 1
                continue
            kind, length = int(run.min()), int((run != AUDIO).sum())
            while length > 0:
                (t, h, w), step = take(waiting[kind], _NAMES[kind], b)
                part = start + _span(t, h, w, step, fractional)
                length -= part.shape[1]
                if length < 0 or (length and AUDIO in run):
                    raise ValueError(
                        f"token_types must have {t * h * w} tokens for the {_NAMES[kind]} of "
                        f"merged grid {(t, h, w)}, got {length + part.shape[1]} in row {b}"
                    )
                if AUDIO in run:
                    part = _with_sound(run, part, start)
                parts.append(part)
                start = part.max() + 1 if text_after == "max" else start + max(h, w)
        positions[:, b, real] = np.concatenate(parts, axis=1)
    for kind, left in waiting.items():
        refuse_left(left, _NAMES[kind])
    return positions if np.ndim(host(token_types)) == 2 else positions[:, 0]


def _span(t: int, h: int, w: int, step: float, fractional: bool) -> np.ndarray:
    grid = grid_positions(h, w, frames=t)
    times = grid[0].astype(np.float32) * np.float32(step)
    if fractional:
        return np.stack([times, *grid[1:]])
    grid[0] = np.trunc(times)
    return grid


def _with_sound(run: np.ndarray, video: np.ndarray, start: Any) -> np.ndarray:
    """Return the positions of a video and its sound, in the order of the tokens."""
    part = np.empty((3, run.size), dtype=video.dtype)
    part[:, run == VIDEO] = video
    part[:, run == AUDIO] = start + np.arange((run == AUDIO).sum())
    return part


def _sounds(runs: list[np.ndarray], number: int) -> bool:
    """Return whether the run of this number is a video with its sound."""
    return 0 <= number < len(runs) and VIDEO in runs[number] and AUDIO in runs[number]


def _counted(length: int, after: bool, before: bool) -> np.ndarray:
    """Return 0, 1, ... for a run of text.

    Its first two tokens share a number after a video with sound, its last two before one.
    """
    if length < 2 * (after + before):
        raise ValueError(
            "token_types must have two text tokens before and two after each video with its sound "
            f"(markers='shared'), got {length}"
        )
    steps = np.ones(length, dtype=np.int64)
    steps[:1] = 0
    if after:
        steps[1] = 0
    if before:
        steps[-1] = 0
    return np.cumsum(steps)


def _runs(row: np.ndarray) -> list[np.ndarray]:
    """Return the runs of tokens of one type; a video and its sound are one run."""
    kinds = np.where(row == AUDIO, VIDEO, row)
    return [run for run in np.split(row, np.flatnonzero(np.diff(kinds)) + 1) if run.size]


def _steps(seconds: Any, rate: Any, videos: int) -> list[float]:
    """Return the time between the frames of each video."""
    if seconds is None:
        if rate is not None:
            raise ValueError("tokens_per_second needs seconds_per_grid, one number for each video")
        return [1.0] * videos
    if rate is None:
        raise ValueError("seconds_per_grid needs tokens_per_second (2 in Qwen2.5-VL)")
    given = np.ravel(host(seconds)).tolist()
    if len(given) != videos:
        raise ValueError(
            f"seconds_per_grid must have one number for each of the {videos} videos, got {given}"
        )
    rate = validate.real("tokens_per_second", rate, minimum=0.0)
    return [rate * validate.real("seconds_per_grid", s, minimum=0.0) for s in given]
