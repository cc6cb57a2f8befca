"""Known mistakes in biases other than ALiBi and T5.

Each predicts a bias from the positions of the queries (Q,) and of the keys (K,).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def bias_mistakes(declared: Bias) -> Iterator[Mistake]:
    """Yield the declared bias, then biases with one change, those of its own class first."""
    yield _other("", "", declared)
    for form, of in _FORMS:
        if isinstance(declared, form):
            yield from of(declared)
    message, place = QUERIES[0]
    yield _changed("bias-alignment", message, lambda q, k: declared.truth(place(len(q), len(k)), k))
    yield _changed(
        "head-order",
        "heads run from the last to the first",
        lambda q, k: each_part(declared.truth(q, k), lambda part: part[::-1]),
    )
    if declared.sees_future:
        yield _changed(
            "future-keys",
            "keys after the query have no bias",
            lambda q, k: each_part(
                declared.truth(q, k), lambda part: np.where(k > q[:, None], 0, part)
            ),
        )


def _changed(code: str, message: str, truth: Callable[[np.ndarray, np.ndarray], Truth]) -> Mistake:
    return Mistake(code, message, lambda places: truth(*places))


def _other(code: str, message: str, encoding: Bias) -> Mistake:
    return _changed(code, message, encoding.truth)


def _kerple(declared: Kerple) -> Iterator[Mistake]:
    r1, r2 = declared.r1, declared.r2
    if declared.form == "log" or max(r1) <= 2:
        yield _other("wrong-row", "r1 and r2 are exchanged", declared.replace(r1=r2, r2=r1))
    form = "power" if declared.form == "log" else "log"
    if form == "log" or max(r2) <= 2:
        text = f"the {form} form, declared {declared.form}"
        yield _other("bucket-spacing", text, declared.replace(form=form))


def _sandwich(declared: Sandwich) -> Iterator[Mistake]:
    half = declared.dim // 2

    def from_zero(q: np.ndarray, k: np.ndarray) -> Truth:
        r, at = np.unique(k[None, :] - q[:, None], return_inverse=True)
        waves = declared.base ** (-np.arange(half) / half)
        cos = np.cos(r[:, None] * waves)
        h = 8 * np.arange(1, declared.num_heads + 1)[:, None] / declared.num_heads
        size, angle = (np.abs(cos).sum(axis=-1) + half) / h, np.abs(r) * waves.sum() / h
        at = at.reshape(len(q), len(k))
        return Truth(*(part[:, at] for part in ((cos.sum(axis=-1) - half) / h, size, angle)))

    yield _changed("exponent", "the exponents start at k = 0, declared 1", from_zero)


def _fire(declared: FIRE) -> Iterator[Mistake]:
    text = "distances are divided by psi(i), without the threshold on the length"
    yield _other("position-scale", text, declared.replace(length=1e-9))
    text = "distances are divided by psi(length), whatever the query"
    yield _changed("position-scale", text, lambda q, k: _from_zero(declared, q, k))


def _from_zero(declared: FIRE, q: np.ndarray, k: np.ndarray) -> Truth:
    """Return FIRE's bias normalised by the threshold, as for a query at position 0."""
    r, at = np.unique(k[None, :] - q[:, None], return_inverse=True)
    at = at.reshape(len(q), len(k))
    return each_part(declared.truth(np.array([0]), r), lambda part: part[:, 0][:, at])


def _swin(declared: SwinBias) -> Iterator[Mistake]:
    h, w = declared.window
    n, table = len(declared.table), np.asarray(declared.table, np.float64)

    def looked_up(code: str, message: str, row: Callable[[Any, Any], Any]) -> Mistake:
        def truth(q: np.ndarray, k: np.ndarray) -> Truth:
            index = np.broadcast_to(row(q[:, None], k[None, :]), (q.size, k.size)) % n
            return exactly(np.moveaxis(table[index], -1, 0))

        return _changed(code, message, truth)

    def indexed(code: str, message: str, row: Callable[[Any, Any], Any]) -> Mistake:
        return looked_up(code, message, lambda q, k: row(q // w - k // w, q % w - k % w))

    def times(by: str, factor: int) -> Mistake:
        text = f"different offsets share a row: dy is multiplied by {by}, not 2w - 1"
        return indexed("index-collision", text, lambda y, x: (y + h - 1) * factor + x + w - 1)

    yield from (
        indexed("bucket-sign",
                "the offsets have the opposite sign, key minus query: each gets the row of its "
                "opposite", lambda dy, dx: (h - 1 - dy) * (2 * w - 1) + w - 1 - dx),
        indexed("axis-order", "height and width are exchanged",
                lambda dy, dx: (dx + w - 1) * (2 * h - 1) + dy + h - 1),
        times("2h - 1", 2 * h - 1),
        times("w", w),
        times("h", h),
        times("2w", 2 * w),
        times("2w - 2", 2 * w - 2),
        times("1", 1),
        indexed("index-collision",
                "different offsets share a row: dx is multiplied by 2w - 1, and dy is added",
                lambda dy, dx: (dx + w - 1) * (2 * w - 1) + dy + h - 1),
        indexed("relative-symmetric",
                "an offset and its opposite share a row: absolute values are taken",
                lambda dy, dx: (abs(dy) + h - 1) * (2 * w - 1) + abs(dx) + w - 1),
    )  # fmt: skip
    for whose, of in (("key", lambda q, k: k), ("query", lambda q, k: q)):
        text = f"what is called relative goes by the {whose}'s own "
        yield looked_up("relative-absolute", f"{text}position, which is taken for the row", of)
        yield looked_up(
            "relative-absolute",
            f"{text}place in the window",
            lambda q, k, of=of: (  # type: ignore[misc]
                (of(q, k) // w + h - 1) * (2 * w - 1) + of(q, k) % w + w - 1
            ),
        )


def _beit(declared: BEiTBias) -> Iterator[Mistake]:
    n = len(declared.table)
    rows = np.arange(n)
    for order, text in (
        ([n - 2, n - 3, n - 1], "the rows of [CLS] to patches and of patches to [CLS]"),
        ([n - 1, n - 2, n - 3], "the rows of [CLS] to patches and of [CLS] to itself"),
    ):
        changed = np.asarray(declared.table)[np.r_[rows[:-3], order]]
        yield _other("wrong-row", f"{text} are exchanged", declared.replace(table=changed))
    mirrored = np.asarray(declared.table)[np.r_[rows[:-3][::-1], rows[-3:]]]
    text = "the offsets have the opposite sign, key minus query: each gets the row of its opposite"
    yield _other("bucket-sign", text, declared.replace(table=mirrored))


def _levit(declared: LeViTBias) -> Iterator[Mistake]:
    h, w = declared.window
    table = np.asarray(declared.table)
    if h == w:
        turned = table.reshape(h, w, -1).swapaxes(0, 1).reshape(table.shape)
        text = "height and width are exchanged"
        yield _other("axis-order", text, declared.replace(table=turned))


def _log_cpb(declared: LogCPB) -> Iterator[Mistake]:
    swapped = declared.replace(hidden=np.asarray(declared.hidden)[:, ::-1])
    yield _other("axis-order", "the network takes (dx, dy), declared (dy, dx)", swapped)
    mirrored = declared.replace(hidden=-np.asarray(declared.hidden))
    text = "the offsets have the opposite sign: key minus query"
    yield _other("bucket-sign", text, mirrored)
    if declared.pretrained_window is not None:
        text = "offsets are divided by the window's own side, not the pretrained one's"
        yield _other("position-scale", text, declared.replace(pretrained_window=None))
    for factor, text in (
        (3.0, "offsets are not divided by log2(8)"),
        (3.0 * np.log(2), "the logarithm is natural, and not divided by log(8)"),
    ):
        scaled = declared.replace(hidden=np.asarray(declared.hidden) * factor)
        yield _other("position-scale", text, scaled)


def _dynamic(declared: DynamicBias) -> Iterator[Mistake]:
    first, *rest = map(np.asarray, declared.weights)
    text = "the offset has the opposite sign: key minus query"
    yield _other("bucket-sign", text, declared.replace(weights=(-first, *rest)))
    words = ("its logarithm", "the offset itself")
    text = f"the network takes {words[declared.log_distance]}"
    yield _other("position-scale", text, declared.replace(log_distance=not declared.log_distance))


def _dynamic_window(declared: DynamicWindowBias) -> Iterator[Mistake]:
    first, *rest = map(np.asarray, declared.weights)
    sides = np.maximum(np.array(declared.window) - 1, 1)
    for code, text, weight in (
        ("axis-order", "the network takes (dx, dy), declared (dy, dx)", first[:, ::-1]),
        ("bucket-sign", "the offsets have the opposite sign: key minus query", -first),
        ("position-scale", "offsets are divided by the side less 1", first / sides),
    ):
        yield _other(code, text, declared.replace(weights=(weight, *rest)))


def _forgetting(declared: ForgettingBias) -> Iterator[Mistake]:
    gates = np.asarray(declared.log_gates)
    moved = declared.replace(log_gates=np.concatenate([0 * gates[:, :1], gates[:, :-1]], axis=1))
    yield _other("position-origin", "the key's own gate counts, and not the query's", moved)

    def both(q: np.ndarray, k: np.ndarray) -> Truth:
        truth, own = declared.truth(q, k), gates[:, None, k].astype(np.float64)
        return Truth(truth.value + own, truth.terms + np.abs(own), truth.angle)

    yield _changed("position-origin", "the key's own gate counts as well", both)


def _convit(declared: ConViTBias) -> Iterator[Mistake]:
    weight, (_, w) = np.asarray(declared.weight), declared.window
    text = "the first number of a head belongs to dy, the second to dx"
    yield _other("axis-order", text, declared.replace(weight=weight[:, [1, 0, 2]]))
    text = "the offsets have the opposite sign: query minus key"
    yield _other("bucket-sign", text, declared.replace(weight=weight * np.array([-1, -1, 1])))

    def root(q: np.ndarray, k: np.ndarray) -> Truth:
        dy, dx = k[None, :] // w - q[:, None] // w, k[None, :] % w - q[:, None] % w
        distance = np.hypot(dy, dx)
        change = weight[:, 2, None, None] * (distance - distance**2)
        truth = declared.truth(q, k)
        return Truth(truth.value + change, truth.terms, truth.angle)

    yield _changed("position-scale", "the distance is not squared", root)


_FORMS: tuple[tuple[type[Bias], Callable[[Any], Iterator[Mistake]]], ...] = (
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
