"""Window indices, the shift trick, scores by offset."""

import numpy as np

from tests.mutants._case import correct, wrong


def offsets(window):
    """(dy, dx) of every pair of tokens."""
    h, w = window
    y, x = np.meshgrid(np.arange(h), np.arange(w), indexing="ij")
    c = np.stack([y.ravel(), x.ravel()])
    return c[:, :, None] - c[:, None, :]


# --- relative_index ------------------------------------------------------------------------------


@wrong(
    "index-collision", surface="relative_index", encoding=None, thread="class: factor of the axis"
)
def index_with_the_wrong_factor(window):
    """dy is multiplied by 2h - 1."""
    dy, dx = offsets(window)
    return (dy + window[0] - 1) * (2 * window[0] - 1) + dx + window[1] - 1


@wrong("relative-symmetric", surface="relative_index", encoding=None, thread="class: distance only")
def index_of_distances(window):
    """Absolute offsets."""
    dy, dx = offsets(window)
    return np.abs(dy) * window[1] + np.abs(dx)


@wrong(
    "relative-absolute", surface="relative_index", encoding=None, thread="class: a bias per pair"
)
def index_of_pairs(window):
    """Every pair has a parameter of its own."""
    n = window[0] * window[1]
    return np.arange(n * n).reshape(n, n)


@wrong("index-collision", surface="relative_index", encoding=None, thread="class: sum of offsets")
def index_of_sums(window):
    """The steps along both axes are added."""
    dy, dx = offsets(window)
    return dy + dx + sum(window) - 2


@wrong("token-order", surface="relative_index", encoding=None, thread="class: meshgrid xy")
def index_of_columns(window):
    """Tokens are numbered column by column."""
    h, w = window
    y, x = np.meshgrid(np.arange(h), np.arange(w))
    c = np.stack([y.ravel(), x.ravel()])
    dy, dx = c[:, :, None] - c[:, None, :]
    return (dy + h - 1) * (2 * w - 1) + dx + w - 1


@correct(surface="relative_index", encoding=None, thread="class: the other order of axes")
def index_by_columns_first(window):
    """dx is the slow axis, and key minus query: another numbering of the same offsets."""
    dy, dx = offsets(window)
    h, w = window
    return (w - 1 - dx) * (2 * h - 1) + h - 1 - dy


# --- relative_shift ------------------------------------------------------------------------------


def padded(x):
    """A column of zeros in front, reshaped to (K + 1, Q)."""
    q, k = x.shape
    return np.concatenate([np.zeros((q, 1), x.dtype), x], axis=1).reshape(k + 1, q)


@wrong(
    "relative-shift",
    surface="relative_shift",
    encoding=None,
    thread="labmlai/annotated_deep_learning_paper_implementations#185",
)
def shift_drops_the_last_row(x):
    """[:-1] for [1:]."""
    return padded(x)[:-1].reshape(x.shape)


@wrong(
    "relative-shift", surface="relative_shift", encoding=None, thread="class: distances reversed"
)
def shift_from_the_nearest(x):
    """Columns are taken for distances 0 .. K-1."""
    q, k = x.shape
    i, j = np.arange(q)[:, None], np.arange(k)
    return np.take_along_axis(x, np.clip(k - q + i - j, 0, k - 1), axis=1)


@wrong("relative-shift", surface="relative_shift", encoding=None, thread="class: rolled by the row")
def shift_by_the_row(x):
    """Row i is rolled by i."""
    return np.stack([np.roll(row, -i) for i, row in enumerate(x)])


@correct(surface="relative_shift", encoding=None, thread="class: the trick")
def shift_of_transformer_xl(x):
    """The first row dropped; later keys hold what the trick leaves there."""
    return padded(x)[1:].reshape(x.shape)


@correct(surface="relative_shift", encoding=None, thread="class: strided view")
def shift_by_strides(x):
    """Each row starts one element earlier than the one before."""
    q, k = x.shape
    flat = np.concatenate([x.ravel(), np.zeros(q + k, x.dtype)])
    step = flat.strides[0]
    view = np.lib.stride_tricks.as_strided(flat[q - 1 :], (q, k), ((k - 1) * step, step))
    return view.copy()


# --- relative_scores -----------------------------------------------------------------------------


def by_row(q, rel, row):
    """q_i . rel[row(i, j)]."""
    n = len(q)
    i, j = np.arange(n)[:, None], np.arange(n)
    return np.einsum("id,ijd->ij", q, rel[row(i, j, n)])


@wrong("relative-shift", surface="relative_scores", encoding=None, thread="espnet/espnet#2684")
def scores_by_the_causal_trick(q, rel):
    """The left-to-right trick in an encoder: later keys get the next row's scores."""
    n = len(q)
    x = q @ rel[:n].T
    return np.concatenate([np.zeros((n, 1), x.dtype), x], 1).reshape(n + 1, n)[1:].reshape(n, n)


@wrong(
    "relative-symmetric", surface="relative_scores", encoding=None, thread="class: distance table"
)
def scores_by_distance(q, rel):
    """Past and future share their rows."""
    return by_row(q, rel, lambda i, j, n: n - 1 - np.abs(i - j))


@wrong("relative-absolute", surface="relative_scores", encoding=None, thread="wenet-e2e/wenet#1611")
def scores_by_key(q, rel):
    """'Relative' by name: the row is that of the key's own position."""
    return by_row(q, rel, lambda i, j, n: j + 0 * i)


@wrong("relative-shift", surface="relative_scores", encoding=None, thread="espnet/espnet#2816")
def scores_of_a_reversed_table(q, rel):
    """The table runs from the future to the past."""
    return by_row(q, rel, lambda i, j, n: n - 1 + i - j)


@wrong("softmax-scale", surface="relative_scores", encoding=None, thread="class: scaled too early")
def scores_already_scaled(q, rel):
    """Divided by sqrt(d), although the sum of the terms is scaled later."""
    return by_row(q, rel, lambda i, j, n: n - 1 - i + j) / np.sqrt(q.shape[1]).astype(q.dtype)


@correct(surface="relative_scores", encoding=None, thread="espnet/espnet#2816")
def scores_of_conformer(q, rel):
    """The trick over all 2S - 1 offsets, cut to the first S."""
    n = len(q)
    x = q @ rel.T
    x = np.concatenate([np.zeros((n, 1), x.dtype), x], axis=1).reshape(2 * n, n)
    return x[1:].reshape(n, 2 * n - 1)[:, :n]
