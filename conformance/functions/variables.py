"""Numbers that may be mistaken for positions: counts of tokens, of documents and of padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.conformance.diagnosis.conditions import Variables


def of_mask(arguments: tuple[Any, ...]) -> Variables:
    """Return the variables of an attention mask (B, S)."""
    mask = np.asarray(arguments[0])
    index = np.broadcast_to(np.arange(mask.shape[-1]), mask.shape)
    before = np.cumsum(mask, axis=-1) - mask
    count = mask.sum(axis=-1, keepdims=True)
    spread = count.max(initial=0) - count.min(initial=mask.shape[-1])
    return {
        "the index in the row": index,
        "the row": np.arange(mask.shape[0])[:, None],
        "the number of real tokens so far": before + mask,
        "the number of real tokens of the row": count,
        "the number of padding tokens of the row": mask.shape[-1] - count,
        "the number of padding tokens before": index - before,
        "the index of the first real token": np.argmax(mask, axis=-1)[:, None],
        "the length of the row": 0 * index + mask.shape[-1],
        "the number of real tokens above, in the same column": np.cumsum(mask, axis=0) - mask,
        "the position of the same token of row 0": np.maximum((before + mask - 1)[:1], 0),
        "the number of rows": 0 * index + mask.shape[0],
        "the most real tokens of a row, less the fewest": 0 * index + spread,
        "the number of real tokens of earlier rows": np.cumsum(count, axis=0) - count,
    }


def of_lengths(arguments: tuple[Any, ...]) -> Variables:
    """Return the variables of the lengths (N,) of packed documents."""
    n = np.asarray(arguments[0])
    document = np.repeat(np.arange(n.size), n)
    start = np.cumsum(n) - n
    before = np.r_[0, n[:-1]] if n.size else n
    empty = np.cumsum(n == 0)
    return {
        "the index in the batch": np.arange(document.size),
        "the number of the document": document,
        "the start of the document": start[document],
        "the length of the document": n[document],
        "the length of the document before": before[document],
        "the length of the first document": 0 * document + n[:1].sum(),
        "the length of the longest document": 0 * document + n.max(initial=0),
        "the tokens that the document is shorter than the longest": n.max(initial=0) - n[document],
        "the number of empty documents before": empty[document],
        "the number of documents after this one": n.size - 1 - document,
        "the number of tokens of the document after this one": (start + n)[document]
        - 1
        - np.arange(document.size),
    }


def of_prompt(arguments: tuple[Any, ...]) -> Variables:
    """Return the variables of prompt lengths, a number or (B,), and a number of steps."""
    prompt, steps = np.asarray(arguments[0]), int(arguments[1])
    step = np.arange(steps)
    whole = prompt[..., None] + 0 * step
    return {
        "the number of the step": step,
        "the length of the prompt": whole,
        "the length of the longest prompt": whole * 0 + prompt.max(initial=0),
        "the number of steps": whole * 0 + steps,
        "the number of axes of the prompt lengths": whole * 0 + prompt.ndim,
    }


def of_shard(arguments: tuple[Any, ...]) -> Variables:
    """Return the variables of a rank's part: bounds (N + 1,), the number of ranks, the rank."""
    bounds, size, rank = np.asarray(arguments[0]), int(arguments[1]), int(arguments[2])
    lengths = np.diff(bounds)
    part = lengths // size
    document = np.repeat(np.arange(lengths.size), part)
    start = np.cumsum(part) - part
    none = 0 * document
    index = np.arange(document.size) - start[document]
    return {
        "the index in the rank's part of the document": index,
        "the number of the rank's chunk": index // np.maximum(lengths // (2 * size), 1)[document],
        "the index in the rank's part": np.arange(document.size),
        "the rank": none + rank,
        "the number of ranks": none + size,
        "the number of ranks after this one": none + size - 1 - rank,
        "the number of the document": document,
        "the start of the document": bounds[:-1][document],
        "the length of the document": lengths[document],
        "the length of a chunk": (lengths // (2 * size))[document],
    }
