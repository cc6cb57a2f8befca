"""Positions of prompts and of the images that are generated after them, as in GLM-Image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from .multimodal_positions import IMAGE, TEXT, mrope_positions
from .position_ids import _integers
from .position_rule import PositionRule, merged_grids, rows_of
from .vision_positions import grid_positions


@dataclass(frozen=True, eq=False, repr=False)
class ImageGenerationPositions(PositionRule):
    """How a model numbers the tokens of a prompt with images, and of the images that it generates.

    Formula
        Text at c has (c, c, c), (c + 1, c + 1, c + 1), ...; the token in row h and column w of an
        image at c has ``(c, c + h, c + w)``, and what follows starts at c + max(height, width).
        The grids of a row that are not in its prompt are those of the images to come: the first
        generated tokens are those of the *last* grid, then those of the one before it, and so on,
        numbered like images of the prompt.  The end marker has one more than the largest position,
        on all axes, and so have all tokens after it.
    Source
        Z.ai, GLM-Image; transformers 5.23, ``GlmImageModel.get_rope_index``: a prompt without
        images is followed by a small preview and then by the image itself, whose grids are given in
        the opposite order.
    Traps
        Grids count tokens, not patches: the merge size is 1.  The grids to come stand after those
        of the same row's prompt, so that the second row does not take the grids that follow the
        images of the first.  Generated tokens have rows and columns: ``rope_deltas`` and "largest
        position + 1" do not give their positions.

    Parameters
    ----------
    spatial_merge_size : int
        Patches per token along height and width.
    """

    spatial_merge_size: int = 1

    def __post_init__(self) -> None:
        size = validate.integer("spatial_merge_size", self.spatial_merge_size, minimum=1)
        self._set(spatial_merge_size=size)

    def positions(
        self,
        token_types: Any,
        *,
        image_grids: Any = (),
        video_grids: Any = (),
        seconds_per_grid: Any = None,
        attention_mask: Any = None,
    ) -> np.ndarray:
        """Return the positions of prompts.

        Parameters
        ----------
        token_types : integers, shape (S,) or (B, S)
            0 text, 1 image.  Each run of image tokens is one image.
        image_grids : integers, shape (n, 3)
            1, height and width of each image: for each row those of its prompt, then those of its
            images to come, of which all rows have the same number.
        video_grids, seconds_per_grid
            Not used: the model takes no videos.
        attention_mask
            As for :meth:`PositionRule.positions`.

        Returns
        -------
        int64 array, shape (3, S) or (3, B, S)

        Raises
        ------
        ValueError
            The grids do not fit the images of the prompts, or their number is not that of the
            prompts' images plus a multiple of the number of rows.
        """
        types, mask = rows_of(token_types, attention_mask, ("text", "image"))
        held, _ = self._divided(types, mask, image_grids)
        ids = mrope_positions(
            types, image_grids=held, attention_mask=mask, spatial_merge_size=self.spatial_merge_size
        )
        return ids if np.ndim(token_types) == 2 else ids[:, 0]

    def with_decoding(
        self,
        token_types: Any,
        image_grids: Any,
        video_grids: Any,
        seconds_per_grid: Any,
        attention_mask: Any,
        n_steps: int,
    ) -> np.ndarray:
        """Return the positions of prompts and of the tokens generated after them.

        Parameters
        ----------
        token_types, image_grids, video_grids, seconds_per_grid, attention_mask
            As for :meth:`positions`; token_types have shape (B, S).
        n_steps : int
            Number of generated tokens.  Without images to come they are text.

        Returns
        -------
        int64 array, shape (3, B, S + n_steps)
        """
        types, mask = rows_of(token_types, attention_mask, ("text", "image"))
        held = self.positions(types, image_grids=image_grids, attention_mask=mask)
        _, coming = self._divided(types, mask, image_grids)
        made = np.array(self.decoded(held, mask, n_steps))
        for row, grids in enumerate(coming if n_steps else []):
            start, parts = int(made[0, row, 0]), []
            for _, height, width in reversed(grids):
                parts.append(start + grid_positions(height, width, frames=1))
                start += max(height, width)
            if parts:
                drawn = np.concatenate([*parts, np.full((3, n_steps), start)], axis=1)
                made[:, row] = drawn[:, :n_steps]
        return np.concatenate([held, made], axis=2)

    def _divided(
        self, types: np.ndarray, mask: np.ndarray, image_grids: Any
    ) -> tuple[np.ndarray, list[list[tuple[int, int, int]]]]:
        """Return the grids of the prompts (patches), and for each row those to come (tokens)."""
        given = _integers("image_grids", () if image_grids is None else image_grids).reshape(-1, 3)
        merged = merged_grids("image_grids", given, self.spatial_merge_size)
        runs = [
            int((np.diff(np.r_[TEXT, row[real]]) == IMAGE).sum())
            for row, real in zip(types, mask, strict=True)
        ]
        left, rows = len(merged) - sum(runs), len(runs)
        if left < 0 or (left and left % rows):
            raise ValueError(
                f"image_grids must hold the grids of the {sum(runs)} images in token_types and the "
                f"same number of images to come for each of the {rows} rows, got {len(merged)}"
            )
        kept: list[int] = []
        coming: list[list[tuple[int, int, int]]] = []
        at = 0
        for count in runs:
            kept += range(at, at + count)
            at += count + left // max(rows, 1)
            coming.append(merged[at - left // max(rows, 1) : at])
        return given[kept], coming
