"""Identify logits with terms by offset: Shaw, Transformer-XL, ESPnet's legacy form and DeBERTa."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from posenc_ref import DeBERTa, ESPnetLegacy, Score, Shaw, Sinusoidal, TransformerXL
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused

from .buckets import log_rule
from .logits import Logits

#: Numbers of tokens of the calls that show the offsets, the first one that is accepted.
_LENGTHS = (257, 65, 17)
#: More tokens, for tables without an end in these calls.
_LONGER = (1025,)
#: The keys of a call with one query, if there may be fewer queries than keys.
_FAR = 2050
#: The largest error of a fit of sinusoids, relative to the largest value.
_NEAR = 2.0**-10
#: Widths of the sinusoids to try, apart from those that the sizes of heads suggest.
_WIDTHS = (8, 16, 32, 64, 128, 192, 256, 384)
#: More measured offsets than columns of sinusoids, so that a fit is no coincidence.
_MORE = 1.25


@dataclass(frozen=True)
class Vectors:
    """Factors by offset key - query, without the scale of q . k."""

    r: np.ndarray  #: the offsets, increasing, (R,)
    query: np.ndarray  #: those on the channels of the query, (H, R, d)
    key: np.ndarray  #: those on the channels of the key, (H, R, d)
    bias: np.ndarray  #: those of neither, (H, R)
    later: bool  #: whether later keys are visible

    @classmethod
    def of(cls, logits: Logits, scale: float, lengths: tuple[int, ...]) -> Vectors | None:
        """Return the factors from the first and the last row of a square call, and a longer row."""
        every, none = np.arange(logits.dim), np.full(logits.dim, -1)
        channels = (every, none), (none, every)
        for n in lengths:
            try:
                bias = logits.bias(n, n)[:, [-1, 0]]
                parts = [logits.edges(a, b, n) - bias for a, b in channels]
                break
            except (Refused, Malformed):
                continue
        else:
            return None
        later, r = bool(np.isfinite(bias[:, 1]).all()), np.arange(1 - n, n)
        if not np.isfinite(bias[:, 0]).all():
            return None
        if not later:
            r = r[:n]
        # The keys of the last query, then those after the first one.
        rows = [
            np.concatenate([y[..., 0, :], y[..., 1, 1 : n if later else 1]], axis=-1)
            for y in (bias, *parts)
        ]
        with suppress(Refused, Malformed):
            if logits.short and logits.at_end():
                far = [logits.bias(1, _FAR)[:, 0]]
                far += [logits.last(a, b, _FAR) - far[0] for a, b in channels]
                rows = [
                    np.concatenate([y[..., :-n], x], axis=-1)
                    for y, x in zip(far, rows, strict=True)
                ]
                r = np.concatenate([np.arange(1 - _FAR, 1 - n), r])
        query, key = (np.moveaxis(y, 0, -1) / (logits.size * scale) for y in rows[1:])
        return cls(r, query, key, rows[0] / scale, later)


def found(logits: Logits, scale: float, shapes: dict[str, str]) -> Score | None:
    """Return the encoding with the measured terms, or None.

    ``shapes`` says of each term "all" if it is the same everywhere, else "offsets".
    """
    terms = set(shapes)
    if "offsets" not in (shapes.get("query"), shapes.get("key") if len(terms) == 1 else ""):
        return None
    seen = Vectors.of(logits, scale, _LENGTHS)
    if seen is None:
        return None
    if terms == {"query"}:
        rough = ROUNDOFF[logits.run.coarse]
        three = abs(scale / (2 * logits.dim) ** -0.5 - 1) < 64 * rough
        return (
            (deberta(logits, seen, scale, three, None) if three else None)
            or shaw(seen)
            or relative_sinusoids(seen, logits.run.dtype)
            or longest(logits, scale)
        )
    if shapes.get("key") == "offsets":
        both = terms == {"query", "key"}
        return deberta(logits, seen, scale, both, seen.key) if both or len(terms) == 1 else None
    return relative_sinusoids(seen, logits.run.dtype)


def longest(logits: Logits, scale: float) -> Shaw | None:
    """Return Shaw's table if a longer call shows its ends."""
    seen = Vectors.of(logits, scale, _LONGER)
    return None if seen is None else shaw(seen)


def _ends(rows: np.ndarray) -> tuple[int, int]:
    """Return the first and the last row of the table (H, R, d) that later rows do not repeat."""
    same = (rows[:, 1:] == rows[:, :-1]).all(axis=(0, 2))
    changes = np.flatnonzero(~same)
    if not changes.size:
        return 0, 0
    return int(changes[0]), int(changes[-1]) + 1


def shaw(seen: Vectors) -> Shaw | None:
    """Return the table of clipped offsets, or None if no end is seen."""
    first, last = _ends(seen.query)
    if first == 0 or (seen.later and last == seen.r.size - 1):
        return None
    before = int(-seen.r[first])
    rows = seen.query[:, first : last + 1]
    if before < 0 or seen.r[last] < 0:
        return None
    table = rows[0] if (rows == rows[:1]).all() else rows
    return Shaw(table.astype(np.float32), before=before)


def deberta(
    logits: Logits, seen: Vectors, scale: float, keys: bool, queries: np.ndarray | None
) -> DeBERTa | None:
    """Return the tables by query minus key, clipped or in log buckets, or None."""
    parts = [seen.query if keys else None, queries]
    whole = np.concatenate([p for p in parts if p is not None], axis=2)
    first, last = _ends(whole)
    span = int(seen.r[last])  # the offset key - query from which all keys share row 0
    if first == 0 or last == seen.r.size - 1 or int(-seen.r[first]) != span - 1 or span < 1:
        return _in_buckets(logits, seen, scale, keys, queries is not None)
    tables = [None if p is None else p[:, last : first - 1 or None : -1] for p in parts]
    return DeBERTa(*(None if t is None else t.astype(np.float32) for t in tables))


def _in_buckets(
    logits: Logits, seen: Vectors, scale: float, keys: bool, queries: bool
) -> DeBERTa | None:
    """Return the tables of DeBERTa's log buckets, or None.

    A longer call shows the rows of the later keys that are past its ``max_position``.
    """
    parts = [seen.query] * keys + [seen.key] * queries
    whole = np.concatenate(parts, axis=2)[:, ::-1]
    apart = -seen.r[::-1]  # query minus key
    slack = 64 * ROUNDOFF["float32"] * np.abs(whole).max()
    other = (np.abs(np.diff(whole, axis=1)) > slack).any(axis=(0, 2))
    number = np.cumsum(np.r_[0, other])
    rule = log_rule(apart, number - number[apart == 0])
    if rule is None or rule.max_position is None:
        return None
    if apart[0] > -rule.max_position:
        more = Vectors.of(logits, scale, (rule.max_position + 1,)) if seen.later else None
        longer = more is not None and more.r[-1] > seen.r[-1]
        return _in_buckets(logits, more, scale, keys, queries) if more and longer else None
    rows, at = np.unique(np.asarray(rule.row(apart)), return_index=True)
    if rows.size < 2 * rule.span:  # no call shows the others
        return None
    tables = [p[:, ::-1][:, at].astype(np.float32) for p in parts]
    found = [tables.pop(0) if given else None for given in (keys, queries)]
    return DeBERTa(*found, buckets=rule.buckets, max_position=rule.max_position)


def relative_sinusoids(seen: Vectors, dtype: str) -> TransformerXL | None:
    """Return Transformer-XL's or ESPnet's encoding, whose projection gives the vectors, or None."""
    heads, count, d = seen.query.shape
    n = int(seen.r[-1]) + 1 if seen.later else count
    flat = seen.query.transpose(1, 0, 2).reshape(count, heads * d)
    best: tuple[float, Any, np.ndarray] | None = None
    size = np.abs(flat).max()
    for maker, sinusoid, places, used in _candidates(seen, heads, d, n):
        rows = sinusoid.table(places)
        fitted = np.linalg.lstsq(rows, flat[used], rcond=ROUNDOFF["float32"])[0]
        off = float(np.abs(rows @ fitted - flat[used]).max() / size)
        if best is None or off < best[0] / 4:
            best = off, (maker, sinusoid), fitted
        if off <= 64 * ROUNDOFF["float32"]:
            break
    if best is None or best[0] > _NEAR:
        return None
    (maker, sinusoid), fitted = best[1:]
    projection = fitted.reshape(-1, heads, d).transpose(1, 2, 0)
    content = seen.key[:, 0] if seen.key.any() else None
    position = None
    if seen.bias.any():
        pairs = zip(seen.query, seen.bias, strict=True)
        position = np.stack([np.linalg.lstsq(g, b, rcond=None)[0] for g, b in pairs])
        again = np.einsum("hrd,hd->hr", seen.query, position)
        if np.abs(again - seen.bias).max() > _NEAR * np.abs(seen.bias).max():
            return None
    kind = "float64" if dtype == "float64" else "float32"
    arrays = [None if a is None else a.astype(kind) for a in (projection, content, position)]
    return maker(*arrays, sinusoid=sinusoid)  # type: ignore[no-any-return]


def _symmetric(seen: Vectors) -> bool:
    """Return whether keys before and after the query have the same vectors."""
    ahead = seen.query[:, seen.r > 0]
    before = seen.query[:, np.isin(-seen.r, seen.r[seen.r > 0])][:, ::-1]
    slack = 64 * ROUNDOFF["float32"] * np.abs(seen.query).max()
    return bool((np.abs(ahead - before) <= slack).all())


def _candidates(
    seen: Vectors, heads: int, d: int, n: int
) -> Iterator[tuple[type[TransformerXL], Sinusoidal, np.ndarray, np.ndarray]]:
    """Yield an encoding, its sinusoid, the arguments of the sinusoid, and the offsets they are of.

    Narrow sinusoids come first: all their frequencies are among those of wider ones.
    """
    apart = -seen.r
    every = np.ones(apart.shape, bool)
    forms = [(TransformerXL, apart, every)]
    if seen.later and not seen.query[:, seen.r == 1].any():
        length = max(ESPnetLegacy.max_len, n)
        places = np.where(apart >= 0, apart + length - n, apart + length + 1)
        forms = [(ESPnetLegacy, places, apart != -1)]
    elif seen.later and _symmetric(seen):  # the check then says that later keys are wrong
        forms = [(TransformerXL, apart, apart >= 0)]
    for width, (maker, places, used) in product(sorted({*_WIDTHS, d, 2 * d, heads * d}), forms):
        if width % 2 == 0 and _MORE * width <= used.sum():
            for denominator in ("dim", "half-1") if width > 2 else ("dim",):
                yield maker, Sinusoidal(width, denominator=denominator), places[used], used
