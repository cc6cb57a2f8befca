"""XD-RoPE positions: the token, and the column, row and number of its image, as in HunYuan-VL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from .multimodal_positions import IMAGE
from .position_rule import PositionRule, merged_grids, refuse_left, rows_of, take


@dataclass(frozen=True, eq=False, repr=False)
class XDRoPEPositions(PositionRule):
    """How a model numbers the tokens of text and images for XD-RoPE.

    Formula
        Token n of a row has (n, n, n, n), whether or not images come before it.  Only the tokens in
        the grid of an image differ: in row h and column w of image i they have ``(n, w, h, i)``.
        Images of a row are numbered from 0.  A row of the grid ends with one token more, which has
        the next column: an image has height * (width + 1) tokens.  Decoding continues at n.
    Source
        Tencent Hunyuan Vision Team 2025, *HunyuanOCR Technical Report*, arXiv:2511.19575;
        transformers 5.23, ``HunYuanVLModel.get_rope_index``; vLLM, ``hunyuan_vision.py``.
    Traps
        Positions in an image start at 0 wherever it occurs, so images do not shorten what follows,
        as they do in M-RoPE.  The columns come before the rows.  transformers 5.23 goes on counting
        images from one row of a batch to the next; the number of an image then depends on the other
        prompts of the batch.

    Parameters
    ----------
    spatial_merge_size : int
        Patches per token along height and width.
    num_axes : int
        Axes of positions, at least 3: the last three are column, row and image, all before them are
        n.
    """

    spatial_merge_size: int = 2
    num_axes: int = 4

    def __post_init__(self) -> None:
        for name, least in (("spatial_merge_size", 1), ("num_axes", 3)):
            self._set(**{name: validate.integer(name, getattr(self, name), minimum=least)})

    def positions(
        self,
        token_types: Any,
        *,
        image_grids: Any = (),
        video_grids: Any = (),
        seconds_per_grid: Any = None,
        attention_mask: Any = None,
    ) -> np.ndarray:
        """Return the positions of a batch.

        Parameters
        ----------
        token_types : integers, shape (S,) or (B, S)
            0 text, 1 image.  Each run of image tokens is one image: the tokens of its grid, or two
            more, of which the first and the last are numbered like text.
        image_grids : integers, shape (n, 3)
            1, height and width of each image in patches, in order of occurrence.
        video_grids, seconds_per_grid
            Not used: a frame is an image.
        attention_mask
            As for :meth:`PositionRule.positions`.

        Returns
        -------
        int64 array, shape (A, S) or (A, B, S)

        Raises
        ------
        ValueError
            The image tokens do not fit the grids, or a grid has no tokens.
        """
        types, mask = rows_of(token_types, attention_mask, ("text", "image"))
        waiting = merged_grids("image_grids", image_grids, self.spatial_merge_size)
        made = np.zeros((self.num_axes, *types.shape), np.int64)
        for b, (row, real) in enumerate(zip(types, mask, strict=True)):
            kinds = row[real]
            ids = np.tile(np.arange(kinds.size), (self.num_axes, 1))
            edges = np.flatnonzero(np.diff(np.r_[0, kinds == IMAGE, 0])).reshape(-1, 2)
            for image, (first, end) in enumerate(edges):
                _, height, width = take(waiting, "image", b)
                borders, odd = divmod(int(end - first) - height * (width + 1), 2)
                if odd or borders not in (0, 1):
                    size = height * (width + 1)
                    raise ValueError(
                        f"token_types must have {size} or {size + 2} tokens for the image of "
                        f"merged grid {(height, width)}, got {end - first} in row {b}"
                    )
                down, across = np.indices((height, width + 1)).reshape(2, -1)
                inside = slice(first + borders, end - borders)
                ids[-3:, inside] = np.stack([across, down, np.full_like(down, image)])
            made[:, b, real] = ids
        refuse_left(waiting, "image")
        return made if np.ndim(token_types) == 2 else made[:, 0]
