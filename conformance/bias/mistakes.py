"""Known mistakes in biases other than ALiBi and T5 that are no changed step of their formulas.

A mistake changes a field of the encoding, or replaces the function that computes the bias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from posenc_ref import (
    Bias,
    ConViTBias,
    DynamicWindowBias,
    Kerple,
    LeViTBias,
    LogCPB,
    SwinBias,
    T5Bias,
)
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake, each_part
from posenc_ref.conformance.diagnosis.position_mistakes import QUERIES, rounded_queries
from posenc_ref.conformance.oracle.apply import exactly

#: A function of query positions (Q,) and key positions (K,) that returns a bias.
Values = Callable[[np.ndarray, np.ndarray], Truth]
#: A code, a message, either the changed fields or the changed bias, and a remedy.
Change = tuple[str, str, dict[str, Any] | Values, str]
#: What is right for the positions of queries.
ALIGNED = "Query i has the position k_len - q_len + i: the last query is at the last key."
#: Distances from which on code of T5 may give all keys one bucket.
_DISTANCES = (64, 128, 256)


def bias_mistakes(declared: Bias, longest: int = 256) -> Iterator[Mistake]:
    """Yield the declared bias, then the mistakes of its class, then those common to all classes.

    Each mistake predicts a bias from the positions of queries and keys; ``longest`` is the number
    of keys of the longest call, or of a usual one, where calls are not known.
    """
    forms = (of(declared) for form, of in _FORMS if isinstance(declared, form))
    for code, message, change, remedy in chain(
        [("", "", {}, "")], *forms, _common(declared, longest)
    ):
        try:
            values = change if callable(change) else declared.replace(**change).truth
        except ValueError:  # invalid fields
            continue
        yield Mistake(code, message, lambda places, of=values: of(*places), remedy)  # type: ignore[misc]


def other_biases(declared: Bias) -> Iterator[tuple[str, str, str, Bias]]:
    """Yield the code, the message and the remedy of every changed field, and the changed bias."""
    forms = (of(declared) for form, of in _FORMS if isinstance(declared, form))
    for code, message, change, remedy in chain(*forms):
        if isinstance(change, dict):
            with suppress(ValueError):  # invalid fields
                yield code, message, remedy, declared.replace(**change)


def fields_of_t5(declared: Bias) -> Iterator[Mistake]:
    """Yield fields of T5's configuration that a function may read otherwise in some calls."""
    if not isinstance(declared, T5Bias):
        return
    both, words = declared.bidirectional, ("causal", "bidirectional")
    fields: list[tuple[str, str, Any]] = [("bucket-direction", "bidirectional", not both)]
    fields += [("bucket-clamp", "max_distance", n) for n in _DISTANCES]
    for code, name, value in fields:
        own = getattr(declared, name)
        text = f"{name} is {value}, declared {own}"
        if name == "bidirectional":
            text = f"buckets are {words[value]}, declared {words[own]}"
        with suppress(ValueError):
            other = declared.replace(**{name: value})
            of = lambda places, of=other.truth: of(*places)  # noqa: E731
            yield Mistake(code, text, of, f"Use {name}={own} in every call.")


def _common(declared: Bias, longest: int) -> Iterator[Change]:
    def parts(change: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Values:
        return lambda q, k: each_part(declared.truth(q, k), lambda part: change(part, q, k))

    def placed(place: Callable[[int, int], np.ndarray]) -> Values:
        return lambda q, k: declared.truth(place(len(q), len(k)), k)

    message, place = QUERIES[0]
    yield "bias-alignment", message, placed(place), ALIGNED
    reverse = parts(lambda part, q, k: part[::-1])
    remedy = "Give head h the bias of head h, not that of head H - 1 - h."
    yield "head-order", "the heads are in reverse order", reverse, remedy
    if declared.sees_future:
        none = parts(lambda part, q, k: np.where(k > q[:, None], 0, part))
        remedy = "Add the bias of keys after the query too, from the same formula."
        yield "future-keys", "keys after the query have no bias", none, remedy
    if getattr(declared, "tokens", None) is None:  # a window has one size
        for message, place in rounded_queries(longest):
            yield "bias-alignment", message, placed(place), ALIGNED


def _kerple(declared: Kerple) -> Iterator[Change]:
    text, remedy = "r1 and r2 are exchanged", "Exchange r1 and r2: -r1 * log(1 + r2 * distance)"
    remedy = remedy if declared.form == "log" else "Exchange r1 and r2: -r1 * distance ** r2"
    yield "wrong-row", text, {"r1": declared.r2, "r2": declared.r1}, f"{remedy}."
    form = "power" if declared.form == "log" else "log"
    remedy = {"log": "-r1 * log(1 + r2 * distance)", "power": "-r1 * distance ** r2"}[declared.form]
    text = f"the {form} form is used, declared {declared.form}"
    yield "bucket-spacing", text, {"form": form}, f"Compute {remedy}."


def _swin(declared: SwinBias) -> Iterator[Change]:
    h, w = declared.window
    n, table = len(declared.table), np.asarray(declared.table, np.float64)
    remedy = (
        f"Take row (dy + {h - 1}) * {2 * w - 1} + dx + {w - 1} of the table; dy and dx are the row "
        "and the column of the query minus those of the key."
    )

    def row(index: Callable[[Any, Any], Any]) -> Values:
        """Return a function whose bias of query q and key k is the row ``index(q, k)``."""

        def truth(q: np.ndarray, k: np.ndarray) -> Truth:
            rows = np.broadcast_to(index(q[:, None], k[None, :]), (q.size, k.size)) % n
            return exactly(np.moveaxis(table[rows], -1, 0))

        return truth

    def by_offset(index: Callable[[Any, Any], Any]) -> Values:
        return row(lambda q, k: index(q // w - k // w, q % w - k % w))

    text = "the relative positions have the opposite sign: key - query, not query - key"
    yield "bucket-sign", text, by_offset(lambda y, x: (h - 1 - y) * (2 * w - 1) + w - 1 - x), remedy
    text = "height and width are exchanged"
    yield "axis-order", text, by_offset(lambda y, x: (x + w - 1) * (2 * h - 1) + y + h - 1), remedy
    sizes = {"2h - 1": 2 * h - 1, "w": w, "h": h, "2w": 2 * w, "2w - 2": 2 * w - 2, "1": 1}
    for name, size in sizes.items():
        text = f"different offsets share a row: dy is multiplied by {name}, not 2w - 1"
        index = by_offset(lambda y, x, by=size: (y + h - 1) * by + x + w - 1)  # type: ignore[misc]
        yield "index-collision", text, index, remedy
    text = "different offsets share a row: dx is multiplied by 2w - 1, and dy is added"
    yield (
        "index-collision",
        text,
        by_offset(lambda y, x: (x + w - 1) * (2 * w - 1) + y + h - 1),
        remedy,
    )
    text = "offsets of opposite sign share a row: absolute values are used"
    index = by_offset(lambda y, x: (abs(y) + h - 1) * (2 * w - 1) + abs(x) + w - 1)
    yield "relative-symmetric", text, index, remedy
    for whose, of in (("key", lambda q, k: k), ("query", lambda q, k: q)):
        text = f"the {whose}'s own position is used as the row of the table"
        yield "relative-absolute", text, row(of), remedy
        text = f"the {whose}'s own position in the window is used in place of the relative position"
        place = partial(
            lambda p, q, k: (p(q, k) // w + h - 1) * (2 * w - 1) + p(q, k) % w + w - 1, of
        )
        yield "relative-absolute", text, row(place), remedy


def _log_cpb(declared: LogCPB) -> Iterator[Change]:
    text, remedy = "the network takes (dx, dy), declared (dy, dx)", "Pass (dy, dx) to the network."
    yield "axis-order", text, {"hidden": np.asarray(declared.hidden)[:, ::-1]}, remedy


def _dynamic_window(declared: DynamicWindowBias) -> Iterator[Change]:
    first, *rest = map(np.asarray, declared.weights)
    text, remedy = "the network takes (dx, dy), declared (dy, dx)", "Pass (dy, dx) to the network."
    yield "axis-order", text, {"weights": (first[:, ::-1], *rest)}, remedy


def _convit(declared: ConViTBias) -> Iterator[Change]:
    weight = np.asarray(declared.weight)[:, [1, 0, 2]]
    text, remedy = (
        "the weights of dx and dy are exchanged",
        "Pass (dx, dy, distance ** 2).",
    )
    yield "axis-order", text, {"weight": weight}, remedy


def _levit(declared: LeViTBias) -> Iterator[Change]:
    h, w = declared.window
    table = np.asarray(declared.table)
    if h == w:
        turned = table.reshape(h, w, -1).swapaxes(0, 1).reshape(table.shape)
        remedy = f"Take row |dy| * {w} + |dx| of the table."
        yield "axis-order", "height and width are exchanged", {"table": turned}, remedy


_FORMS: tuple[tuple[type[Bias], Callable[[Any], Iterator[Change]]], ...] = (
    (Kerple, _kerple),
    (SwinBias, _swin),
    (LeViTBias, _levit),
    (LogCPB, _log_cpb),
    (DynamicWindowBias, _dynamic_window),
    (ConViTBias, _convit),
)
