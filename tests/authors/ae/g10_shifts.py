"""Transformer-XL's shift and scores by offset."""

import numpy as np


# --- right -------------------------------------------------------------------------------


def strided_shift(x):
    """y[i, j] = x[i, j + Q - 1 - i] through the strides of a padded copy."""
    q, k = x.shape
    flat = np.zeros(q * k + q, x.dtype)
    flat[: q * k] = x.reshape(-1)
    s = flat.strides[0]
    view = np.lib.stride_tricks.as_strided(flat[q - 1 :], (q, k), ((k - 1) * s, s))
    return view.copy()


# --- wrong -------------------------------------------------------------------------------


def square_shift(x):
    """Counts the roll from the number of keys: right without memory (Q = K) only."""
    q, k = x.shape
    out = np.empty_like(x)
    for i in range(q):
        out[i] = np.roll(x[i], -(k - 1 - i))
    return out


def skew_dropping_last(q, rel):
    """Conformer's rel_shift of 2S - 1 columns, with the zero column at the end."""
    s = q.shape[0]
    p = q @ rel.T
    p = np.concatenate([p, np.zeros((s, 1), p.dtype)], axis=1).reshape(2 * s, s)
    return p[1:].reshape(-1)[: s * (2 * s - 1)].reshape(s, 2 * s - 1)[:, :s]
