"""Known mistakes of calls with queries and keys: wrong positions of either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import MultiAxisRoPE, RoPE, Rotary, XPos
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake, each_part, with_value
from posenc_ref.conformance.diagnosis.position_mistakes import (
    PLACES,
    WHOLE_POSITION,
    batch,
    heads,
    tiled,
)
from posenc_ref.conformance.oracle.apply import identical
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES

from .cases_qk import Side

#: A function that returns the positions a mistake uses, or None where it is impossible.
Positions = Callable[[Side], np.ndarray | None]


def qk_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    """Yield the known mistakes of calls with queries and keys, likely ones first."""

    def at(positions: Positions, only: bool | None = None) -> Callable[[Side], Truth | None]:
        """Return a ``predict`` with new positions of keys (only=True), queries (False) or both."""

        def predict(side: Side) -> Truth | None:
            p = positions(side) if only in (None, side.keys) else side.positions
            if p is None or p.shape[-1] != side.x.shape[2]:
                return None
            return replace(side, positions=p).truth()

        return predict

    def index(of: Callable[[np.ndarray], np.ndarray]) -> Positions:
        return lambda side: None if side.encoding.num_axes > 1 else of(side.x)

    def from_0(side: Side) -> np.ndarray:
        return np.arange(side.x.shape[2])

    def first_row(side: Side) -> np.ndarray | None:
        return side.positions[..., :1, :] if side.positions.ndim > 1 else None

    for what, other, only in (
        ("keys", "queries", True),
        ("queries", "keys", False),
        ("queries and keys", "", None),
    ):
        if other:
            yield Mistake(
                "wrong-row",
                f"{what} get the positions of the {other}",
                at(lambda side: side.others, only),
                "Index the table once for the queries and once for the keys.",
            )
        for code, message, positions in (
            ("decode-offset", f"{what} are rotated as if they started at 0", from_0),
            ("row-offset", f"all rows of {what} get the positions of the first one", first_row),
            ("position-axis", f"the head index is used as the position of {what}", index(heads)),
            ("position-axis", f"the row index is used as the position of {what}", index(batch)),
        ):
            yield Mistake(code, message, at(positions, only))
        if other:  # a rule of one case is simpler
            for end, of in (("first", _of_first), ("last", _of_last)):
                yield Mistake(
                    "wrong-row",
                    f"{what} get the positions of the {end} {other}, in calls with at least as "
                    f"many {other}",
                    at(of, only),
                    f"Use the positions of the {what} as they are passed.",
                )
            for otherwise, rest in (("0, 1, 2, ...", from_0), ("their own", None)):
                yield Mistake(
                    "wrong-row",
                    f"{what} get the positions of the {other} in calls with as many of both, and "
                    f"{otherwise} otherwise",
                    at(partial(_of_others, rest), only),
                    f"Use the positions of the {what} in every call, not those of the {other}.",
                )
    for what, keys in (("keys", True), ("queries", False)):
        yield Mistake(
            "frequency-spacing",
            f"{what} are not rotated",
            lambda side, keys=keys: identical(side.x) if side.keys == keys else side.truth(),  # type: ignore[misc]
            f"Rotate the {what} too, each by the angles of its own position.",
        )
    if not isinstance(encoding, XPos):
        for message, only in (
            ("queries and keys turn the other way: by -angle", None),
            ("queries and keys turn opposite ways: keys by -angle", True),
            ("queries and keys turn opposite ways: queries by -angle", False),
        ):
            yield Mistake(
                "sign",
                message,
                at(lambda side: -side.positions, only),
                "Rotate both by +angle: their dot product then depends on the difference of "
                "positions.",
            )


def side_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    """Yield positions that tiles make, and other parameters, of queries or of keys only."""

    def moved(change: Callable[[np.ndarray], np.ndarray], only: bool) -> Any:
        return lambda side: (
            replace(side, positions=change(side.positions)) if side.keys == only else side
        ).truth()

    for text, by_group in (
        ("the heads of the rotated queries are in the order g * H_kv + j, declared j * G + g (key "
         "head j, query g of its group of G): the axes of groups and key heads are exchanged",
         True),
        ("the heads of the rotated queries are in the order of a reshape to (G, H_kv) that is "
         "transposed back as (H_kv, G)", False),
    ):  # fmt: skip
        yield Mistake(
            "position-axis",
            text,
            partial(_regrouped, by_group),
            "Transpose back before groups and key heads are joined: query head h belongs to key "
            "head h // (H / H_kv).",
        )
    yield Mistake(
        "wrong-row",
        "a key head is rotated once for each query head of its group: H / H_kv times",
        _each_query_head,
        "Rotate each key head once: let one query head of the group write it, or rotate the keys "
        "before the loop over query heads.",
    )
    yield Mistake(
        "rotary-dim",
        "only as many query heads are rotated as there are key heads; the others stay as they are",
        _few_heads,
        "Rotate every head of the queries: there may be more of them than key heads.",
    )
    for what, only in (("keys", True), ("queries", False)):
        yield from _of_extremes(what, only)
        yield from _factors(encoding, what, only)
        for code, words, change in (
            ("position-origin", "are 1 too large", lambda p: p + 1),
            ("position-origin", "are 1 too small", lambda p: p - 1),
            ("position-scale", "are doubled", lambda p: 2 * p),
            ("position-scale", "are halved", lambda p: p / 2),
            ("wrong-row", "stand in the reverse order", lambda p: p[..., ::-1]),
        ):
            remedy = f"Use the positions of the {what} as they are passed."
            yield Mistake(code, f"the positions of {what} {words}", moved(change, only), remedy)
        for text, place, name in PLACES:
            own = f"Rotate every {name} of the {what} by itself, and write it to its own place."
            yield Mistake(
                "wrong-row",
                f"{what}: {text}, in the result",
                lambda side, place=place, only=only: (  # type: ignore[misc]
                    each_part(side.truth(), lambda part: place(np.broadcast_to(part, side.x.shape)))
                    if side.keys == only
                    else side.truth()
                ),
                own,
            )
        yield from _parameters(encoding, what, only)
        for text, place in tiled(what):
            yield Mistake("wrong-row", text, moved(place, only), WHOLE_POSITION)


def _of_others(otherwise: Positions | None, side: Side) -> np.ndarray | None:
    """Return the positions of the other side if it has as many tokens."""
    if side.others.shape[-1] == side.x.shape[2]:
        return side.others
    return side.positions if otherwise is None else otherwise(side)


def _of_first(side: Side) -> np.ndarray:
    """Return the first positions of the other side if it has as many tokens."""
    n = side.x.shape[2]
    return side.others[..., :n] if side.others.shape[-1] >= n else side.positions


def _of_last(side: Side) -> np.ndarray:
    """Return the last positions of the other side if it has as many tokens."""
    n, many = side.x.shape[2], side.others.shape[-1]
    return side.others[..., many - n :] if many >= n else side.positions


def counted_queries() -> Iterator[Mistake]:
    """Yield positions of queries that are made from the number of keys."""
    for words, by, single in (
        ("queries are rotated as if they were the last tokens of the keys: query i has the "
         "position K - Q + i", 0, False),
        ("a single query has the position K - 1, as if it were the last of K keys from 0 on", 0,
         True),
        ("a single query has the position K, as if it came after K keys from 0 on", 1, True),
    ):  # fmt: skip

        def predict(side: Side, by: int = by, single: bool = single) -> Truth:
            if side.keys:
                return side.truth()
            return replace(side, positions=_at_end(by, single, side)).truth()

        remedy = "Use the positions of the queries as they are passed, not the number of keys."
        yield Mistake("decode-offset", words, predict, remedy)


def _at_end(by: int, single: bool, side: Side) -> np.ndarray:
    """Return positions counted from the number of keys; ``single``: of one query only."""
    n = side.x.shape[2]
    at = side.others.shape[-1] - n + by + np.arange(n)
    return at if n == 1 or not single else side.positions


def _each_query_head(side: Side) -> Truth:
    """Return the keys, rotated once more for each query head of their group."""
    if not side.keys or side.group < 2:
        return side.truth()
    return replace(side, positions=side.positions * side.group).truth()


def _few_heads(side: Side) -> Truth:
    """Return the queries of which only as many heads are rotated as keys have."""
    truth, few = side.truth(), side.x.shape[1] // side.group
    if side.keys or side.group < 2:
        return truth
    rotated = (np.arange(side.x.shape[1]) < few)[:, None, None]
    return with_value(truth, np.where(rotated, truth.value, side.x))


def _regrouped(by_group: bool, side: Side) -> Truth:
    """Return the queries with their heads in another order of key heads and groups."""
    truth, g = side.truth(), side.group
    h = side.x.shape[1]
    if side.keys or h % g:
        return truth
    shape = (h // g, g) if by_group else (g, h // g)
    order = np.arange(h).reshape(shape).T.ravel()
    return each_part(truth, lambda part: np.broadcast_to(part, side.x.shape)[:, order])


def _of_extremes(what: str, only: bool) -> Iterator[Mistake]:
    """Yield positions that the smallest or the largest of a row, or of the call, changes."""
    other = "queries" if only else "keys"
    rows: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
        (f"the positions of {what} count from the smallest of the call", lambda p, o: p - p.min()),
        (f"the positions of {what} count from the smallest of the row",
         lambda p, o: p - p.min(-1, keepdims=True)),
        (f"the positions of {what} count from the first of the {other} of the row",
         lambda p, o: p - o[..., :1]),
        (f"the positions of {what} count from the first of the row", lambda p, o: p - p[..., :1]),
        (f"all {what} get the largest position of {other} of the call",
         lambda p, o: 0 * p + o.max()),
        (f"all {what} get the largest position of {other} of the row",
         lambda p, o: 0 * p + o.max(-1, keepdims=True)),
        (f"all {what} get the last position of {other} of the row",
         lambda p, o: 0 * p + o[..., -1:]),
    )  # fmt: skip
    for text, change in rows:

        def predict(side: Side, change: Any = change) -> Truth | None:
            if side.keys != only:
                return side.truth()
            if not side.positions.size or not side.others.size:
                return None
            if side.others.ndim > side.positions.ndim:
                return None
            return replace(side, positions=change(side.positions, side.others)).truth()

        yield Mistake("decode-offset", text, predict, f"Use the positions of the {what} as passed.")


def _factors(encoding: Any, what: str, only: bool) -> Iterator[Mistake]:
    """Yield factors on queries, or on keys, that belong to the logits."""
    d = encoding.head_dim
    for words, factor in ((f"1/sqrt({d})", d**-0.5), (f"{d} ** (-1/4)", d**-0.25),
                          (f"sqrt({d})", d**0.5)):  # fmt: skip
        text = f"{what} are multiplied by {factor:.6g} = {words}"
        remedy = f"Return the rotated {what} themselves; the scale belongs to the logits."

        def predict(side: Side, factor: float = factor) -> Truth:
            truth = side.truth()
            return each_part(truth, lambda part: factor * part) if side.keys == only else truth

        yield Mistake("amplitude", text, predict, remedy)


def _parameters(encoding: Any, what: str, only: bool) -> Iterator[Mistake]:
    """Yield queries, or keys, that are rotated with another base, layout or scaling."""
    changes: list[tuple[str, str, str, dict[str, Any]]] = []
    layout = getattr(encoding, "layout", "")
    if isinstance(encoding, RoPE | MultiAxisRoPE):
        for base in PUBLISHED_BASES[:6] if isinstance(encoding.base, float) else ():
            text = f"the base of {what} is {base:.10g}, declared {encoding.base:.10g}"
            remedy = f"Use the base {encoding.base:.10g} for queries and keys."
            changes += [("base", text, remedy, {"base": base})] * (base != encoding.base)
        if layout in ("half", "interleaved"):
            other = "interleaved" if layout == "half" else "half"
            text = f"pairs of {what} are {other}, declared {layout}"
            remedy = f"Rotate {layout} pairs of queries and keys."
            changes.append(("layout", text, remedy, {"layout": other, "output_layout": None}))
        if encoding.scaling is not None:
            text = f"the declared scaling of {what} is missing"
            remedy = f"Use the declared frequencies, with {encoding.scaling!r}."
            changes.append(("scaling-missing", text, remedy, {"scaling": None}))
    for code, text, remedy, change in changes:
        try:
            changed = encoding.replace(**change)
        except (TypeError, ValueError):
            continue

        def predict(side: Side, changed: Rotary = changed) -> Truth:
            return (replace(side, encoding=changed) if side.keys == only else side).truth()

        yield Mistake(code, text, predict, remedy)
