"""Expected outputs of every surface in 50-digit mpmath.

The registry has the formula of each encoding. The functions here compute the results of every
surface from it; :mod:`.exact_integers` has the surfaces that need no formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import Sinusoidal, Sinusoidal2D, T5Bias
from posenc_ref.conformance.exact import rotation
from posenc_ref.conformance.exact.digits import DIGITS, exact_bucket, mpmath, slope
from posenc_ref.conformance.exact.numbers import (
    Array,
    Number,
    Real,
    computed,
    exactly,
    identical,
    objects,
    sizes,
)
from posenc_ref.conformance.exact.output import Output
from posenc_ref.conformance.exact.reference import Entry
from posenc_ref.conformance.registry import entry_of
from posenc_ref.conformance.vectors.surfaces import SURFACES

from . import exact_integers as integers

Inputs = Mapping[str, Any]


def truths(surface: str, encoding: Any, inputs: Inputs) -> dict[str, Output]:
    """Return the expected outputs of a case by name."""
    with mpmath().mp.workdps(DIGITS):
        found = ROUTES[surface](encoding, inputs)
    parts = found if isinstance(found, tuple) else (found,)
    outputs = (
        part.output() if isinstance(part, Real)
        else part if isinstance(part, Output)
        else Output.integers(part)
        for part in parts
    )  # fmt: skip
    return dict(zip(SURFACES[surface].outputs, outputs, strict=True))


def registered(e: Any, inputs: Inputs, digits: int = DIGITS) -> Real:
    """Return the output of an encoding on the surface of its entry."""
    return _entry(e).truth(e, inputs, digits)


def _entry(e: Any) -> Entry:
    entry = entry_of(e)
    if entry is None:
        raise ValueError(f"{type(e).__name__} has no entry in conformance/registry")
    return entry


def _rotated(e: Any, x: np.ndarray, positions: Any = None, **how: Any) -> Real:
    """Return x rotated at positions, by default 0, 1, 2, ..."""
    at = np.arange(x.shape[2]) if positions is None else positions
    return rotation.rotate(_entry(e).exact, e, x, at, **how)


def _evicted(e: Any, k: np.ndarray, kept: int, dropped: int) -> Real:
    """Return the kept keys, and those after the dropped ones at ``dropped`` positions less."""
    left = np.delete(k, np.s_[kept : kept + dropped], axis=2)
    delta = np.where(np.arange(left.shape[2]) < kept, 0, -dropped)
    return _rotated(e, left, delta, again=True)


def _bucket(e: T5Bias, relative_position: np.ndarray) -> np.ndarray:
    settings = e.num_buckets, e.max_distance, e.bidirectional
    buckets = [exact_bucket(r, *settings) for r in relative_position.ravel().tolist()]
    return np.array(buckets).reshape(relative_position.shape)


def grid(e: Any, inputs: Inputs, digits: int = DIGITS) -> Real:
    """Return the encoding of every patch, one row each, with positions in 50 digits.

    B counts the rounding of the positions as part of the rounding of the angles.
    """
    h, w = inputs["height"], inputs["width"]
    tokens = range(h * w)
    if isinstance(e, Sinusoidal):
        return registered(e, {"positions": np.array(tokens)}, digits)
    by_columns = getattr(e, "flatten", "") == "columns"
    places = [divmod(t, h)[::-1] if by_columns else divmod(t, w) for t in tokens]
    with mpmath().mp.workdps(digits):
        positions = [(_placed(e, row, h), _placed(e, column, w)) for row, column in places]
    return registered(e, {"positions": np.array(positions, dtype=object).T}, digits)


def _placed(e: Any, i: int, n: int) -> Number:
    """Return the position of patch i of n on one axis."""
    mpf = mpmath().mp.mpf
    if isinstance(e, Sinusoidal2D):
        return mpf(i) if e.extent is None else i * mpf(e.extent) / n
    if not e.normalize:
        return mpf(i + 1)
    return mpf(e.scale) * (i + 1 + mpf(e.shift)) / (n + mpf(e.eps))


def _add(e: Any, x: np.ndarray) -> Real:
    """Return x + table, with A = |x| + |row|."""
    old = rotation.exact(x)
    rows = registered(e, {"positions": np.arange(x.shape[-2])})
    return Real(old + rows.value, sizes(old) + sizes(rows.value), objects(x.shape) + rows.angle)


def _scores(e: Any, inputs: Inputs) -> Real:
    """Return the logits of rotated q and k, or of q and k plus a bias, at positions 0 to S - 1.

    A is the sum of the absolute terms of the fully expanded product. Every pair of channels
    adds to B: B of q times the norm of k, plus B of k times the norm of q. Encodings of
    family "score" use the formula of their entry.
    """
    q, k = inputs["q"], inputs["k"]
    if e.family == "score":
        return registered(e, inputs)
    mp = mpmath().mp
    scale = 1 if isinstance(e, T5Bias) and not e.scaled else 1 / mp.sqrt(q.shape[-1])

    def products(a: Array, b: Array) -> Array:
        """Return the scaled dot product of every row of a with every row of b."""
        each = a[..., :, None, :] * b[..., None, :, :]
        return scale * np.apply_along_axis(mp.fsum, -1, each)

    if e.family != "rotary":
        x, y = rotation.exact(q), rotation.exact(k)
        added = registered(e, {"q_len": q.shape[2], "k_len": k.shape[2]})
        size = scale if e.bias_inside_scale else 1
        value = products(x, y) + size * added.value
        terms = products(sizes(x), sizes(y)) + size * added.terms
        return Real(value, terms, objects(value.shape))
    decay = int(hasattr(e, "decays"))
    both = _rotated(e, q, decay=decay), _rotated(e, k, decay=-decay)
    pairs = rotation.channels(e, len(_entry(e).exact(e, None)), written=True)
    first, second = map(list, zip(*pairs, strict=True))
    hypot = np.frompyfunc(mp.hypot, 2, 1)
    one, two = (hypot(x.value[..., first], x.value[..., second]) for x in both)
    moved_one, moved_two = (x.angle[..., first] for x in both)
    return Real(
        products(*(x.value for x in both)),
        products(*(np.maximum(x.terms, sizes(x.value)) for x in both)),
        products(moved_one, two) + products(one, moved_two),
    )


def _relative_shift(x: np.ndarray) -> Real:
    """Return x with a column for each key; keys after the query are not judged.

    Column c of x is for distance K - 1 - c, where K is the number of columns.
    """
    rows, keys = x.shape
    made, judged = np.zeros_like(x), np.zeros(x.shape, dtype=bool)
    for i in range(rows):
        at = keys - rows + i
        made[i, : at + 1], judged[i, : at + 1] = x[i, keys - 1 - at :], True
    return replace(identical(made), judged=judged)


def _relative_scores(q: np.ndarray, rel: np.ndarray) -> Real:
    """Return query times the vector of each offset; A = the sum of absolute products."""
    offsets = np.subtract.outer(range(len(q)), range(len(q)))
    products = rotation.exact(q)[:, None] * rotation.exact(rel)[len(q) - 1 - offsets]
    value, terms = (
        np.apply_along_axis(mpmath().mp.fsum, -1, x) for x in (products, sizes(products))
    )
    return Real(value, terms, objects(offsets.shape))


#: The function of each surface: it returns a Real, integers, or a tuple of these, one per output.
ROUTES: dict[str, Callable[[Any, Inputs], Any]] = {
    "apply": lambda e, i: _rotated(e, i["x"], i["positions"]),
    "apply_offset": lambda e, i: _rotated(
        e, i["x"], i["offset"][:, None] + np.arange(i["x"].shape[2])
    ),
    "decode": lambda e, i: _rotated(e, i["x"]),
    "key_cache": lambda e, i: _rotated(e, i["k"]),
    "apply_vjp": lambda e, i: _rotated(e, i["dy"], i["positions"], back=True),
    "shift_keys": lambda e, i: _rotated(
        e, i["k"], np.full(i["k"].shape[2], i["delta"]), again=True
    ),
    "evict_keys": lambda e, i: _evicted(e, **i),
    "normed_apply": lambda e, i: computed(
        _rotated(e, rotation.normed(i["x"], i["weight"]), i["positions"])
    ),
    "apply_queries": lambda e, i: _rotated(e, i["x"], i["positions"], decay=1),
    "apply_keys": lambda e, i: _rotated(e, i["x"], i["positions"], decay=-1),
    "cos_sin": lambda e, i: rotation.cos_sin(_entry(e).exact, e, i["positions"]),
    "frequencies": lambda e, i: rotation.frequencies(_entry(e).exact, e, i.get("seq_len")),
    "table": registered,
    "grid": grid,
    "add": lambda e, i: _add(e, i["x"]),
    "slopes": lambda e, i: exactly(
        [slope(i["num_heads"], head, e.max_bias) for head in range(i["num_heads"])]
    ),
    "bias": registered,
    "bucket": lambda e, i: _bucket(e, i["relative_position"]),
    "scores": _scores,
    "convert_layout": lambda e, i: identical(integers.convert_layout(**i)),
    "permute_weights": lambda e, i: identical(integers.permute_weights(**i)),
    "relative_shift": lambda e, i: _relative_shift(**i),
    "relative_scores": lambda e, i: _relative_scores(**i),
    "position_ids": lambda e, i: Output.integers(
        integers.position_ids(**i), i["attention_mask"] == 1
    ),
    "packed": lambda e, i: integers.packed(**i),
    "decode_positions": lambda e, i: integers.decode_positions(**i),
    "shard_positions": lambda e, i: integers.shard_positions(**i),
    "mrope_positions": lambda e, i: integers.mrope_positions(**i),
    "grid_positions": lambda e, i: integers.grid_positions(**i),
    "ids_from_tokens": lambda e, i: integers.ids_from_tokens(e, **i),
}
