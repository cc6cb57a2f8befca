"""Comparisons of rotated arrays, by rows or by channel pairs."""

import numpy as np

from posenc_ref.accuracy import Truth, budget


def close(actual, expected, dtype="float32"):
    """Return whether both agree within the tolerance of ``dtype``, relative to each row's norm."""
    actual, expected = (_float64(a) for a in (actual, expected))
    size = np.linalg.norm(expected, axis=-1, keepdims=True)
    truth = Truth(expected, np.broadcast_to(size, expected.shape), np.zeros(()))
    return actual.shape == expected.shape and truth.score(actual, dtype=dtype).max() <= budget(
        dtype
    )


def _float64(array):
    if hasattr(array, "detach"):  # a tensor
        array = array.detach().double()
    return np.asarray(array).astype(np.float64)


def rotation_error(encoding, x, positions, y, *, method="apply", seq_len=None):
    """Return the largest error of ``y`` in roundings of the norm of a pair.

    Channels that are not rotated must be equal: the error is infinite where they differ.
    """
    wide, size = x.astype(np.float64), np.zeros(x.shape)
    expected = getattr(encoding, method)(wide, positions, seq_len=seq_len)
    m = encoding.attention_factor(encoding._seq_len(seq_len, encoding._positions(positions)))
    first, second = encoding.pairs()
    norm = np.hypot(wide[..., first], wide[..., second])
    size[..., first] = size[..., second] = norm / m if method == "inverse" else norm * m
    truth = Truth(expected, size, np.zeros(()))
    return truth.score(np.asarray(y), dtype=str(x.dtype)).max(initial=0.0)
