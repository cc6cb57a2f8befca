"""The formulas of functions of relative positions, in steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.conformance.diagnosis.steps import Steps


def relative_index(s: Steps, encoding: Any, window: Any) -> np.ndarray:
    """Return the index of the offset of every two tokens of a window."""
    h, w = window
    token = np.arange(h * w)
    y, x = s.pick(
        "the tokens",
        (token // w, token % w),
        ("token-order", "are numbered column by column", (token % h, token // h)),
        ("token-order", "are split by the height, not by the width", (token // h, token % h)),
        ("token-order", "are split by w - 1, not by w",
         (token // max(w - 1, 1), token % max(w - 1, 1))),
        ("token-order", "are mixed: their coordinates (2, N) are reshaped to (N, 2), not "
         "transposed", tuple(np.indices((h, w)).reshape(-1, 2).T)),
        right="Number the tokens row by row: row = token // w, column = token % w.",
    )  # fmt: skip
    right = "Use dy + h - 1 and dx + w - 1 with their signs."
    parts, offsets = [], [place[:, None] - place for place in (y, x)]
    for name, letter, place, size in (("dy", "h", y, h), ("dx", "w", x, w)):
        d = place[:, None] - place
        parts.append(s.pick(
            name,
            d + size - 1,
            ("relative-symmetric", "is taken without its sign", np.abs(d)),
            ("relative-symmetric", "is taken as 0 where it is negative", np.maximum(d, 0)),
            ("relative-symmetric", "is taken as 0 where it is positive", np.minimum(d, 0)),
            ("relative-absolute", "is that of the key alone", place + 0 * d),
            ("relative-absolute", "is that of the query alone", place[:, None] + 0 * d),
            ("relative-absolute", "is the sum of both places, not their difference: the places of "
             "keys are counted from the other end", place[:, None] + place),
            ("index-collision", "is left out", 0 * d),
            ("index-collision", f"is taken modulo {letter}: the window has no edges", d % size),
            ("index-collision", f"is clamped to -({letter} // 2) .. {letter} // 2",
             np.clip(d, -(size // 2), size // 2) + size - 1),
            right=right,
        ))  # fmt: skip
    code = "index-collision"
    by = s.pick(
        "the factor of dy",
        2 * w - 1,
        *((code, f"is {words}, not 2w - 1: different offsets share an index", n)
          for words, n in (("w", w), ("h", h), ("2h - 1", 2 * h - 1), ("2w - 2", 2 * w - 2),
                           ("2h", 2 * h), ("h + w", h + w), ("h + w - 1", h + w - 1),
                           ("w - 1", w - 1), ("2h - 2", 2 * h - 2), ("1", 1), ("2w", 2 * w),
                           ("w + 1", w + 1), ("h + 1", h + 1))),
        right="Multiply dy by the number of values that dx can have, 2w - 1.",
    )  # fmt: skip
    index, rows = parts[0] * by + parts[1], (2 * h - 1) * (2 * w - 1)
    return np.asarray(s.pick(
        "the index",
        index,
        (code, "is that of dx times the factor, plus dy", parts[1] * by + parts[0]),
        (code, "is stored in 8 bits, which wrap round", index % 256),
        (code, "wraps round at (2h - 1) (2w - 1)", index % rows),
        (code, "is limited to (2h - 1) (2w - 1) - 1", np.minimum(index, rows - 1)),
        ("relative-symmetric", "is |dy| + |dx|: offsets of one length share it",
         sum(np.abs(d) for d in offsets)),
        ("relative-symmetric", "is dy ** 2 + dx ** 2: offsets of one length share it",
         sum(d * d for d in offsets)),
        ("relative-symmetric", "is the larger of |dy| and |dx|: offsets of one length share it",
         np.maximum(*map(np.abs, offsets))),
        right="Compute (dy + h - 1) * (2w - 1) + dx + w - 1.",
    ))  # fmt: skip


def _taken(x: np.ndarray, column: np.ndarray, s: Steps, right: str) -> np.ndarray:
    """Return the columns of every row of x; those past an end have another value."""
    n = x.shape[1]
    inside = (column >= 0) & (column < n)
    near = np.take_along_axis(x, np.clip(column, 0, n - 1), axis=1)
    flat = np.arange(len(x))[:, None] * n + column
    return np.asarray(s.pick(
        "a column past an end",
        near,
        ("relative-shift", "is 0", np.where(inside, near, 0.0)),
        ("relative-shift", "is counted from the other end",
         np.take_along_axis(x, column % n, axis=1)),
        ("relative-shift", "is that of the next or the last row, as in a reshape",
         x.ravel()[np.clip(flat, 0, x.size - 1)]),
        right=right,
    ))  # fmt: skip


def _moved(s: Steps, name: str, column: np.ndarray, right: str) -> np.ndarray:
    code = "relative-shift"
    moved: np.ndarray = s.pick(
        name,
        column,
        (code, "is one too large", column + 1),
        (code, "is one too small", column - 1),
        right=right,
    )
    return moved


def relative_shift(s: Steps, encoding: Any, x: Any) -> np.ndarray:
    """Return shifted scores (Q, K)."""
    x = np.asarray(x, np.float64)
    q, k = x.shape
    i, j = np.indices(x.shape)
    code, right = "relative-shift", "Take column Q - 1 - i + j of row i for query i and key j."
    column = s.pick(
        "the column of query i and key j",
        q - 1 - i + j,
        (code, "is j: nothing is shifted", j),
        (code, "is K - 1 - i + j, not Q - 1 - i + j", k - 1 - i + j),
        (code, "is i + j, not Q - 1 - i + j", i + j),
        (code, "is j - (Q - 1 - i): rows are shifted to the right", j - (q - 1 - i)),
        (code, "is K - Q + i - j: the nearest key comes first", k - q + i - j),
        (code, "is i - j, not Q - 1 - i + j", i - j),
        (code, "is j - i, not Q - 1 - i + j", j - i),
        (code, "is K - Q + j, not Q - 1 - i + j", k - q + j),
        (
            code,
            "is Q - 1 + j, not Q - 1 - i + j: a step of K, not of K - 1, between rows",
            q - 1 + j,
        ),
        ("relative-symmetric", "is Q - 1 - |i - j|, not Q - 1 - i + j", q - 1 - abs(i - j)),
        right=right,
    )
    value = _taken(x, _moved(s, "the column", column, right), s, right)
    return np.asarray(s.pick(
        "the scores",
        value,
        (code, "of the memory, the first K - Q keys, are 0", np.where(j < k - q, 0.0, value)),
        (code, "of keys from Q on are 0", np.where(j < q, value, 0.0)),
        (code, "have the opposite sign", -value),
        (code, "are those of the queries in the reverse order", value[::-1]),
        (code, "are those of the keys in the reverse order", value[:, ::-1]),
        right=right,
    ))  # fmt: skip


def relative_scores(s: Steps, encoding: Any, q: Any, rel: Any) -> np.ndarray:
    """Return q . rel for every pair of query and key."""
    q, rel = np.asarray(q, np.float64), np.asarray(rel, np.float64)
    q, rel = (
        s.pick(
            name,
            x,
            ("amplitude", "are divided by their norms", x / np.linalg.norm(x, axis=1)[:, None]),
            right="Multiply the queries by the rows of rel as they are passed.",
        )
        for name, x in (("the queries", q), ("the rows of rel", rel))
    )
    n = len(q)
    i, j = np.indices((n, n))
    code, right = "relative-shift", "Take row S - 1 - i + j of rel for query i and key j."
    row = s.pick(
        "the row of query i and key j",
        n - 1 - i + j,
        (code, "is S - 1 + i - j: rel is read in the reverse order", n - 1 + i - j),
        ("relative-symmetric", "is S - 1 - |i - j|", n - 1 - abs(i - j)),
        ("relative-symmetric", "is S - 1 + |i - j|", n - 1 + abs(i - j)),
        ("relative-absolute", "is j, the key's own position", j),
        ("relative-absolute", "is i, the query's own position", i),
        ("relative-absolute", "is S - 1 + j", n - 1 + j),
        ("relative-absolute", "is S - 1 - i", n - 1 - i),
        (code, "is S - 1 - min(i - j, 0)", n - 1 - np.minimum(i - j, 0)),
        (code, "is S - 1 - max(i - j, 0)", n - 1 - np.maximum(i - j, 0)),
        right=right,
    )
    value = _taken(q @ rel.T, _moved(s, "the row", row, right), s, right)
    root = float(q.shape[-1]) ** 0.5
    value = s.pick(
        "the product",
        value,
        ("softmax-scale", "is divided by sqrt(d)", value / root),
        ("softmax-scale", "is multiplied by sqrt(d)", value * root),
        ("softmax-scale", "is divided by d", value / root**2),
        (code, "has the opposite sign", -value),
        (code, "is doubled", 2 * value),
        right="Do not scale: relative_scores returns q . rel.",
    )
    return np.asarray(s.pick(
        "the scores",
        value,
        (code, "of keys after the query are 0", np.tril(value)),
        (code, "of keys up to the query are 0", np.triu(value, 1)),
        (code, "of keys before the query are 0", np.triu(value)),
        (code, "of the query's own key and of keys after it are 0", np.tril(value, -1)),
        (code, "are transposed: rows are keys", value.T),
        (code, "are those of the queries in the reverse order", value[::-1]),
        (code, "are those of the keys in the reverse order", value[:, ::-1]),
        right=right,
    ))  # fmt: skip
