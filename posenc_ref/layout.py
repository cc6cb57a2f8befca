"""Convert tensors and q/k projection weights from one channel layout to the other.

Let ``half(x)`` and ``interleaved(x)`` be x rotated by RoPE in these layouts, and let
``perm = [0, 2, 4, ..., 1, 3, 5, ...]`` over the rotary channels.  Then::

    half(x[perm]) == interleaved(x)[perm]

So a model written for one layout runs in the other if the weights of the q and k projections are
permuted, and with them their biases and q/k-norm weights.  Logits do not change.  The weights of
the v projection must not be permuted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _validate as validate
from ._namespace import Array, device_of, from_host, is_array, namespace
from .rope import LAYOUT_ALIASES, LAYOUTS


def layout_permutation(
    head_dim: int, *, source: str, target: str, rotary_dim: int | None = None
) -> np.ndarray:
    """Return the channel indices ``perm`` such that ``x_target = x_source[..., perm]``.

    Parameters
    ----------
    head_dim : int
    source, target : {"interleaved", "half"}
    rotary_dim : int, optional
        Only the first ``rotary_dim`` channels are permuted. None: all.

    Returns
    -------
    int64 array, shape (head_dim,)

    Raises
    ------
    TypeError, ValueError
        A layout is unknown, or rotary_dim is odd or larger than head_dim.
    """
    head_dim = validate.integer("head_dim", head_dim, minimum=2)
    d = head_dim if rotary_dim is None else validate.integer("rotary_dim", rotary_dim, minimum=2)
    if d % 2 or d > head_dim:
        raise ValueError(f"rotary_dim must be even and at most {head_dim}, got {d}")
    source = validate.choice("source", source, LAYOUTS, LAYOUT_ALIASES)
    target = validate.choice("target", target, LAYOUTS, LAYOUT_ALIASES)
    perm = np.arange(head_dim)
    if source != target:
        pairs = np.arange(d).reshape(2, -1) if source == "half" else np.arange(d).reshape(-1, 2)
        perm[:d] = pairs.T.ravel()
    return perm


def convert_layout(x: Array, *, source: str, target: str, rotary_dim: int | None = None) -> Array:
    """Return a copy of ``x`` with its channels moved from one layout to the other.

    Parameters
    ----------
    x : array (..., head_dim)
    source, target : {"interleaved", "half"}
        The layout of x and the layout of the result.
    rotary_dim : int, optional
        Only the first ``rotary_dim`` channels are permuted. None: all.

    Returns
    -------
    array (..., head_dim)
        In x's library, device and dtype.

    Raises
    ------
    TypeError, ValueError
        x is not an array, a layout is unknown, or rotary_dim is odd or larger than x's last axis.
    """
    if not is_array(x):
        raise TypeError(f"x must be an array, got {type(x).__name__}")
    perm = layout_permutation(x.shape[-1], source=source, target=target, rotary_dim=rotary_dim)
    xp = namespace(x)
    return xp.take(x, from_host(perm, xp, device_of(x)), axis=-1)


def permute_weights(
    w: Array,
    n_heads: int,
    *,
    source: str = "half",
    target: str = "interleaved",
    rotary_dim: int | None = None,
) -> Array:
    """Return projection weights ``w`` with the channels of each head moved to another layout.

    Use it on q with the number of query heads and on k with the number of *key* heads.

    Parameters
    ----------
    w : array (n_heads * head_dim, hidden), or (n_heads * head_dim,)
        The weight of the projection, or its bias.
    n_heads : int
        Heads of this projection.
    source, target : {"interleaved", "half"}
        The layout of the heads in w and in the result.
    rotary_dim : int, optional
        Only the first ``rotary_dim`` channels of a head are permuted. None: all.

    Returns
    -------
    array of the shape of w
        In w's library, device and dtype.

    Raises
    ------
    TypeError, ValueError
        w is not an array, a layout is unknown, n_heads does not divide the number of rows, or
        rotary_dim is odd or larger than head_dim.
    """
    if not is_array(w):
        raise TypeError(f"w must be an array, got {type(w).__name__}")
    n_heads = validate.integer("n_heads", n_heads, minimum=1)
    rows: Any = w.shape[0] if w.ndim else 0
    if rows == 0 or rows % n_heads:
        raise ValueError(
            f"w must have n_heads * head_dim rows, got shape {tuple(w.shape)} for {n_heads} heads"
        )
    head_dim = rows // n_heads
    perm = layout_permutation(head_dim, source=source, target=target, rotary_dim=rotary_dim)
    index = (np.arange(n_heads)[:, None] * head_dim + perm).ravel()
    xp = namespace(w)
    return xp.take(w, from_host(index, xp, device_of(w)), axis=0)
