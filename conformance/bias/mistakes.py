"""Known mistakes in biases other than ALiBi and T5.

The mistakes of an encoding are its fields with other values, or other functions for its bias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from posenc_ref import (
    FIRE,
    BEiTBias,
    Bias,
    ConViTBias,
    DynamicBias,
    DynamicWindowBias,
    ForgettingBias,
    Kerple,
    LeViTBias,
    LogCPB,
    Sandwich,
    SwinBias,
)
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake, each_part
from posenc_ref.conformance.diagnosis.position_mistakes import QUERIES
from posenc_ref.conformance.oracle.apply import exactly

#: A function of query positions (Q,) and key positions (K,) that returns a bias.
Values = Callable[[np.ndarray, np.ndarray], Truth]
#: A code, a message, and either the changed fields or the changed bias.
Change = tuple[str, str, dict[str, Any] | Values]


def bias_mistakes(declared: Bias) -> Iterator[Mistake]:
    """Yield the declared bias, then the mistakes of its class, then those common to all classes.

    Each mistake predicts a bias from the positions of queries and keys.
    """
    forms = (of(declared) for form, of in _FORMS if isinstance(declared, form))
    for code, message, change in chain([("", "", {})], *forms, _common(declared)):
        try:
            values = change if callable(change) else declared.replace(**change).truth
        except ValueError:  # invalid fields
            continue
        yield Mistake(code, message, lambda places, of=values: of(*places))  # type: ignore[misc]


def _common(declared: Bias) -> Iterator[Change]:
    def parts(change: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Values:
        return lambda q, k: each_part(declared.truth(q, k), lambda part: change(part, q, k))

    message, place = QUERIES[0]
    yield "bias-alignment", message, lambda q, k: declared.truth(place(len(q), len(k)), k)
    yield "head-order", "the heads are in reverse order", parts(lambda part, q, k: part[::-1])
    if declared.sees_future:
        none = parts(lambda part, q, k: np.where(k > q[:, None], 0, part))
        yield "future-keys", "keys after the query have no bias", none


def _kerple(declared: Kerple) -> Iterator[Change]:
    yield "wrong-row", "r1 and r2 are exchanged", {"r1": declared.r2, "r2": declared.r1}
    form = "power" if declared.form == "log" else "log"
    yield "bucket-spacing", f"the {form} form is used, declared {declared.form}", {"form": form}


def _sandwich(declared: Sandwich) -> Iterator[Change]:
    half = declared.dim // 2

    def from_zero(q: np.ndarray, k: np.ndarray) -> Truth:
        r, at = np.unique(k[None, :] - q[:, None], return_inverse=True)
        waves = declared.base ** (-np.arange(half) / half)
        cos = np.cos(r[:, None] * waves)
        h = 8 * np.arange(1, declared.num_heads + 1)[:, None] / declared.num_heads
        size, angle = (np.abs(cos).sum(axis=-1) + half) / h, np.abs(r) * waves.sum() / h
        at = at.reshape(len(q), len(k))
        return Truth(*(part[:, at] for part in ((cos.sum(axis=-1) - half) / h, size, angle)))

    yield "exponent", "the exponents start at k = 0, declared 1", from_zero


def _fire(declared: FIRE) -> Iterator[Change]:
    text = "distances are divided by psi(i), without the threshold on the length"
    yield "position-scale", text, {"length": 1e-9}
    text = "distances are divided by psi(length), the same for every query"
    yield "position-scale", text, lambda q, k: _from_zero(declared, q, k)


def _from_zero(declared: FIRE, q: np.ndarray, k: np.ndarray) -> Truth:
    """Return FIRE's bias with the normalisation of a query at position 0, psi(length)."""
    r, at = np.unique(k[None, :] - q[:, None], return_inverse=True)
    at = at.reshape(len(q), len(k))
    return each_part(declared.truth(np.array([0]), r), lambda part: part[:, 0][:, at])


def _swin(declared: SwinBias) -> Iterator[Change]:
    h, w = declared.window
    n, table = len(declared.table), np.asarray(declared.table, np.float64)

    def row(index: Callable[[Any, Any], Any]) -> Values:
        """Return the bias with the row ``index(q, k)`` of the table."""

        def truth(q: np.ndarray, k: np.ndarray) -> Truth:
            rows = np.broadcast_to(index(q[:, None], k[None, :]), (q.size, k.size)) % n
            return exactly(np.moveaxis(table[rows], -1, 0))

        return truth

    def by_offset(index: Callable[[Any, Any], Any]) -> Values:
        return row(lambda q, k: index(q // w - k // w, q % w - k % w))

    text = "the relative positions have the opposite sign: key - query, not query - key"
    yield "bucket-sign", text, by_offset(lambda y, x: (h - 1 - y) * (2 * w - 1) + w - 1 - x)
    text = "height and width are exchanged"
    yield "axis-order", text, by_offset(lambda y, x: (x + w - 1) * (2 * h - 1) + y + h - 1)
    sizes = {"2h - 1": 2 * h - 1, "w": w, "h": h, "2w": 2 * w, "2w - 2": 2 * w - 2, "1": 1}
    for name, size in sizes.items():
        text = f"different offsets share a row: dy is multiplied by {name}, not 2w - 1"
        index = by_offset(lambda y, x, by=size: (y + h - 1) * by + x + w - 1)  # type: ignore[misc]
        yield "index-collision", text, index
    text = "different offsets share a row: dx is multiplied by 2w - 1, and dy is added"
    yield "index-collision", text, by_offset(lambda y, x: (x + w - 1) * (2 * w - 1) + y + h - 1)
    text = "offsets of opposite sign share a row: absolute values are used"
    index = by_offset(lambda y, x: (abs(y) + h - 1) * (2 * w - 1) + abs(x) + w - 1)
    yield "relative-symmetric", text, index
    for whose, of in (("key", lambda q, k: k), ("query", lambda q, k: q)):
        text = f"the {whose}'s own position is used as the row of the table"
        yield "relative-absolute", text, row(of)
        text = f"the {whose}'s own position in the window is used in place of the relative position"
        place = partial(
            lambda p, q, k: (p(q, k) // w + h - 1) * (2 * w - 1) + p(q, k) % w + w - 1, of
        )
        yield "relative-absolute", text, row(place)


def _beit(declared: BEiTBias) -> Iterator[Change]:
    n = len(declared.table)
    rows = np.arange(n)
    for order, text in (
        ([n - 2, n - 3, n - 1], "the rows of [CLS] to patches and of patches to [CLS]"),
        ([n - 1, n - 2, n - 3], "the rows of [CLS] to patches and of [CLS] to itself"),
    ):
        changed = np.asarray(declared.table)[np.r_[rows[:-3], order]]
        yield "wrong-row", f"{text} are exchanged", {"table": changed}
    mirrored = np.asarray(declared.table)[np.r_[rows[:-3][::-1], rows[-3:]]]
    text = "the relative positions have the opposite sign: key - query, not query - key"
    yield "bucket-sign", text, {"table": mirrored}


def _levit(declared: LeViTBias) -> Iterator[Change]:
    h, w = declared.window
    table = np.asarray(declared.table)
    if h == w:
        turned = table.reshape(h, w, -1).swapaxes(0, 1).reshape(table.shape)
        yield "axis-order", "height and width are exchanged", {"table": turned}


def _log_cpb(declared: LogCPB) -> Iterator[Change]:
    hidden = np.asarray(declared.hidden)
    yield "axis-order", "the network takes (dx, dy), declared (dy, dx)", {"hidden": hidden[:, ::-1]}
    yield "bucket-sign", "the offsets have the opposite sign: key minus query", {"hidden": -hidden}
    if declared.pretrained_window is not None:
        text = "offsets are divided by the size of the window, not of the pretrained window"
        yield "position-scale", text, {"pretrained_window": None}
    for factor, text in (
        (3.0, "offsets are not divided by log2(8)"),
        (3.0 * np.log(2), "the logarithm is natural, and not divided by log(8)"),
    ):
        yield "position-scale", text, {"hidden": hidden * factor}


def _dynamic(declared: DynamicBias) -> Iterator[Change]:
    first, *rest = map(np.asarray, declared.weights)
    text = "the offset has the opposite sign: key minus query"
    yield "bucket-sign", text, {"weights": (-first, *rest)}
    words = ("its logarithm", "the offset itself")
    text = f"the network takes {words[declared.log_distance]}"
    yield "position-scale", text, {"log_distance": not declared.log_distance}


def _dynamic_window(declared: DynamicWindowBias) -> Iterator[Change]:
    first, *rest = map(np.asarray, declared.weights)
    sides = np.maximum(np.array(declared.window) - 1, 1)
    for code, text, weight in (
        ("axis-order", "the network takes (dx, dy), declared (dy, dx)", first[:, ::-1]),
        ("bucket-sign", "the offsets have the opposite sign: key minus query", -first),
        ("position-scale", "offsets are divided by the side less 1", first / sides),
    ):
        yield code, text, {"weights": (weight, *rest)}


def _forgetting(declared: ForgettingBias) -> Iterator[Change]:
    gates = np.asarray(declared.log_gates)
    moved = np.concatenate([0 * gates[:, :1], gates[:, :-1]], axis=1)
    text = "the sum of gates contains the key's gate, not the query's gate"
    yield "position-origin", text, {"log_gates": moved}

    def both(q: np.ndarray, k: np.ndarray) -> Truth:
        truth, own = declared.truth(q, k), gates[:, None, k].astype(np.float64)
        return Truth(truth.value + own, truth.terms + np.abs(own), truth.angle)

    yield "position-origin", "the sum of gates also contains the key's gate", both


def _convit(declared: ConViTBias) -> Iterator[Change]:
    weight, (_, w) = np.asarray(declared.weight), declared.window
    text = "the first number of a head belongs to dy, the second to dx"
    yield "axis-order", text, {"weight": weight[:, [1, 0, 2]]}
    text = "the offsets have the opposite sign: query minus key"
    yield "bucket-sign", text, {"weight": weight * np.array([-1, -1, 1])}

    def root(q: np.ndarray, k: np.ndarray) -> Truth:
        dy, dx = k[None, :] // w - q[:, None] // w, k[None, :] % w - q[:, None] % w
        distance = np.hypot(dy, dx)
        change = weight[:, 2, None, None] * (distance - distance**2)
        truth = declared.truth(q, k)
        return Truth(truth.value + change, truth.terms, truth.angle)

    yield "position-scale", "the distance is not squared", root


_FORMS: tuple[tuple[type[Bias], Callable[[Any], Iterator[Change]]], ...] = (
    (Kerple, _kerple),
    (Sandwich, _sandwich),
    (FIRE, _fire),
    (SwinBias, _swin),
    (BEiTBias, _beit),
    (LeViTBias, _levit),
    (LogCPB, _log_cpb),
    (DynamicBias, _dynamic),
    (DynamicWindowBias, _dynamic_window),
    (ForgettingBias, _forgetting),
    (ConViTBias, _convit),
)
