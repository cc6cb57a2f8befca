"""Plain functions of relative positions: window index, shift, relative scores.

Error unit (see :mod:`posenc_ref.accuracy`) of ``relative_scores``: A = sum of ``|q| |rel|`` over
channels, B = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import failed
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.position_mistakes import WHOLE_POSITION, tiled
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.probes import dense
from posenc_ref.conformance.harness.report import NOTE
from posenc_ref.conformance.harness.run import Run

from .function import NO_CAUSE, Arguments, Function, Plain, several, written

#: The last window has more offsets than 8 bits can number.
WINDOWS = ((2, 2), (2, 3), (3, 2), (1, 5), (4, 4), (7, 7), (3, 9), (8, 2), (9, 10), (5, 27))
#: Numbers of tokens just past the blocks of 32, 64 and 128 in which functions work.
PAST_BLOCKS = (33, 65, 130)


def _windows(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    for h, w in WINDOWS:
        yield Arguments(f"{h} x {w}", ((h, w),))


def classes(index: np.ndarray) -> np.ndarray:
    """Replace every element by the index of the first element that equals it."""
    _, first, inverse = np.unique(index, return_index=True, return_inverse=True)
    return np.asarray(first[inverse].reshape(index.shape), dtype=np.float64)


def _rows_of_a_table(run: Run, results: Sequence[tuple[tuple[Any, ...], np.ndarray]]) -> None:
    """Note indices that are no rows of a table with a row for each offset.

    Any numbers that tell offsets apart conform: only the table that is used says which are right.
    """
    apart = []
    for ((h, w),), index in results:
        rows, low, high = (2 * h - 1) * (2 * w - 1), int(index.min()), int(index.max())
        if low < 0 or high >= rows:
            apart.append(f"{low} .. {high} for {h} x {w}, whose rows are 0 .. {rows - 1}")
    if not apart:
        return
    run.add(
        "table-offset",
        f"in {len(apart)} of {len(results)} windows (h, w), some indices are no rows of a table "
        "with (2h - 1)(2w - 1) rows: a negative one counts from the end of the table, and a larger "
        "one is out of bounds",
        "; ".join(apart[:3]),
        severity=NOTE,
    )


def _offsets(window: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    y, x = np.divmod(np.arange(window[0] * window[1]), window[1])
    return y[:, None] - y, x[:, None] - x


def _index_mistakes(encoding: Any) -> Iterator[Mistake]:
    def of(formula: Function) -> Function:
        return lambda window: formula(*_offsets(window), *window)

    def collision(message: str, formula: Function) -> tuple[Any, ...]:
        text = f"different offsets share an index: {message}"
        remedy = "Multiply dy by the number of values that dx can have, 2w - 1."
        return "index-collision", text, of(formula), remedy

    yield from several(
        ("relative-symmetric",
         "an offset and its opposite share an index: absolute values are taken",
         of(lambda dy, dx, h, w: np.abs(dy) * w + np.abs(dx)),
         "Use dy + h - 1 and dx + w - 1, not absolute values: the sign tells left from right."),
        *_without_sign(of),
        collision("dy is multiplied by 2h - 1, the number of its own values",
                  lambda dy, dx, h, w: (dy + h - 1) * (2 * h - 1) + dx + w - 1),
        collision("dy is multiplied by w", lambda dy, dx, h, w: (dy + h - 1) * w + dx + w - 1),
        collision("dy is multiplied by 2w - 2",
                  lambda dy, dx, h, w: (dy + h - 1) * (2 * w - 2) + dx + w),
        collision("dy is multiplied by h", lambda dy, dx, h, w: (dy + h - 1) * h + dx + w - 1),
        collision("dy is multiplied by 2h", lambda dy, dx, h, w: (dy + h - 1) * 2 * h + dx + w - 1),
        collision("dy is multiplied by 2w", lambda dy, dx, h, w: (dy + h - 1) * 2 * w + dx + w - 1),
        collision("dy and dx are added", lambda dy, dx, h, w: dy + dx),
        collision("dx is multiplied by 2w - 1, and dy is added",
                  lambda dy, dx, h, w: dy + h - 1 + (dx + w - 1) * (2 * w - 1)),
        collision("dy is left out", lambda dy, dx, h, w: dx),
        collision("dx is left out", lambda dy, dx, h, w: dy),
        ("index-collision", "the index is stored in 8 bits, which wrap round: indices that differ "
         "by 256 are one", of(lambda dy, dx, h, w: ((dy + h - 1) * (2 * w - 1) + dx + w - 1) % 256),
         "Store the index in integers of at least 32 bits."),
        ("token-order", "tokens are numbered column by column",
         _by_columns),
        ("relative-absolute", "every pair of tokens has an index of its own",
         of(lambda dy, dx, h, w: np.arange(dy.size).reshape(dy.shape))),
        ("relative-absolute", "the index depends on the key only, not on the query",
         of(lambda dy, dx, h, w: np.indices(dy.shape)[1])),
        ("relative-absolute", "the index depends on the query only, not on the key",
         of(lambda dy, dx, h, w: np.indices(dy.shape)[0])),
    )  # fmt: skip


def _without_sign(of: Callable[[Function], Function]) -> Iterator[tuple[Any, ...]]:
    """Yield indices that lose the sign of the offset on one axis."""
    for axis, name in enumerate(("dy", "dx")):
        places = ("above and below", "left and right of")[axis]
        for words, change in (
            (f"keys {places} the query share an index: {name} is taken without its sign", np.abs),
            (f"a negative {name} is taken as 0", partial(np.maximum, 0)),
            (f"a positive {name} is taken as 0", partial(np.minimum, 0)),
        ):

            def index(
                dy: np.ndarray, dx: np.ndarray, h: int, w: int, axis: int = axis, of: Any = change
            ) -> np.ndarray:
                d = [dy, dx]
                d[axis] = of(d[axis])
                return np.asarray((d[0] + h - 1) * (2 * w - 1) + d[1] + w - 1)

            yield (
                "relative-symmetric",
                words,
                of(index),
                (
                    f"Use {name} + {'hw'[axis]} - 1 with the sign of {name}: it tells the keys "
                    f"{places} the query apart."
                ),
            )


def _offsets_apart(run: Run, calls: Sequence[JudgedCall]) -> None:
    """Report two offsets that share an index, or an offset that has several."""
    one, *others = failed(run, calls)
    ((h, w),) = one.facts.arguments
    dy, dx = (d.ravel() for d in _offsets((h, w)))
    actual, right = (a.ravel().astype(int) for a in (one.actual, one.truth.value))
    n = int(np.flatnonzero(actual != right)[0])
    shared = actual[n] != n  # by the first pair of tokens with this index
    m = int(actual[n] if shared else right[n])
    text = f"(dy, dx) = ({dy[n]}, {dx[n]}) has several indices: it depends on more than the offset"
    if right[m] != right[n]:
        text = f"(dy, dx) = ({dy[m]}, {dx[m]}) and ({dy[n]}, {dx[n]}) share an index"
    count = plural(1 + len(others), "result is", "results are", len(calls))
    pairs = (divmod(i, h * w) for i in (m, n))
    run.add(
        "index-collision",
        f"{count} wrong, and {NO_CAUSE} {'them' if others else 'it'}: in a window of "
        f"{h} x {w}, {text}",
        " and ".join(f"query {q}, key {k}" for q, k in pairs) + run.where(extent=True),
        remedy="Use the index (dy + h - 1) (2w - 1) + dx + w - 1, dy and dx being query minus key.",
    )


def _by_columns(window: tuple[int, int]) -> np.ndarray:
    """Return the window index for tokens numbered column by column."""
    order = np.arange(window[0] * window[1]).reshape(window).T.ravel()
    return np.asarray(pr.relative_index(window))[np.ix_(order, order)]


def _shifted(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    for q, k in ((2, 2), (1, 1), (3, 3), (5, 5), (9, 9), *((n, n) for n in PAST_BLOCKS)):
        yield Arguments(f"Q = {q}, K = {k}", (dense((q, k), seed + q),))
    for q, k in ((2, 5), (1, 6), (3, 8)):
        yield Arguments(f"Q = {q}, K = {k}, with memory", (dense((q, k), seed + k),), False)


def _visible(arguments: tuple[Any, ...]) -> np.ndarray:
    q, k = arguments[0].shape
    return np.asarray(np.arange(k) <= k - q + np.arange(q)[:, None])


def _trick(x: np.ndarray, rows: slice) -> np.ndarray:
    q, k = x.shape
    padded = np.concatenate([np.zeros((q, 1)), x], axis=1).reshape(k + 1, q)
    return np.asarray(padded[rows].reshape(q, k))


def _appended(x: np.ndarray, rows: slice) -> np.ndarray:
    q, k = x.shape
    padded = np.concatenate([x, np.zeros((q, 1))], axis=1).reshape(k + 1, q)
    return np.asarray(padded[rows].reshape(q, k))


def _lower(x: np.ndarray) -> np.ndarray:
    """Return where a column is at most the number of the row."""
    return np.asarray(np.tri(*x.shape) == 1)


def _pick(x: np.ndarray, columns: int, index: Function) -> np.ndarray:
    """Return ``x[i, index(i, j)]`` for j < ``columns``, with indices clamped to the valid range."""
    i, j = np.ogrid[: len(x), :columns]
    at = np.clip(index(i, j), 0, x.shape[1] - 1)
    return np.take_along_axis(x, np.broadcast_to(at, (len(x), columns)), axis=1)


def _taken(column: Function) -> Function:
    return lambda x: _pick(x, x.shape[1], lambda i, j: column(i, j, *x.shape))


def _or_0(column: Function) -> Function:
    """Return a function that picks columns, and gives 0 where there is no such column."""

    def picked(x: np.ndarray) -> np.ndarray:
        at = column(*np.indices(x.shape), *x.shape)
        return np.where((at >= 0) & (at < x.shape[1]), _pick(x, x.shape[1], lambda i, j: at), 0.0)

    return picked


def _shift_mistakes(encoding: Any) -> Iterator[Mistake]:
    for message, function in (
        ("the last row is dropped instead of the first", lambda x: _trick(x, slice(None, -1))),
        ("the column of zeros is appended, not put in front, and the last row is dropped",
         lambda x: _appended(x, slice(None, -1))),
        ("the column of zeros is appended, not put in front",
         lambda x: _appended(x, slice(1, None))),
        ("nothing is shifted", lambda x: x),
        ("one column too far", _taken(lambda i, j, q, k: q - i + j)),
        ("one column too little", _taken(lambda i, j, q, k: q - 2 - i + j)),
        ("rows are shifted by i, not by Q - 1 - i", _taken(lambda i, j, q, k: i + j)),
        ("rows are shifted to the right", _taken(lambda i, j, q, k: j - (q - 1 - i))),
        ("rows are rolled: the first columns follow the last ones",
         lambda x: np.stack([np.roll(r, -(len(x) - 1 - i)) for i, r in enumerate(x)])),
        ("rows are rolled by K - 1 - i, not by Q - 1 - i",
         lambda x: np.stack([np.roll(r, i + 1 - x.shape[1]) for i, r in enumerate(x)])),
        ("column c is read as distance c, with the nearest key first",
         _taken(lambda i, j, q, k: k - q + i - j)),
        ("rows are shifted by K - 1 - i, not by Q - 1 - i, and end with zeros",
         _or_0(lambda i, j, q, k: k - 1 - i + j)),
        ("one column too far, and rows end with zeros", _or_0(lambda i, j, q, k: q - i + j)),
        ("one column too little, and rows begin with zeros",
         _or_0(lambda i, j, q, k: q - 2 - i + j)),
        ("rows are shifted by i, not by Q - 1 - i, and end with zeros",
         _or_0(lambda i, j, q, k: i + j)),
        ("only columns 0 .. i of row i are filled, as without memory: later visible keys get 0",
         lambda x: np.where(_lower(x), pr.relative_shift(x), 0.0)),
        ("only columns 0 .. i of row i are shifted, as without memory: the others stay as they are",
         lambda x: np.where(_lower(x), pr.relative_shift(x), x)),
        ("only the first Q columns are filled: later keys get 0",
         lambda x: np.where(np.arange(x.shape[1]) < len(x), pr.relative_shift(x), 0.0)),
        ("the keys of the memory, the first K - Q columns, get 0",
         lambda x: np.where(np.arange(x.shape[1]) < x.shape[1] - len(x), 0.0,
                            pr.relative_shift(x))),
        ("the offset is taken without its sign: keys after position i get the score of the keys "
         "as far before it", _taken(lambda i, j, q, k: q - 1 - abs(i - j))),
        ("query i has position i: the keys of the memory are not counted",
         _taken(lambda i, j, q, k: k - 1 - i + j)),
    ):  # fmt: skip
        remedy = "Take column Q - 1 - i + j of row i as the score of query i and key j."
        yield written("relative-shift", message, function, remedy)


def _scored(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    for size, d in ((2, 4), (3, 4), (1, 8), (5, 8), (16, 16), *((n, 4) for n in PAST_BLOCKS)):
        q, rel = dense((size, d), seed + size), dense((2 * size - 1, d), seed + 40 + size)
        yield Arguments(f"S = {size}, d = {d}", (q, rel))


def _score_truth(encoding: Any, arguments: tuple[Any, ...], value: np.ndarray) -> Truth:
    q, rel = arguments
    terms = np.asarray(pr.relative_scores(np.abs(q), np.abs(rel)))
    every = np.abs(q) @ np.abs(rel).T  # a mistake may use any row
    terms = np.where(value == pr.relative_scores(q, rel), terms, every.max(axis=-1)[:, None])
    return Truth(value, terms, np.zeros_like(value))


def _by_row(row: Function) -> Function:
    return lambda q, rel: _pick(q @ rel.T, len(q), lambda i, j: row(i, j, len(q)))


def _placed(place: Callable[[np.ndarray], np.ndarray], of_queries: bool) -> Function:
    """Return the scores at other positions of queries, or of keys."""

    def scores(q: np.ndarray, rel: np.ndarray) -> np.ndarray:
        at = [np.arange(len(q)), np.arange(len(q))]
        at[not of_queries] = place(at[not of_queries])
        rows = len(q) - 1 - at[0][:, None] + at[1]
        if rows.min() < 0 or rows.max() > 2 * len(q) - 2:
            raise ValueError("no such rows")
        return np.take_along_axis(q @ rel.T, rows.astype(int), axis=1)

    return scores


def _relative_to_absolute(
    q: np.ndarray, rel: np.ndarray, first: Callable[[int], int]
) -> np.ndarray | None:
    """Return S columns, from ``first(S)`` on, of the scores after padding and reshape.

    Row i of the reshaped scores is moved by S - 1 - i columns.
    """
    n = len(q)
    if first(n) < 0:
        return None
    padded = np.concatenate([q @ rel.T, np.zeros((n, 1))], axis=1).ravel()
    wide = np.concatenate([padded, np.zeros(n - 1)]).reshape(n + 1, 2 * n - 1)
    return np.asarray(wide[:n, first(n) : first(n) + n])


def _skewed(q: np.ndarray, rel: np.ndarray, *, right: bool, rows: slice, last: bool) -> np.ndarray:
    """Return S columns of the scores with a column of zeros, reshaped to (2S, S), less one row."""
    n = len(q)
    padded = np.pad(q @ rel.T, ((0, 0), (0, 1) if right else (1, 0))).reshape(2 * n, n)
    kept = padded[rows].reshape(n, 2 * n - 1)
    return np.asarray(kept[:, n - 1 :] if last else kept[:, :n])


def _skews() -> Iterator[tuple[Any, ...]]:
    """Yield scores that are padded, reshaped to (2S, S) and cut in another way than declared."""
    remedy = (
        "Put the column of zeros in front of the 2S - 1 columns, reshape to (2S, S), drop the "
        "first row, reshape to (S, 2S - 1) and keep the first S columns."
    )
    for right, dropped, last in product((False, True), ("first", "last"), (False, True)):
        if (right, dropped, last) == (False, "first", False):
            continue
        said = [
            "the column of zeros is appended, not put in front" * right,
            "the last row of the reshaped scores is dropped, not the first" * (dropped == "last"),
            "the last S columns are kept, not the first" * last,
        ]
        rows = slice(1, None) if dropped == "first" else slice(None, -1)
        of = partial(_skewed, right=right, rows=rows, last=last)
        yield "relative-shift", "; ".join(filter(None, said)), of, remedy


def _score_mistakes(encoding: Any) -> Iterator[Mistake]:
    right = "Take row S - 1 - i + j of rel as the relative vector of query i and key j."
    return several(
        ("relative-symmetric", "a later key gets the row of the earlier key at the same distance",
         _by_row(lambda i, j, n: n - 1 - abs(i - j)), right),
        ("relative-symmetric", "an earlier key gets the row of the later key at the same distance",
         _by_row(lambda i, j, n: n - 1 + abs(i - j)), right),
        ("relative-absolute", "the row is that of the key's own position",
         _by_row(lambda i, j, n: j), right),
        ("relative-absolute", "the row is S - 1 plus the key's own position",
         _by_row(lambda i, j, n: n - 1 + j), right),
        ("relative-absolute", "the row is that of the query's own position",
         _by_row(lambda i, j, n: i), right),
        ("relative-shift",
         "the shift for causal attention is used: later keys get scores of the next query",
         lambda q, rel: _trick(q @ rel[: len(q)].T, slice(1, None)),
         "Keys after the query need the rows of negative offsets: 2S - 1 of them."),
        ("relative-shift", "only keys up to the query get scores: later keys get 0",
         lambda q, rel: np.tril(pr.relative_scores(q, rel)), right),
        ("relative-shift", "only keys after the query get scores: those up to it get 0",
         lambda q, rel: np.triu(pr.relative_scores(q, rel), 1), right),
        ("relative-shift", "rel is read in the reverse order",
         _by_row(lambda i, j, n: n - 1 + i - j), right),
        ("relative-shift", "rel is read one row too late",
         _by_row(lambda i, j, n: n - i + j), right),
        ("relative-shift", "rel is read one row too early",
         _by_row(lambda i, j, n: n - 2 - i + j), right),
        *(("relative-shift", f"the rows of rel are clamped: row {words} never read",
           _by_row(lambda i, j, n, a=low, b=high: np.clip(n - 1 - i + j, a, 2 * n - 2 - b)), right)
          for words, low, high in (
              ("0 is", 1, 0), ("2S - 2 is", 0, 1), ("0 and row 2S - 2 are", 1, 1))),
        ("relative-shift", "queries and keys are exchanged in the result",
         lambda q, rel: np.asarray(pr.relative_scores(q, rel)).T,
         "Transpose the result: rows are queries, columns are keys."),
        *(("relative-shift", f"after the padding and the reshape columns {words} are kept, not "
           "S - 1 .. 2S - 2", partial(_relative_to_absolute, first=first), right)
          for words, first in (("0 .. S - 1", lambda n: 0), ("S - 2 .. 2S - 3", lambda n: n - 2))),
        ("softmax-scale", "scores are divided by sqrt(d)",
         lambda q, rel: np.asarray(pr.relative_scores(q, rel)) / np.sqrt(q.shape[-1]),
         "Do not scale: relative_scores returns q . rel."),
        *(("relative-shift", text, _placed(place, of_queries), WHOLE_POSITION)
          for what, of_queries in (("queries", True), ("keys", False))
          for text, place in tiled(what, max(PAST_BLOCKS))),
        *_skews(),  # some give the numbers of a simpler cause
    )  # fmt: skip


RELATIVE_ROWS = {
    "relative_index": Plain(
        _windows,
        _index_mistakes,
        "index-collision",
        meaning=classes,
        remark=_rows_of_a_table,
        closer=_offsets_apart,
    ),
    "relative_shift": Plain(
        _shifted, _shift_mistakes, "relative-shift", integers=False, judged=_visible
    ),
    "relative_scores": Plain(
        _scored, _score_mistakes, "relative-shift", integers=False, truth=_score_truth
    ),
}
