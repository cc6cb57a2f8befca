"""Eviction from a cache of rotated keys: the first keys stay, the rest moves back."""

from __future__ import annotations

from typing import Any

from . import _validate as validate
from ._namespace import Array, namespace
from .rotary import Rotary


def evict_keys(encoding: Rotary, k: Array, kept: int, dropped: int) -> Array:
    """Return the rotated keys after eviction: positions are places in the cache, without a gap.

    Formula
        The keys of positions 0 .. kept - 1 stay as they are, the next ``dropped`` keys are removed,
        and a key of a later position p becomes ``R(-dropped) k``, the key of position p - dropped.
    Source
        Xiao et al. 2023, StreamingLLM, arXiv:2309.17453, section 3.2: the cache 0, 1, 2, 3, 6, 7, 8
        gets the positions 0 .. 6. Context shift of llama.cpp, with ``n_keep`` kept keys.

    Parameters
    ----------
    encoding : Rotary
        Its frequencies must not depend on the length.
    k : array (..., S, head_dim)
        Keys rotated to positions 0 .. S - 1, real floating.
    kept : int
        The number of first keys that stay: attention sinks, or the system prompt.
    dropped : int
        The number of keys after them that are removed; kept + dropped is at most S.

    Returns
    -------
    array (..., S - dropped, head_dim)
        In k's library, device and dtype. The kept keys are bit-equal; the others are computed in
        float64 (float32 if the device has no float64) and rounded once.

    Raises
    ------
    TypeError, ValueError
        ``encoding`` is not rotary or its frequencies depend on the length, k has the wrong shape,
        or the counts are outside 0 .. S.

    Traps
        * The next query and key have the position S - dropped, their place in the cache, not the
          number of tokens in the text. Otherwise the newest key is not consecutive
          (huggingface/transformers#35350, #33691).
        * Every eviction moves the keys by its own ``dropped``. Each one rounds again, so a cache
          that is shifted thousands of times in bfloat16 drifts; the authors of StreamingLLM cache
          raw keys and rotate them in every step (mit-han-lab/streaming-llm#53).
        * Keys of multimodal tokens have several positions: only the caller knows their shift.
    """
    if not isinstance(encoding, Rotary):
        raise TypeError(f"encoding must be a rotary encoding, got {type(encoding).__name__}")
    if encoding.depends_on_length:
        raise ValueError(
            "encoding must have frequencies that do not depend on the length, got "
            f"{type(encoding).__name__}; rotate the raw keys again instead"
        )
    validate.check_x(k, encoding.head_dim, "head_dim")
    count = int(k.shape[-2])
    kept = validate.integer("kept", kept, minimum=0)
    dropped = validate.integer("dropped", dropped, minimum=0)
    if kept + dropped > count:
        raise ValueError(
            f"kept + dropped must be at most {count}, the number of keys, got {kept} + {dropped}"
        )
    rest: Any = encoding.shift(k[..., kept + dropped :, :], -dropped)
    return namespace(k).concat([k[..., :kept, :], rest], axis=-2)
