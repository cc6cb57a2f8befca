"""The pictures of an encoding or another declaration, each computed by the specification."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import (
    Attention,
    AxialLearned,
    Bias,
    BoxSine,
    ConvPositions,
    Encoding,
    ForgettingBias,
    FourierFeatures,
    Hybrid,
    Learned,
    MixedRoPE,
    MultiAxisRoPE,
    PositionRule,
    RoPE,
    Score,
    T5Bias,
)
from posenc_ref.conformance.configurations.plan import trained_length
from posenc_ref.encoding import Value

from . import declarations
from .picture import Line, Picture

#: The positions or tokens that a picture shows, unless the encoding has fewer or more are asked.
LENGTH = 128
#: The most cells along one side of a heat map, and the most heads drawn as lines.
MOST_CELLS, MOST_HEADS = 1024, 4
#: Every kind of picture, and what it shows.
KINDS = {
    "wavelengths": "the positions per turn of every pair of channels, against the trained length",
    "angles": "the cosine of the angle of every pair at every position",
    "decay": "the logit of a query and a key with equal content, by their distance",
    "rows": "the rows of a table",
    "similarity": "the products of the rows of a table with each other",
    "bias": "the bias of one head, for every query and key",
    "distances": "the bias of several heads, by the offset of the key",
    "buckets": "the bucket of every offset",
    "logits": "the logits of queries and keys with equal content, for every query and key",
    "weights": "the logarithms of the attention weights of equal content, for every query and key",
    "border": "how the result of a convolution differs near the border, for equal tokens",
    "numbering": "the positions of a prompt with an image, and of the tokens after it",
    "factor": "the factor on the query at every position",
}


def pictures(value: Value, length: int | None = None, head: int = 0) -> list[Picture]:
    """Return the pictures of an encoding or another declaration.

    Parameters
    ----------
    value : Encoding, Attention, ConvPositions, PositionRule or QueryScale
        What is drawn.
    length : int, optional
        How many positions or tokens to show; the prompt of a rule has its own.
    head : int
        The head of a heat map.

    Raises
    ------
    ValueError
        There is no such head, or the length is not one that can be drawn.
    """
    if length is not None and not 2 <= length <= MOST_CELLS * MOST_CELLS:
        raise ValueError(f"length must be from 2 to {MOST_CELLS * MOST_CELLS}, got {length}")
    if isinstance(value, Encoding):
        of_family = {"rotary": _rotary, "table": _table, "bias": _bias, "score": _score}
        return list(of_family[value.family](value, length, head))
    if isinstance(value, Attention):
        return [_attention(value, length, head)]
    if isinstance(value, ConvPositions):
        return [declarations.border(value, _cut(length))]
    if isinstance(value, PositionRule):
        return [declarations.numbering(value)]
    return [declarations.factor(value, length)]


def _attention(a: Attention, length: int | None, head: int) -> Picture:
    e: Any = a.encoding
    heads, tokens = getattr(e, "heads", None) or 1, None
    if isinstance(e, Bias):
        heads, tokens = e.num_heads, getattr(e, "tokens", None) or _tokens_of(e)
    elif isinstance(e, Score):
        tokens = e.rows
    return declarations.weights(a, _cut(length, tokens), _head(head, heads), heads)


def _cut(length: int | None, most: int | None = None) -> int:
    """Return the number of positions of a heat map."""
    wanted = LENGTH if length is None else length
    return max(1, min(wanted, MOST_CELLS, wanted if most is None else most))


def _rotary(e: Any, length: int | None, head: int) -> Iterator[Picture]:
    if not isinstance(e, MixedRoPE):
        yield _wavelengths(e, length)
    count = _cut(length)
    cos = np.asarray(e.cos_sin(np.arange(count))[0], np.float64)
    if cos.ndim == 3:  # a set of frequencies for each head
        cos = cos[_head(head, len(cos))]
    both = f", all {e.num_axes} axes alike" if e.num_axes > 1 else ""
    yield Picture(
        "angles", f"Cosine of each pair{both}", "pair", "position", cells=cos, cells_label="cos"
    )
    yield _decay(e, length)


def _wavelengths(e: Any, length: int | None) -> Picture:
    lines = []
    plain = e.replace(scaling=None) if getattr(e, "scaling", None) is not None else None
    seq_len = length if e.depends_on_length else None
    for label, one, size in (("declared", e, seq_len), ("without scaling", plain, None)):
        if one is not None:
            turning = np.abs(one.frequencies(size))
            pair = np.flatnonzero(turning)
            lines.append(Line(label, pair, 2 * np.pi / turning[pair]))
    trained = trained_length(e) if isinstance(e, RoPE | MultiAxisRoPE) else None
    marks = [("trained length", float(trained))] if trained else []
    marks += [("length", float(length))] if length else []
    return Picture(
        "wavelengths",
        "Wavelength of each pair",
        "pair",
        "positions per turn",
        tuple(lines),
        scale=("linear", "log"),
        marks=tuple(marks),
    )


def _decay(e: Any, length: int | None) -> Picture:
    """Return the logit of equal vectors, whose pairs all have length 1, over their number."""
    reach = np.unique(np.linspace(0, (length or 1024) - 1, 2048).astype(np.int64))
    first = np.asarray(e.pairs()[0])
    heads = e.heads if isinstance(e, MixedRoPE) and e.heads else 1
    one = np.zeros((heads, 1, e.head_dim))
    one[..., first] = 1.0
    every = np.broadcast_to(one, (heads, reach.size, e.head_dim))
    lines = []
    for axis in range(e.num_axes):
        at = np.zeros((e.num_axes, reach.size), np.int64)
        at[axis] = reach
        # The query comes last, as in a decoder: the key at distance d has the position last - d.
        at[axis] = reach[-1] - reach
        own = np.zeros((e.num_axes, 1), np.int64)
        own[axis] = reach[-1]
        given = (own[0], at[0]) if e.num_axes == 1 else (own, at)
        logits = np.asarray(e.scores(one, every, *given, scale=1.0 / len(first)), np.float64)
        label = "all pairs" if e.num_axes == 1 else f"axis {axis}"
        lines.append(Line(label, reach, logits[0, 0]))
    return Picture(
        "decay",
        "Logit of equal content",
        "distance of the key",
        "logit / number of pairs",
        tuple(lines),
    )


def _table(e: Any, length: int | None, head: int) -> Iterator[Picture]:
    rows, what = _patches(e, length) or _positions(e, length)
    yield Picture("rows", "Rows of the table", "channel", what, cells=rows, cells_label="value")
    yield Picture(
        "similarity", "Products of rows", what, what, cells=rows @ rows.T, cells_label="row . row"
    )


def _patches(e: Any, length: int | None) -> tuple[np.ndarray, str] | None:
    """Return the rows of a grid of patches, or None if the encoding has no grid."""
    if e.num_axes != 2:
        return None
    side = int(_cut(length) ** 0.5) if length else 14
    height, width = side, side
    if isinstance(e, AxialLearned):
        height, width = (min(side, len(table)) for table in e.tables)
    try:
        rows = np.asarray(e.grid(height, width), np.float64)
    except ValueError:  # coordinates of boxes or of points
        return None
    return rows, f"patch of a grid of {height} x {width}"


def _positions(e: Any, length: int | None) -> tuple[np.ndarray, str]:
    """Return the rows of the first positions, or of coordinates from 0 to 1; all axes alike."""
    parts = e.parts if isinstance(e, Hybrid) else (e,)
    own = [part.rows - part.offset for part in parts if isinstance(part, Learned)]
    own += [math.prod(map(len, part.tables)) for part in parts if isinstance(part, AxialLearned)]
    count = _cut(length, min(own, default=None))
    at: Any = np.arange(count)
    what = "position"
    if isinstance(e, BoxSine | FourierFeatures):
        at, what = np.linspace(0.0, 1.0, count), "coordinate from 0 to 1, in equal steps"
    if e.num_axes > 1:
        at, what = np.tile(at, (e.num_axes, 1)), f"{what} on all {e.num_axes} axes"
    return np.asarray(e.table(at), np.float64), what


def _bias(e: Any, length: int | None, head: int) -> Iterator[Picture]:
    head = _head(head, e.num_heads)
    tokens = getattr(e, "tokens", None) or _tokens_of(e)
    count = _cut(length, tokens)
    if getattr(e, "tokens", None):
        count = int(e.tokens)
    cells = np.array(e.bias(range(count), range(count), dtype="float64")[head], np.float64)
    cells[~np.isfinite(cells)] = np.nan
    if not e.sees_future:
        cells[np.triu_indices(count, 1)] = np.nan
    yield Picture("bias", f"Bias of head {head}", "key", "query", cells=cells, cells_label="bias")
    if not e.relative or tokens:
        return
    reach = length or LENGTH
    offsets = np.arange(-reach + 1, 1 if not e.sees_future else reach)
    values = np.asarray(e.toeplitz(reach, reach), np.float64)[:, : offsets.size]
    some = np.unique(np.linspace(0, e.num_heads - 1, MOST_HEADS).astype(int))
    yield Picture(
        "distances",
        "Bias by offset",
        "key position - query position",
        "bias",
        tuple(Line(f"head {h}", offsets, values[h]) for h in some),
    )
    if isinstance(e, T5Bias):
        yield Picture(
            "buckets",
            "Buckets",
            "key position - query position",
            "bucket",
            (Line("bucket", offsets, np.asarray(e.bucket(offsets))),),
            steps=True,
        )


def _tokens_of(e: Any) -> int | None:
    """Return the number of tokens of a bias that holds numbers of them."""
    return int(e.log_gates.shape[1]) if isinstance(e, ForgettingBias) else None


def _score(e: Any, length: int | None, head: int) -> Iterator[Picture]:
    heads = e.heads or 1
    head = _head(head, heads)
    count = int(e.rows) if e.holds_tokens and e.rows else _cut(length, e.rows)
    same = np.ones((1, heads, count, e.head_dim)) / e.head_dim**0.5
    at = np.arange(count)
    cells = np.array(e.scores(same, same, at, at, scale=1.0)[0, head], np.float64)
    if not e.sees_future:
        cells[np.triu_indices(count, 1)] = np.nan
    yield Picture(
        "logits",
        f"Logits of equal content, head {head}",
        "key",
        "query",
        cells=cells,
        cells_label="logit",
    )


def _head(head: int, heads: int) -> int:
    if not 0 <= head < heads:
        raise ValueError(f"head must be from 0 to {heads - 1}, got {head}")
    return head
