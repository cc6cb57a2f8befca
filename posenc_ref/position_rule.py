"""The base class of the rules by which models number text, images, videos and audio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._namespace import is_array, to_host
from .encoding import Value
from .position_ids import _integers, decode_positions


class PositionRule(Value, abstract=True):
    """How a model numbers the tokens of a prompt, and of the tokens generated after it."""

    kind = "positions"
    #: The number of positions of a token.
    num_axes: int = 3

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
            0 text, 1 image, 2 video, 3 audio; a class may have further types.
        image_grids, video_grids : integers, shape (n, 3)
            Frames, height and width of each image or video in patches (before merging), in order of
            occurrence: first those of the first row of the batch, then those of the second, ...
        seconds_per_grid : floats, one per video, optional
            Seconds between frames of the grid; ignored by rules that count frames.
        attention_mask : integers or booleans, like token_types, optional
            0 marks padding, which gets position 0 and is not counted.

        Returns
        -------
        int64 array (float64 if the rule keeps fractions), shape (A, S) or (A, B, S)
            A is ``num_axes``.
        """
        raise NotImplementedError

    def packed(
        self,
        token_types: Any,
        image_grids: Any,
        video_grids: Any,
        seconds_per_grid: Any,
        lengths: Any,
    ) -> np.ndarray:
        """Return the positions of packed documents; each document starts at 0.

        Parameters
        ----------
        token_types : integers, shape (S,)
            As for :meth:`positions`, one document after another.
        image_grids, video_grids, seconds_per_grid
            As for :meth:`positions`, in order of occurrence.
        lengths : integers, shape (documents,)
            The number of tokens of each document.

        Returns
        -------
        int64 array (float64 if the rule keeps fractions), shape (A, S)
        """
        types, sizes = _integers("token_types", token_types), _integers("lengths", lengths)
        if types.ndim != 1 or sizes.ndim != 1 or (sizes < 0).any() or sizes.sum() != types.size:
            raise ValueError(
                f"lengths must add up to the {types.size} tokens of token_types (S,), got {sizes}"
            )
        real = np.arange(sizes.max(initial=0)) < sizes[:, None]
        rows = np.zeros(real.shape, dtype=np.int64)
        rows[real] = types
        return self.positions(
            rows,
            image_grids=image_grids,
            video_grids=video_grids,
            seconds_per_grid=seconds_per_grid,
            attention_mask=real,
        )[:, real]

    def decoded(self, positions: Any, attention_mask: Any, n_steps: int) -> np.ndarray:
        """Return the positions of the tokens of text generated after a batch of prompts.

        Formula
            ``max + 1, max + 2, ...`` on all axes, where max is the largest position of the row's
            real tokens.  Libraries store ``rope_deltas = max + 1 - length`` of each row.

        Parameters
        ----------
        positions : integers or floats, shape (A, B, S)
            The positions of the prompts.
        attention_mask : integers or booleans, shape (B, S)
            0 marks padding.
        n_steps : int
            Number of generated tokens.

        Returns
        -------
        array of the dtype of the positions, shape (A, B, n_steps)
        """
        held = np.asarray(positions)
        real = _integers("attention_mask", attention_mask, booleans=True) == 1
        start = np.where(real, held, -1).max(axis=(0, 2)) + 1
        steps = start[:, None] + decode_positions(0, n_steps)
        return np.asarray(np.broadcast_to(steps, (held.shape[0], *steps.shape)))

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
            Number of generated tokens.

        Returns
        -------
        int64 array (float64 if the rule keeps fractions), shape (A, B, S + n_steps)
        """
        held = self.positions(
            token_types,
            image_grids=image_grids,
            video_grids=video_grids,
            seconds_per_grid=seconds_per_grid,
            attention_mask=attention_mask,
        )
        return np.concatenate([held, self.decoded(held, attention_mask, n_steps)], axis=2)


def rows_of(
    token_types: Any, attention_mask: Any, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return token types and a boolean mask, both (B, S).

    ``names`` are those of the token types 0, 1, ...; a type without a name is "".
    """
    types = _integers("token_types", token_types)
    if types.ndim not in (1, 2):
        raise ValueError(f"token_types must have shape (S,) or (B, S), got {types.shape}")
    known = {number: name for number, name in enumerate(names) if name}
    unknown = sorted(set(np.unique(types).tolist()) - set(known))
    if unknown:
        *first, last = (f"{number} ({name})" for number, name in known.items())
        raise ValueError(f"token_types must be {', '.join(first)} or {last}, got {unknown[0]}")
    if attention_mask is None:
        mask = np.ones(types.shape, dtype=bool)
    else:
        given = _integers("attention_mask", attention_mask, booleans=True)
        if given.shape != types.shape or ((given != 0) & (given != 1)).any():
            raise ValueError(
                f"attention_mask must be zeros and ones of shape {types.shape}, got shape "
                f"{given.shape} with values {np.unique(given)[:5].tolist()}"
            )
        mask = given == 1
    return np.atleast_2d(types), np.atleast_2d(mask)


def merged_grids(name: str, grids: Any, space: int, time: int = 1) -> list[tuple[int, int, int]]:
    """Return the grids divided by the merge sizes, as (frames, height, width)."""
    array = _integers(name, () if grids is None else grids)
    if array.size == 0:
        return []
    if array.ndim != 2 or array.shape[1] != 3 or (array < 1).any():
        raise ValueError(f"{name} must hold (frames, height, width), each at least 1, got {grids}")
    merge = np.array([time, space, space])
    if (array % merge).any():
        raise ValueError(
            f"{name} must be divisible by the merge sizes {tuple(merge.tolist())} on every axis, "
            f"got {tuple(array[(array % merge).any(axis=1)][0].tolist())}"
        )
    return [(int(t), int(h), int(w)) for t, h, w in array // merge]


def take(waiting: list[Any], kind: str, row: int) -> Any:
    """Return and remove the next grid of an image or video."""
    if not waiting:
        raise ValueError(f"{kind}_grids must have a grid for every {kind}: none left in row {row}")
    return waiting.pop(0)


def refuse_left(waiting: list[Any], kind: str) -> None:
    """Raise ValueError for grids without tokens."""
    if waiting:
        raise ValueError(
            f"{kind}_grids must have one grid for each {kind} in token_types, "
            f"got {len(waiting)} too many"
        )


def host(values: Any) -> np.ndarray:
    """Return values as a NumPy array."""
    return to_host(values) if is_array(values) else np.asarray(values)
