"""Call functions such as ``get_rope_index`` of transformers as surface ``mrope_position_ids``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from posenc_ref import ImageGenerationPositions, PositionRule
from posenc_ref._namespace import is_array, to_host

from .implementation import Implementation

SURFACE = "mrope_position_ids"
TEXT, IMAGE, VIDEO, AUDIO, SLICE, MARKER, NEWLINE = 0, 1, 2, 3, 4, 5, 6
#: The arguments of the surface, and of libraries, by the names of parameters.
NAMES = {
    "input_ids": "input_ids", "input_tokens": "input_ids",
    "mm_token_type_ids": "token_types", "token_types": "token_types",
    "image_grid_thw": "image_grids", "image_grids": "image_grids",
    "video_grid_thw": "video_grids", "video_grids": "video_grids",
    "second_per_grid_ts": "seconds_per_grid", "second_per_grids": "seconds_per_grid",
    "seconds_per_grid": "seconds_per_grid", "video_second_per_grid": "seconds_per_grid",
    "attention_mask": "attention_mask",
    "target_sizes": "image_sizes", "target_sizes_videos": "video_sizes",
}  # fmt: skip
#: Token ids of Qwen2-VL, Qwen2.5-Omni and, for slices, of our own, for configurations without.
TOKEN_IDS = {
    "image_token_id": 151655, "video_token_id": 151656, "audio_token_id": 151646,
    "vision_start_token_id": 151652, "vision_end_token_id": 151653,
    "audio_start_token_id": 151647, "audio_end_token_id": 151648,
    "image_start_id": 151657, "image_end_id": 151658, "slice_start_id": 151659,
    "slice_end_id": 151660, "newline_id": 198,
}  # fmt: skip
#: The ids of text and of padding.
WORD, PADDING = 5, 0


def token_ids(types: np.ndarray, mask: np.ndarray, ids: Mapping[str, int]) -> np.ndarray:
    """Return token ids (B, S) of token types (B, S), with start and end tokens around media.

    A video with its sound has two start tokens, of the video and of the audio, and two end tokens.
    The token types of :class:`posenc_ref.CanvasPositions` name their markers themselves.
    """
    made = np.where(mask == 1, WORD, PADDING)
    for kind, name in ((IMAGE, "image"), (VIDEO, "video"), (AUDIO, "audio")):
        made[types == kind] = ids[f"{name}_token_id"]
    if (types >= SLICE).any():
        _mark_canvas(made, types, ids)
        return made
    for b, row in enumerate(types):
        edges = np.flatnonzero(np.diff(np.r_[TEXT, row != TEXT, TEXT].astype(int)))
        for first, end in zip(edges[::2], edges[1::2], strict=True):
            run, gap = row[first:end], 1
            if AUDIO in run:
                _mark(made[b], first - 1, end, "audio", ids)
                gap = 2
            if AUDIO not in run or VIDEO in run:
                _mark(made[b], first - gap, end + gap - 1, "vision", ids)
    return made


def _mark_canvas(made: np.ndarray, types: np.ndarray, ids: Mapping[str, int]) -> None:
    """Write the token ids of markers: a marker before a crop starts it, one after it ends it."""
    made[types == SLICE], made[types == NEWLINE] = ids["slice_start_id"], ids["newline_id"]
    for b, at in np.argwhere(types == MARKER):
        if types[b, at + 1 : at + 2].tolist() in ([IMAGE], [VIDEO]):
            made[b, at] = ids["image_start_id"]
            continue
        before = at - 1
        while before > 0 and types[b, before] == types[b, at - 1]:
            before -= 1
        made[b, at] = ids["slice_end_id" if types[b, before] == SLICE else "image_end_id"]


def _mark(row: np.ndarray, start: int, end: int, kind: str, ids: Mapping[str, int]) -> None:
    row[start] = ids[f"{kind}_start_token_id"]
    if end < row.size:
        row[end] = ids[f"{kind}_end_token_id"]


def rope_index(
    target: Callable[..., Any],
    parameters: Mapping[str, inspect.Parameter],
    library: Any,
    rule: PositionRule,
    config: Mapping[str, Any],
    init: Mapping[str, Any],
    words: str,
) -> Implementation:
    """Return a function that makes position ids as one of surface ``mrope_position_ids``.

    It is called by the names of its ``parameters``, with arrays of ``library``, a Library of
    :mod:`posenc_ref.conformance.calling`.  It returns position ids (3, B, S), or these and
    ``rope_deltas``: what to add to the number of tokens, with or without padding, for the position
    of the first generated token.

    Raises
    ------
    ValueError
        A required parameter is unknown, or the function takes neither token types nor token ids.
    """
    if isinstance(rule, ImageGenerationPositions):
        raise ValueError(
            f"{words} has no known parameters: for images to come, write a function of "
            "token_types, image_grids, video_grids, seconds_per_grid, attention_mask and n_steps, "
            "which also returns the positions of the generated tokens"
        )
    roles = {own: NAMES[own] for own in parameters if own in NAMES}
    unknown = [
        p.name
        for p in parameters.values()
        if p.default is p.empty
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and p.name not in {*roles, *init}
    ]
    if unknown or not {"input_ids", "token_types"} & set(roles.values()):
        what = f"it also needs {', '.join(unknown)}" if unknown else "it takes no tokens"
        raise ValueError(
            f"{words} has no known parameters: {what}; write a function of token_types, "
            "image_grids, video_grids, seconds_per_grid, attention_mask and n_steps, or of some of "
            f"{', '.join(NAMES)} (give other parameters with --init NAME=VALUE)"
        )
    inner = config.get("thinker_config")
    known = TOKEN_IDS | {k: v for k, v in {**config, **(inner or {})}.items() if k in TOKEN_IDS}

    def call(
        types: Any, images: Any, videos: Any, seconds: Any, mask: Any, n_steps: int
    ) -> np.ndarray:
        host = _host(mask)
        given = {
            "token_types": types, "image_grids": images, "video_grids": videos,
            "seconds_per_grid": seconds, "attention_mask": mask,
            "image_sizes": images[:, 1:], "video_sizes": videos[:, 1:],
        }  # fmt: skip
        empty = {role for role, value in given.items() if not len(value)}
        if library.convert:
            given = {role: library.array(value) for role, value in given.items()}
        given["input_ids"] = library.array(token_ids(_host(types), host, known), "int64")
        arguments = {
            own: None if role in empty and parameters[own].default is None else given[role]
            for own, role in roles.items()
        }
        if "mm_token_type_ids" in arguments and (_host(types) >= SLICE).any():
            kinds = np.where(_host(types) >= SLICE, TEXT, _host(types))  # markers are text there
            arguments["mm_token_type_ids"] = library.array(kinds, "int64")
        found = target(**arguments, **init)
        return _decoded(found, host, n_steps, rule.num_axes)

    return Implementation(
        call=call,
        surface=SURFACE,
        name=words,
        encoding=rule,
        backend=library.backend,
        how=f"{words}({', '.join(f'{own}={role}' for own, role in roles.items())})",
    )


def _decoded(found: Any, mask: np.ndarray, n_steps: int, axes: int) -> np.ndarray:
    """Return position ids (A, B, S), with those of generated tokens by ``rope_deltas``."""
    pair = isinstance(found, tuple | list) and len(found) == 2
    ids = _host(found[0] if pair else found)
    if ids.ndim != 3 or ids.shape[1:] != mask.shape:
        raise ValueError(f"position ids must have shape ({axes}, *{mask.shape}), got {ids.shape}")
    ids = ids[-axes:]  # one axis more: the first one numbers the tokens
    largest = np.where(mask == 1, ids, -1).max(axis=(0, 2))
    if pair:
        deltas = np.ravel(_host(found[1]))
        start = mask.sum(axis=1) + deltas
        if (mask.shape[1] + deltas == largest + 1).all():
            start = mask.shape[1] + deltas  # of the whole length, as in transformers 4
    else:
        start = largest + 1
    steps = (start[:, None] + np.arange(n_steps)).astype(ids.dtype)
    return np.concatenate([ids, np.broadcast_to(steps, (len(ids), *steps.shape))], axis=2)


def _host(value: Any) -> np.ndarray:
    return to_host(value) if is_array(value) else np.array(value)


def named_otherwise(names: Collection[str]) -> bool:
    """Return whether parameters are named as in libraries, not as in the surface."""
    return any(own in names and own != role for own, role in NAMES.items()) or "input_ids" in names
