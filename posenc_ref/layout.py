"""Convert tensors and q/k projection weights from one channel layout to the other.

Let ``half(x)`` and ``interleaved(x)`` be x rotated by RoPE in these layouts, and let
``perm = [0, 2, 4, ..., 1, 3, 5, ...]`` over the rotary channels.  Then::

    half(x[perm]) == interleaved(x)[perm]

So a model written for one layout runs in the other if the weights of the q and k projections are
permuted, and with them their biases and q/k-norm weights.  Logits do not change.  The weights of
the v projection must not be permuted.

The number of rows does not say what a matrix holds: 6144 rows and 32 heads are 32 query heads of
192, or 32 query, 8 key and 8 value heads of 128 in one fused matrix.  ``head_dim`` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _validate as validate
from ._namespace import Array, class_of, device_of, from_host, is_array, namespace
from ._text import shown
from .rope import LAYOUT_ALIASES, LAYOUTS


def layout_permutation(
    head_dim: int,
    *,
    source: str,
    target: str,
    rotary_dim: int | None = None,
    rotary_start: int = 0,
) -> np.ndarray:
    """Return the channel indices ``perm`` such that ``x_target = x_source[..., perm]``.

    Parameters
    ----------
    head_dim : int
    source, target : {"interleaved", "half"}
    rotary_dim : int, optional
        The number of rotated channels; the others stay. None: all from ``rotary_start`` on.
    rotary_start : int
        The first rotated channel.

    Returns
    -------
    int64 array, shape (head_dim,)

    Raises
    ------
    TypeError, ValueError
        A layout is unknown, rotary_dim is odd, or the rotated channels do not fit into head_dim.
    """
    head_dim = validate.size("head_dim", head_dim, minimum=2)
    first = validate.integer("rotary_start", rotary_start, minimum=0)
    if first > head_dim - 2:
        raise ValueError(f"rotary_start must be at most head_dim - 2 = {head_dim - 2}, got {first}")
    most = head_dim - first
    d = most if rotary_dim is None else validate.integer("rotary_dim", rotary_dim, minimum=2)
    if d % 2 or d > most:
        after = f" after rotary_start = {first}" if first else ""
        raise ValueError(f"rotary_dim must be even and at most {most}{after}, got {d}")
    source = validate.choice("source", source, LAYOUTS, LAYOUT_ALIASES)
    target = validate.choice("target", target, LAYOUTS, LAYOUT_ALIASES)
    perm = np.arange(head_dim)
    if source != target:
        pairs = np.arange(d).reshape(2, -1) if source == "half" else np.arange(d).reshape(-1, 2)
        perm[first : first + d] = first + pairs.T.ravel()
    return perm


def convert_layout(
    x: Array, *, source: str, target: str, rotary_dim: int | None = None, rotary_start: int = 0
) -> Array:
    """Return a copy of ``x`` with its channels moved from one layout to the other.

    Parameters
    ----------
    x : array (..., head_dim)
    source, target : {"interleaved", "half"}
        The layout of x and the layout of the result.
    rotary_dim, rotary_start : int
        The rotated channels, as in :func:`layout_permutation`; the others stay.

    Returns
    -------
    array (..., head_dim)
        In x's library, device and dtype.

    Raises
    ------
    TypeError, ValueError
        x is not an array, a layout is unknown, rotary_dim is odd, or the rotated channels do not
        fit into x's last axis.
    """
    if not is_array(x):
        raise TypeError(f"x must be an array, got {class_of(x)}")
    if not x.ndim:
        raise ValueError("x must have shape (..., head_dim), got ()")
    perm = layout_permutation(
        x.shape[-1], source=source, target=target, rotary_dim=rotary_dim, rotary_start=rotary_start
    )
    xp = namespace(x)
    return xp.take(x, from_host(perm, xp, device_of(x)), axis=-1)


def permute_weights(
    w: Array,
    n_heads: int,
    *,
    source: str = "half",
    target: str = "interleaved",
    head_dim: int | None = None,
    rotary_dim: int | None = None,
    rotary_start: int = 0,
) -> Array:
    """Return projection weights ``w`` with the channels of each head moved to another layout.

    Use it on q with the number of query heads and on k with the number of *key* heads; on a matrix
    that holds q, k and v together, use :func:`permute_fused_weights`.

    Parameters
    ----------
    w : array (n_heads * head_dim, hidden), or (n_heads * head_dim,)
        The weight of the projection, or its bias.
    n_heads : int
        Heads of this projection.
    source, target : {"interleaved", "half"}
        The layout of the heads in w and in the result.
    head_dim : int, optional
        The size of a head. None: the number of rows divided by n_heads, which is refused if w may
        hold q, k and v.
    rotary_dim, rotary_start : int
        The rotated channels of a head, as in :func:`layout_permutation`; the others stay.

    Returns
    -------
    array of the shape of w
        In w's library, device and dtype.

    Raises
    ------
    TypeError, ValueError
        w is not an array, a layout is unknown, w has not n_heads * head_dim rows, or the rotated
        channels do not fit into a head.

    Traps
        Without ``head_dim``, a quotient that is a power of two is taken for the size of a head
        unless the number of columns suggests a fused matrix: (16 + 8 + 8) * 128 rows are then read
        as 16 heads of 256. Pass ``head_dim``.
    """
    if not is_array(w):
        raise TypeError(f"w must be an array, got {class_of(w)}")
    n_heads = validate.integer("n_heads", n_heads, minimum=1)
    shape: Any = tuple(w.shape)
    rows = shape[0] if w.ndim else 0
    given = None if head_dim is None else validate.integer("head_dim", head_dim, minimum=2)
    if rows == 0 or rows % n_heads or (given is not None and rows != n_heads * given):
        product = (
            "head_dim" if given is None else f"head_dim = {n_heads} * {given} = {n_heads * given}"
        )
        raise ValueError(
            f"w must have n_heads * {product} rows, got shape {shape} for {n_heads} heads"
            + ("" if given is None else "; permute_fused_weights takes q, k and v in one matrix")
        )
    size = rows // n_heads
    if given is None:
        _refuse_fused(shape, n_heads)
    perm = layout_permutation(
        size, source=source, target=target, rotary_dim=rotary_dim, rotary_start=rotary_start
    )
    index = (np.arange(n_heads)[:, None] * size + perm).ravel()
    xp = namespace(w)
    return xp.take(w, from_host(index, xp, device_of(w)), axis=0)


def permute_fused_weights(
    w: Array,
    sizes: Sequence[int],
    *,
    head_dim: int,
    groups: int = 1,
    source: str = "half",
    target: str = "interleaved",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
) -> Array:
    """Return a fused q, k, v projection with the channels of q and k moved to another layout.

    Parameters
    ----------
    w : array (groups * sum(sizes), hidden), or (groups * sum(sizes),)
        The weight of the projection, or its bias.
    sizes : three int
        The rows of q, k and v in one group; those of q and k are multiples of head_dim. The rows of
        v stay.
    head_dim : int
        The size of a head.
    groups : int
        How often the rows of q, k and v repeat: 1 for all of q, then all of k, then all of v
        (Phi-3); the number of key heads where each follows its query heads (GPT-NeoX, InternLM2).
    source, target : {"interleaved", "half"}
        The layout of the heads in w and in the result.
    rotary_dim, rotary_start : int
        The rotated channels of a head, as in :func:`layout_permutation`; the others stay.

    Returns
    -------
    array of the shape of w
        In w's library, device and dtype.

    Raises
    ------
    TypeError, ValueError
        w is not an array or has not groups * sum(sizes) rows, sizes are not three multiples of
        head_dim, a layout is unknown, or the rotated channels do not fit into a head.
    """
    if not is_array(w):
        raise TypeError(f"w must be an array, got {class_of(w)}")
    head_dim = validate.integer("head_dim", head_dim, minimum=2)
    groups = validate.integer("groups", groups, minimum=1)
    if not isinstance(sizes, Sequence) or len(sizes) != 3:
        raise ValueError(f"sizes must be the rows of q, k and v in one group, got {shown(sizes)}")
    q, k, v = (validate.integer("sizes", size, minimum=1) for size in sizes)
    for name, size in (("q", q), ("k", k)):
        if size % head_dim:
            raise ValueError(
                f"sizes must be multiples of head_dim = {head_dim}, got {size} rows of {name}"
            )
    shape: Any = tuple(w.shape)
    if not w.ndim or shape[0] != groups * (q + k + v):
        raise ValueError(
            f"w must have groups * sum(sizes) = {groups} * {q + k + v} rows, got shape {shape}"
        )
    perm = layout_permutation(
        head_dim, source=source, target=target, rotary_dim=rotary_dim, rotary_start=rotary_start
    )
    index = np.arange(shape[0]).reshape(groups, -1)
    heads = index[:, : q + k].reshape(groups, -1, head_dim)
    index[:, : q + k] = heads[:, :, perm].reshape(groups, -1)
    xp = namespace(w)
    return xp.take(w, from_host(index.ravel(), xp, device_of(w)), axis=0)


def _refuse_fused(shape: tuple[int, ...], n_heads: int) -> None:
    """Raise ValueError if rows that n_heads divides may be those of q, k and v together.

    A fused matrix has ``(n_heads + 2 * n_kv) * d`` rows.  It is suspected if d is a power of two
    and the quotient ``rows / n_heads`` is not, or if d is ``hidden / n_heads``.
    """
    size = shape[0] // n_heads
    for n_kv in (n for n in range(1, n_heads + 1) if n_heads % n == 0):
        d, rest = divmod(shape[0], n_heads + 2 * n_kv)
        usual = d >= 8 and d & (d - 1) == 0 and size & (size - 1) != 0
        square = d % 2 == 0 and len(shape) > 1 and n_heads * d == shape[1]
        if rest == 0 and (usual or square):
            raise ValueError(
                f"head_dim must be given for n_heads = {n_heads} and {shape[0]} rows, which may be "
                f"heads of {size}, or q, k and v in one matrix (as query heads {n_heads}, "
                f"key heads {n_kv}, value heads {n_kv}, each of {d} rows): pass head_dim={size}, "
                "or use permute_fused_weights"
            )
