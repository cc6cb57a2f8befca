"""Sequences whose tokens stand one after another: where each begins, and its positions."""

from __future__ import annotations

import numpy as np

from .roles import Layer


class Misfit(ValueError):
    """The recorded numbers do not fit the number of tokens, or of sequences."""


def starts_of(layer: Layer, name: str, count: int, where: str) -> np.ndarray | None:
    """Return the index of the first token of every sequence, and the number of tokens; or None.

    Raises
    ------
    Misfit
        The recorded numbers do not go from 0 to ``count``, the number of tokens.
    """
    role = f"{name}_cu_seqlens" if f"{name}_cu_seqlens" in layer.tensors else "cu_seqlens"
    if role not in layer.tensors:
        return None
    at = layer.tensors[role].values.ravel()
    if at.dtype.kind == "f" or not at.size or at[0] or at[-1] != count or (np.diff(at) < 0).any():
        raise Misfit(
            f"{where}: {layer.names[role]} must be the indices at which the sequences begin, and "
            f"the number of tokens of {name}: 0, ..., {count}; got {_shown(at)}"
        )
    return np.asarray(at)


def ends_of(layer: Layer, sequences: int, where: str) -> np.ndarray | None:
    """Return the position after the last token of every sequence, if a recorded tensor says it.

    It is in ``seq_lens``, or in the starts of the sequences of keys, when those of queries are
    others.

    Raises
    ------
    Misfit
        There is not one length for each of the ``sequences``.
    """
    tensors = layer.tensors
    role = "seq_lens" if "seq_lens" in tensors else "k_cu_seqlens"
    if role not in tensors:
        return None
    ends = tensors[role].values.ravel()
    ends = np.diff(ends) if role == "k_cu_seqlens" else ends
    if ends.size != sequences or ends.dtype.kind == "f":
        raise Misfit(
            f"{where}: {layer.names[role]} must give the length of each of the {sequences} "
            f"sequences, got {_shown(tensors[role].values)}"
        )
    return np.asarray(ends)


def positions_of(starts: np.ndarray, ends: np.ndarray | None) -> np.ndarray:
    """Return the position of every token: the last of a sequence has the position ``ends - 1``.

    Without ``ends``, every sequence begins at position 0.
    """
    sizes = np.diff(starts)
    first = np.zeros_like(sizes) if ends is None else ends - sizes
    return np.asarray(np.arange(starts[-1]) + np.repeat(first - starts[:-1], sizes))


def _shown(numbers: np.ndarray) -> str:
    text = ", ".join(str(n) for n in numbers.ravel()[:8])
    return f"{text}, ..." if numbers.size > 8 else text or "nothing"
