"""Positions of image patches and video grids, one row for each axis.

Axes are in the order (height, width), or (time, height, width) if frames are given.  Some models
put x first (Llama 4, SAM 2, Kimi's MoonViT): reverse the axes for these, ``positions[::-1]``.
Tokens without a patch (CLS, registers) must not be rotated: :func:`with_unplaced` gives them
position 0 on every axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _validate as validate
from ._namespace import FLOATING, INTEGER, dtype_name
from ._text import shown
from .angles import MAX_POSITION


def grid_positions(
    height: int,
    width: int,
    *,
    frames: int | None = None,
    merge_size: int = 1,
    origin: int | str = 0,
) -> np.ndarray:
    """Return the row and column of every patch, in the order of the tokens.

    Parameters
    ----------
    height, width : int
        Size of the grid in patches.
    frames : int, optional
        Number of frames. If given, the result has a time axis in front and lists the patches frame
        by frame.
    merge_size : int
        The side m of the blocks of m x m patches that the model merges into one token.  The blocks
        are in row-major order, and so are the patches of each block; each patch keeps its own row
        and column.  With 1, all patches are in row-major order.  m is 2 in Qwen2-VL, GLM-4V,
        PaddleOCR-VL and Ernie 4.5 VL.
    origin : int or "centre"
        Position of the first row and column: 0 in most models, 1 in Llama 4 and EfficientLoFTR.
        "centre" counts n rows from ``-(n - n // 2)`` to ``n // 2 - 1``, as Qwen-Image does with
        ``scale_rope``.  Time always counts from 0.

    Returns
    -------
    int64 array, shape (2, height * width), or (3, frames * height * width)

    Source
        transformers 5.23, ``vision_utils.get_vision_position_ids`` and ``modeling_llama4.py``;
        diffusers, ``QwenEmbedRope``.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not integers or are below 1; a merge size that does not divide height and
        width.
    """
    height, width, frames = _size(height, width, frames)
    m = validate.integer("merge_size", merge_size, minimum=1)
    if height % m or width % m:
        raise ValueError(
            f"merge_size must divide height and width, got {m} for a grid of {height} x {width}"
        )
    rows, columns = _axis(height, origin), _axis(width, origin)
    grid = np.stack(np.meshgrid(rows, columns, indexing="ij"))
    blocks = grid.reshape(2, height // m, m, width // m, m).swapaxes(2, 3)
    return _in_frames(blocks.reshape(2, -1), frames, np.int64)


def patch_centres(height: int, width: int) -> np.ndarray:
    """Return the centres of the patches on axes from -1 to 1, row-major, as in DINOv3.

    Formula
        ``2 (i + 1/2) / n - 1`` for patch i of n, on each axis separately.
    Source
        Simeoni et al. 2025, arXiv:2508.10104; transformers 5.23, ``modeling_dinov3_vit.py``,
        ``get_patches_center_coordinates``.  The angle of a channel pair in DINOv3 is ``2 pi`` times
        the coordinate, divided by the period of the pair.  In training, DINOv3 moves and rescales
        the coordinates at random.

    Parameters
    ----------
    height, width : int
        Size of the grid in patches.

    Returns
    -------
    float64 array, shape (2, height * width)

    Raises
    ------
    TypeError, ValueError
        A size that is not an integer or is below 1.
    """
    axes = [(2 * np.arange(n) + 1 - n) / n for n in _size(height, width)[:2]]
    return np.stack(np.meshgrid(*axes, indexing="ij")).reshape(2, -1)


def linspace_positions(
    height: int,
    width: int,
    *,
    start: tuple[float, float] = (0.0, 0.0),
    stop: tuple[float, float],
    frames: int | None = None,
) -> np.ndarray:
    """Return the positions of an image's patches, scaled to an area of the pretrained grid.

    Patches are in row-major order, and positions are fractional.

    Formula
        ``start + i (stop - start) / n`` for patch i of n, on each axis; time counts 0, 1, 2...
    Source
        EVA-02, ``rope.py``: ``arange(n) / n * pretrained``, where start is 0 and stop is the size
        of the pretrained grid.  HunyuanDiT and CogVideoX:
        ``np.linspace(start, stop, n, endpoint=False)`` (diffusers 0.31,
        ``get_2d_rotary_pos_embed``, ``get_3d_rotary_pos_embed``), where start and stop bound a crop
        of the pretrained (base) grid.

    Parameters
    ----------
    height, width : int
        Size of the grid in patches.
    start, stop : (float, float)
        The first and the last corner (height, width) of the area, in positions of the pretrained
        grid.
    frames : int, optional
        As for :func:`grid_positions`.

    Traps
        diffusers 0.42 uses ``linspace(start, stop (n - 1) / n, n)``, which is the same only if
        start is 0: 24 rows from 4 to 28 are then 0.9928 apart, not 1.

    Returns
    -------
    float64 array, shape (2, height * width), or (3, frames * height * width)

    Raises
    ------
    TypeError, ValueError
        Sizes that are not integers or are below 1; ``start`` or ``stop`` is not two numbers of
        at most 2**40; ``stop`` is not greater than ``start``.
    """
    axes = []
    height, width, frames = _size(height, width, frames)
    for n, low, high, axis in zip(
        (height, width), _pair("start", start), _pair("stop", stop), ("h", "w"), strict=True
    ):
        if high <= low:
            raise ValueError(f"stop must be greater than start on axis {axis}, got {low}..{high}")
        axes.append(low + np.arange(n) * (high - low) / n)
    return _in_frames(np.stack(np.meshgrid(*axes, indexing="ij")).reshape(2, -1), frames, float)


def with_unplaced(positions: Any, *, before: int = 0, after: int = 0) -> np.ndarray:
    """Return positions with tokens at position 0 added before and after.

    EVA and DINOv3 put CLS and register tokens before the patches.  Llama 4 puts CLS after the
    patches; its patches start at row 1 and column 1, so that only CLS has position 0.

    Parameters
    ----------
    positions : array (A, N)
    before, after : int
        The numbers of tokens to add, at least 0.

    Returns
    -------
    array (A, before + N + after)
        NumPy, of the dtype of the positions.

    Raises
    ------
    TypeError, ValueError
        The positions do not have the shape (A, N), or a count is negative.
    """
    positions = np.asarray(positions)
    if dtype_name(positions) not in FLOATING + INTEGER:
        raise TypeError(f"positions must be integers or real floats, got {positions.dtype}")
    if positions.ndim != 2:
        raise ValueError(f"positions must have shape (A, N), got {positions.shape}")
    before = validate.integer("before", before, minimum=0)
    after = validate.integer("after", after, minimum=0)
    validate.elements("the positions", (positions.shape[0], positions.shape[1] + before + after))
    return np.pad(positions, ((0, 0), (before, after)))


def _size(height: Any, width: Any, frames: Any = None) -> tuple[int, int, int | None]:
    sizes = [
        validate.integer("height", height, minimum=1),
        validate.integer("width", width, minimum=1),
    ]
    count = None if frames is None else validate.integer("frames", frames, minimum=1)
    validate.elements("the positions", (2 if count is None else 3 * count, *sizes))
    return sizes[0], sizes[1], count


def _pair(name: str, values: Any) -> tuple[float, float]:
    if isinstance(values, str) or not hasattr(values, "__len__") or len(values) != 2:
        raise TypeError(f"{name} must be two numbers, for height and width, got {shown(values)}")
    low, high = (validate.real(name, value, maximum=MAX_POSITION) for value in values)
    return low, high


def _axis(n: int, origin: Any) -> np.ndarray:
    if isinstance(origin, str):
        validate.choice("origin", origin, ("centre",), {"center": "centre"})
        first = -(n - n // 2)
    else:
        first = validate.integer("origin", origin)
    return np.arange(first, first + n, dtype=np.int64)


def _in_frames(plane: np.ndarray, frames: int | None, dtype: Any) -> np.ndarray:
    if frames is None:
        return plane
    time = np.repeat(np.arange(frames, dtype=dtype), plane.shape[1])
    return np.concatenate([time[None], np.tile(plane, frames)])
