"""Positions of text tokens: padding, packed documents, decoding, context-parallel shards.

Arguments are integers: a list, a NumPy array, or a concrete array of any library, which is copied
to the host. Results are NumPy int64 arrays. ``apply(x, positions)`` accepts them for x of any
library.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _validate as validate
from ._namespace import INTEGER, dtype_name, is_array, is_lazy, to_host
from ._positions import from_sequence


def position_ids(attention_mask: Any, *, padding: int = 0) -> np.ndarray:
    """Return positions that count the real tokens of each row; padding may be anywhere.

    Formula
        ``cumsum(mask)[s] - 1`` where the mask is 1, ``padding`` where it is 0.
    Source
        transformers 5.23, ``generation/utils.py``: ``cumsum(-1) - 1`` with masked positions 0.

    Parameters
    ----------
    attention_mask : integers or booleans, shape (..., S)
        1 where the token is real.
    padding : int
        The position of padding tokens, at least -1.  Masked attention ignores it, but a learned
        table must have a row for it.  transformers 4 used 1 (some models still do), 5 uses 0.  OPT
        uses -1, because its table ``Learned(offset=2)`` has the row of padding at index 1.

    Returns
    -------
    int64 array, shape (..., S)

    Traps
        ``arange(S)`` is wrong for every left-padded row (unslothai/unsloth#4078,
        huggingface/transformers#48028).

    Raises
    ------
    TypeError, ValueError
        ``attention_mask`` is not an array of zeros and ones, or ``padding`` is below -1.
    """
    mask = _integers("attention_mask", attention_mask, booleans=True)
    if mask.ndim < 1 or ((mask != 0) & (mask != 1)).any():
        raise ValueError(
            "attention_mask must hold 1 for real tokens and 0 for padding, shape (..., S); "
            "additive masks (0 and -inf) have another meaning"
        )
    padding = validate.integer("padding", padding, minimum=-1)
    return np.where(mask == 1, np.cumsum(mask, axis=-1) - 1, padding)


def packed(lengths: Any) -> np.ndarray:
    """Return the positions of packed documents; each document starts at 0.

    Source
        The ``thd`` format of Transformer Engine, and flash-attention's ``varlen``: the position of
        a token within its own sequence.

    Parameters
    ----------
    lengths : sequence of int
        The number of tokens of each document, at least 0: ``diff(cu_seqlens)``.

    Returns
    -------
    int64 array, shape (sum of lengths,)

    Raises
    ------
    TypeError, ValueError
        ``lengths`` holds negative numbers or no integers, or has more than one axis.
    """
    lengths = _integers("lengths", lengths)
    if lengths.ndim != 1 or (lengths < 0).any():
        raise ValueError(f"lengths must be a flat list of counts, at least 0, got {lengths}")
    validate.elements("the positions", (sum(lengths.tolist()),))
    starts = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(lengths.sum()) - np.repeat(starts, lengths))


def decode_positions(prompt_len: Any, n_steps: int) -> np.ndarray:
    """Return the positions of the tokens generated after a prompt: its length, its length + 1, ...

    Parameters
    ----------
    prompt_len : int or integers, shape (B,)
        The number of *real* tokens of each prompt, without padding.  For a prompt with M-RoPE
        positions, pass the largest position plus one instead.
    n_steps : int
        Number of tokens, at least 0.

    Returns
    -------
    int64 array, shape (n_steps,) or (B, n_steps)

    Raises
    ------
    TypeError, ValueError
        ``prompt_len`` or ``n_steps`` is negative or not an integer, or has more than one axis.
    """
    n_steps = validate.integer("n_steps", n_steps, minimum=0)
    if isinstance(prompt_len, int | np.integer):
        lengths = np.asarray(validate.integer("prompt_len", prompt_len, minimum=0))
    else:
        lengths = _integers("prompt_len", prompt_len)
    if lengths.ndim > 1 or (lengths < 0).any():
        raise ValueError(f"prompt_len must be a length, or one for each row (B,), got {lengths}")
    validate.elements("the positions", (lengths.size, n_steps))
    return np.asarray(lengths[..., None] + np.arange(n_steps, dtype=np.int64))


def shard_indices(cu_seqlens: Any, cp_size: int, cp_rank: int) -> np.ndarray:
    """Return the indices of the packed tokens of a context-parallel rank, in the rank's order.

    Formula
        Every sequence is cut into ``2 * cp_size`` equal chunks; rank r holds chunk r and then chunk
        ``2 * cp_size - 1 - r``, so causal attention costs every rank the same.
    Source
        Megatron-LM, ``get_batch_on_this_cp_rank``; Transformer Engine,
        ``thd_get_partitioned_indices``; for one sequence, PyTorch's ``_HeadTailLoadBalancer``.

    Parameters
    ----------
    cu_seqlens : integers, shape (sequences + 1,)
        The start of each sequence in the packed batch, from 0, and then the total length.
    cp_size, cp_rank : int
        The number of ranks, and the number of the rank, from 0.

    Returns
    -------
    int64 array, shape (total / cp_size,)
        ``x[shard_indices(...)]`` is the shard of a packed x; a single sequence of length S is
        ``cu_seqlens = [0, S]``.

    Raises
    ------
    ValueError
        A sequence length is not a multiple of ``2 * cp_size`` (pad each sequence first).
    """
    bounds = _integers("cu_seqlens", cu_seqlens)
    if bounds.ndim != 1 or bounds.size < 1 or bounds[0] != 0 or (np.diff(bounds) < 0).any():
        raise ValueError(
            "cu_seqlens must rise from 0, one start for each sequence and the total at the end "
            f"([0, 8, 12] for lengths 8 and 4), got {bounds}"
        )
    size = validate.integer("cp_size", cp_size, minimum=1)
    rank = validate.integer("cp_rank", cp_rank, minimum=0)
    if rank >= size:
        raise ValueError(f"cp_rank must be below cp_size = {size}, got {rank}")
    lengths = np.diff(bounds)
    uneven = lengths[lengths % (2 * size) != 0]
    if uneven.size:
        raise ValueError(
            f"every length in cu_seqlens must be a multiple of 2 * cp_size = {2 * size}, got "
            f"{uneven[0]}: pad the sequence"
        )
    validate.elements("the indices", (int(bounds[-1]) // size,))
    parts = [np.zeros(0, np.int64)]
    for start, length in zip(bounds[:-1].tolist(), lengths.tolist(), strict=True):
        chunk = length // (2 * size)
        for which in (rank, 2 * size - 1 - rank):
            parts.append(start + which * chunk + np.arange(chunk, dtype=np.int64))
    return np.concatenate(parts)


def shard_positions(cu_seqlens: Any, cp_size: int, cp_rank: int) -> np.ndarray:
    """Return the position of each token of a context-parallel rank within its own sequence.

    The tokens are those of :func:`shard_indices`, two chunks of every sequence. A rank that counts
    its own tokens from 0 instead has wrong positions in all but the first chunk.

    Parameters
    ----------
    cu_seqlens, cp_size, cp_rank
        As for :func:`shard_indices`.

    Returns
    -------
    int64 array, shape (total / cp_size,)

    Raises
    ------
    TypeError, ValueError
        As for :func:`shard_indices`.
    """
    held = shard_indices(cu_seqlens, cp_size, cp_rank)
    return np.asarray(packed(np.diff(_integers("cu_seqlens", cu_seqlens)))[held])


def _integers(name: str, values: Any, *, booleans: bool = False) -> np.ndarray:
    """Return ``values`` as a NumPy int64 array; raise TypeError for floats."""
    if is_array(values) and is_lazy(values):
        raise TypeError(
            f"{name} must be concrete, got a traced or lazy array: positions are made on the host"
        )
    array = to_host(values) if is_array(values) else from_sequence(name, values)
    if array.size == 0 and not is_array(values):
        return array.astype(np.int64)
    allowed = (*INTEGER, "bool") if booleans else INTEGER
    if dtype_name(array) not in allowed:
        raise TypeError(f"{name} must be integers, got {dtype_name(array)}")
    return array.astype(np.int64)
