"""Relative positions as matrices: window indices, Transformer-XL's shift, scores by offset.

Each function evaluates its formula directly. Model code often gets the same result faster, by
reshaping the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import check_place
from ._namespace import (
    FLOATING,
    Array,
    astype,
    class_of,
    device_of,
    dtype_name,
    from_host,
    is_array,
    namespace,
    send,
    widen,
)
from ._text import shown


def relative_row(dy: Array, dx: Array, h: int, w: int) -> Array:
    """Return the table row of offset (dy, dx) in an h x w window."""
    return (dy + h - 1) * (2 * w - 1) + dx + w - 1


def relative_index(window: Any, *, cls_token: bool = False) -> np.ndarray:
    """Return the row of the relative bias table for every pair of tokens in a window.

    Formula
        ``(dy + h - 1) (2w - 1) + dx + w - 1`` with ``dy = y_i - y_j`` and ``dx = x_i - x_j``, for
        tokens of an h x w window in row-major order.  With ``cls_token``, token 0 is [CLS], and
        the n = ``(2h - 1)(2w - 1) + 3`` rows end with those of its pairs: n - 3 for (0, j), n - 2
        for (i, 0), and n - 1 for (0, 0).
    Source
        Liu et al. 2021, *Swin Transformer*, arXiv:2103.14030, equation (4) and its code; with
        [CLS], the code of Bao et al. 2021, *BEiT*, arXiv:2106.08254.

    Parameters
    ----------
    window : int or (int, int)
        Height and width; one number means a square window.
    cls_token : bool
        Whether a token [CLS] comes before those of the window.

    Returns
    -------
    int64 array, shape (N, N)
        N is h w, and one more with ``cls_token``; from 0 to ``(2h - 1)(2w - 1) - 1``, or to
        n - 1.  Two pairs of tokens have the same row only if they have
        the same dy and the same dx.

    Raises
    ------
    TypeError, ValueError
        ``window`` is not one or two integers of at least 1.

    Traps
        The factor of dy is ``2w - 1``.  With ``2h - 1``, different offsets have the same row if the
        window is wider than high.
    """
    sizes = (window, window) if isinstance(window, int | np.integer) else window
    if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray) or len(sizes) != 2:
        raise TypeError(f"window must be (height, width) or one number, got {shown(window)}")
    h, w = (validate.integer(f"window[{a}]", n, minimum=1) for a, n in enumerate(sizes))
    validate.elements("the index", (h * w, h * w))
    y, x = np.divmod(np.arange(h * w), w)
    dy, dx = y[:, None] - y, x[:, None] - x
    rows = np.asarray(relative_row(dy, dx, h, w))
    if not cls_token:
        return rows
    index = np.pad(rows, ((1, 0), (1, 0)))
    first = (2 * h - 1) * (2 * w - 1)
    index[0], index[:, 0], index[0, 0] = first, first + 1, first + 2
    return index


def relative_shift(x: Array) -> Array:
    """Return scores with one column per key from scores with one column per distance.

    Transformer-XL's ``_rel_shift`` does the same.

    Formula
        ``y[i, j]`` belongs to query i and key j.  It is ``x[i, Q - 1 - i + j]`` for keys
        ``j <= K - Q + i``, and 0 for keys after the query, where ``_rel_shift`` leaves other
        values.
    Source
        Dai et al. 2019, *Transformer-XL*, arXiv:1901.02860, appendix B.

    Parameters
    ----------
    x : array (..., Q, K)
        Column c is the score at distance ``K - 1 - c`` (query minus key); query i is at position
        ``K - Q + i``.

    Returns
    -------
    array (..., Q, K)
        In x's library, device and dtype.

    Raises
    ------
    TypeError, ValueError
        ``x`` is not a real floating array, or has more queries than keys.

    Traps
        ``_rel_shift`` reshapes to (K + 1, Q) and drops the *first* row, not the last.  Its result
        needs a causal mask: for keys after query i it holds 0 or scores of query i + 1.
    """
    x = _floating("x", x)
    if x.ndim < 2 or x.shape[-1] < x.shape[-2]:
        raise ValueError(f"x must have shape (..., Q, K) with Q <= K, got {tuple(x.shape)}")
    q, k = int(x.shape[-2]), int(x.shape[-1])
    i, j = np.arange(q)[:, None], np.arange(k)
    column = q - 1 - i + j
    return _gathered(x, np.minimum(column, k - 1), column < k)


def relative_scores(q: Array, rel: Array) -> Array:
    """Return ``q_i . r_(i-j)`` for every query i and key j, also for keys after the query.

    Formula
        ``y[i, j] = q[i] . rel[S - 1 - (i - j)]``
    Source
        Shaw et al. 2018, arXiv:1803.02155, equation (4), without clipping of offsets.  Conformer
        (Gulati et al. 2020, arXiv:2005.08100) has the same order of rows in ``rel``.

    Parameters
    ----------
    q : array (..., S, d)
    rel : array (2S - 1, d)
        Row m belongs to the offset ``i - j = S - 1 - m``, from S - 1 down to -(S - 1).

    Returns
    -------
    array (..., S, S), not scaled
        In q's library, device and dtype; computed in float64 (float32 if the device has no
        float64) and rounded once.

    Raises
    ------
    TypeError, ValueError
        The arguments are not float arrays, or ``rel`` does not have 2S - 1 rows of size d.
    """
    q, rel = _floating("q", q), _floating("rel", rel)
    if q.ndim < 2:
        raise ValueError(f"q must have shape (..., S, d), got {tuple(q.shape)}")
    size = int(q.shape[-2])
    if tuple(rel.shape) != (2 * size - 1, int(q.shape[-1])):
        raise ValueError(
            f"rel must have shape (2S - 1, d) = {(2 * size - 1, int(q.shape[-1]))} to go with q of "
            f"shape {tuple(q.shape)}, got {tuple(rel.shape)}"
        )
    check_place("rel", rel, "q", q)
    xp, rel = namespace(q), send(rel, namespace(q), device_of(q))
    by_offset = xp.matmul(widen(q), xp.matrix_transpose(widen(rel)))
    i, j = np.arange(size)[:, None], np.arange(size)
    index = size - 1 - i + j
    return astype(_gathered(by_offset, index, np.ones(index.shape, dtype=bool)), q.dtype)


def _floating(name: str, x: Any) -> Array:
    if not is_array(x) or dtype_name(x) not in FLOATING:
        raise TypeError(f"{name} must be a real floating array, got {class_of(x)}")
    return x


def _gathered(x: Array, column: np.ndarray, kept: np.ndarray) -> Array:
    """Return ``x[..., i, column[i, j]]`` where ``kept``, else 0."""
    xp, device = namespace(x), device_of(x)
    rows, columns = int(x.shape[-2]), int(x.shape[-1])
    flat = xp.reshape(x, (*x.shape[:-2], rows * columns))
    index = from_host((np.arange(rows)[:, None] * columns + column).ravel(), xp, device)
    taken = xp.reshape(xp.take(flat, index, axis=-1), (*x.shape[:-2], *column.shape))
    return xp.where(from_host(kept, xp, device), taken, xp.zeros_like(taken))
