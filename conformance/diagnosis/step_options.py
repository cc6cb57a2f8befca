"""The changes of one value of a formula in steps: of learned numbers, positions and offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .offset_sizes import Sizes
from .rounding import SIGNIFICANT_BITS, significant

Value = Callable[[], Any]
#: A code, words that follow the name of the step, and a function that returns the changed value;
#: what to do about the change may follow.
Option = tuple[str, str, Value] | tuple[str, str, Value, str]

#: The ends of the words of a change that rounds to integers.
INTEGERS = ("integers", "integers (floor)", "integers (ceil)", "integers (trunc)")
#: Quotients and logarithms that are whole numbers may be computed as slightly more or less.
_NEAR = 1e-9


def to_integers(v: Any, name: str) -> Iterator[Option]:
    """Yield real numbers that are rounded to integers; ``name`` is that of the step."""
    v = np.asarray(v)
    if v.dtype.kind != "f" or not np.any(np.isfinite(v) & (v != np.rint(v))):
        return
    noun = name.split(",")[0].split(" of ")[0]
    is_ = "are" if noun.endswith("s") and not noun.endswith(("bias", "eps")) else "is"
    right = "Do not round {name} to integers."
    ways: list[tuple[str, Value]] = [
        ("down to integers (floor)", lambda: np.floor(v + _NEAR)),
        ("up to integers (ceil)", lambda: np.ceil(v - _NEAR)),
        ("to the nearest integers", lambda: np.rint(v)),
    ]
    if np.any(v < 0):
        ways.append(("towards 0 to integers (trunc)", lambda: np.trunc(v + np.copysign(_NEAR, v))))
        ways.append(("away from 0 to integers", lambda: np.copysign(np.ceil(np.abs(v) - _NEAR), v)))
    for words, value in ways:
        yield "position-scale", f"{is_} rounded {words}", value, right


def along(a: np.ndarray, axes: tuple[str, ...], code: str = "wrong-row") -> Iterator[Option]:
    """Yield changes of the order of an array's entries along each axis."""
    for axis, words in enumerate(axes):
        n = a.shape[axis]
        if n < 2:
            continue
        own = "head-order" if words.startswith("head") else code
        index = np.arange(n)

        right = f"Take {words} i of {{name}} for {words} i, in the declared order."

        def taken(at: np.ndarray, axis: int = axis) -> Value:
            return lambda: np.take(a, at, axis=axis)

        reversed_ = f"is in reverse order: {words} i is taken from {n - 1} - i"
        if n == 2:
            reversed_ = f"has {words} 0 and {words} 1 exchanged"
        yield own, reversed_, taken(index[::-1]), right
        yield own, f"is moved by one: {words} i is taken from i + 1", taken((index + 1) % n), right
        yield own, f"is moved by one: {words} i is taken from i - 1", taken((index - 1) % n), right
        yield own, f"is that of {words} 0 for every {words}", taken(0 * index), right
        yield own, f"is that of the last {words} for every {words}", taken(0 * index + n - 1), right
        text = f"is moved by one, up to the last: {words} i is taken from i + 1"
        yield own, text, taken(np.minimum(index + 1, n - 1)), right
        text = f"is moved by one, from the first on: {words} i is taken from i - 1"
        yield own, text, taken(np.maximum(index - 1, 0)), right
        mean = np.broadcast_to(a.mean(axis=axis, keepdims=True), a.shape)
        yield own, f"is the mean of all {words}s for every {words}", lambda m=mean: m, right  # type: ignore[misc]
        yield own, f"is shared in twos: {words} i is taken from i // 2", taken(index // 2), right
        for size in (2, 4, 8) if n > 2 else ():
            if size < n:
                text = (
                    f"is shared in groups of {size}: {words} i is taken from {size} * (i // {size})"
                )
                yield own, text, taken(index // size * size), right
        if n % 2 == 0:
            half = n // 2
            text = f"is split in halves: {words} i is taken from i modulo {half}"
            yield own, text, taken(index % half), right
        if n % 2 == 0 and n > 2:
            text = f"has its halves exchanged: {words} i is taken from (i + {half}) modulo {n}"
            yield own, text, taken((index + half) % n), right
            text = f"is interleaved: {words} 2i is taken from i, and {words} 2i + 1 from i + {half}"
            yield own, text, taken(index.reshape(2, half).T.ravel()), right
            text = f"is parted into even and odd: {words} i is taken from 2i, then from 2i + 1"
            yield own, text, taken(index.reshape(half, 2).T.ravel()), right


def of_learned(a: np.ndarray, code: str) -> Iterator[Option]:
    """Yield functions of learned numbers that a wrong implementation applies to each of them."""

    def options() -> Iterator[tuple[str, Value]]:
        yield "goes through exp", lambda: np.exp(a)
        yield "goes through softplus", lambda: np.logaddexp(0, a)
        yield "goes through a sigmoid", lambda: 1 / (1 + np.exp(-a))
        yield "goes through log(sigmoid)", lambda: -np.logaddexp(0, -a)
        yield "goes through tanh", lambda: np.tanh(a)
        yield "is replaced by its absolute value", lambda: np.abs(a)
        yield "is replaced by 0 where it is negative", lambda: np.maximum(a, 0)
        yield "is squared", lambda: a * a
        if a.ndim > 1:
            size = np.sqrt((a * a).sum(axis=-1, keepdims=True))
            yield "has rows that are divided by their norms", lambda: a / size
            yield "is divided by the square root of its columns", lambda: a / a.shape[-1] ** 0.5
            middle = a.mean(axis=-1, keepdims=True)
            yield "has rows whose mean is subtracted", lambda: a - middle

    for words, value in options():
        yield code, words, value, "Use {name} itself, as it is declared."


def of_offsets(v: np.ndarray, sizes: Sizes, among: str = "") -> Iterator[Option]:
    """Yield functions of offsets (Q, K) that a wrong implementation applies.

    ``sizes`` are those of their bounds, periods and tiles. ``among`` says which other bounds give
    the same results.
    """
    size, sign = np.abs(v), np.sign(v)
    log = "Use {name} itself, not a function of it."
    for words, value in (
        ("is replaced by its logarithm, sign(r) log(1 + |r|)", lambda: sign * np.log1p(size)),
        ("is replaced by sign(r) log2(1 + |r|)", lambda: sign * np.log2(1.0 + size)),
        ("is replaced by the square root of its size", lambda: sign * np.sqrt(size)),
    ):
        yield "position-scale", words, value, log
    wide = "Use {name} of any size: no clamp, no modulo, no table of fixed length."
    for n in sizes.bounds:
        for words, value in _bounded(v, n):
            yield "position-range", f"{words}{among}", value, wide
    for kind in ("int8", "uint8", "int16"):
        if max(sizes.bounds, default=0) >= np.iinfo(kind).max:
            words = f"is stored in {kind}, which wraps round"
            right = "Hold {name} in integers of at least 32 bits."
            yield "position-range", words, lambda k=kind: v.astype(k).astype(np.int64), right  # type: ignore[misc]
    for n in sizes.tiles:
        whole = f"Use {{name}} itself: do not round it to a multiple of {n}."
        for words, value in (
            (f"is rounded down to a multiple of {n}", lambda n=n: v // n * n),
            (f"is rounded towards 0 to a multiple of {n}", lambda n=n: sign * (size // n * n)),
            (f"is rounded up to a multiple of {n}", lambda n=n: -(-v // n) * n),
            (f"is rounded to the nearest multiple of {n}", lambda n=n: np.rint(v / n) * n),
        ):
            yield "position-scale", words, value, whole


def _bounded(v: np.ndarray, n: int) -> Iterator[tuple[str, Value]]:
    yield f"is clamped to -{n} .. {n}", lambda: np.clip(v, -n, n)
    yield f"is clamped to at most {n}", lambda: np.minimum(v, n)
    yield f"is clamped to at least -{n}", lambda: np.maximum(v, -n)
    yield f"is taken as 0 beyond {n}", lambda: np.where(np.abs(v) > n, 0, v)
    yield f"is taken as 0 beyond -{n} .. {n - 1}", lambda: np.where((v > n - 1) | (v < -n), 0, v)
    m = n + 1
    yield f"wraps round: its size is taken modulo {m}", lambda: np.sign(v) * (np.abs(v) % m)
    if not m % 2:
        kind = f"int{m.bit_length()}" if m in (2**7, 2**15) else ""
        words = f"wraps round to -{m} .. {m - 1}{f', as {kind} does' if kind else ''}"
        yield words, lambda: (v + m) % (2 * m) - m


def unlikely(item: tuple[tuple[str, ...], str]) -> int:
    """Return a larger number for changes that other ones are tried before.

    These make an exception, have a measured bound, apply a function, or round to integers.
    """
    (_, words, *_), code = item
    if code == "position-range":
        return 1
    if words.endswith(INTEGERS):
        return 4
    return 2 if code == "position-scale" and "replaced by" in words else 3 * ("except for" in words)


def of_numbers(v: np.ndarray, name: str, code: str) -> tuple[Option, ...]:
    """Return the changes of positions, offsets or indices: of their sign, size and origin."""
    none = np.zeros_like(v)
    of_all: tuple[Option, ...] = (
        (code, "is 1 too large", lambda: v + 1),
        (code, "is 1 too small", lambda: v - 1),
        ("position-scale", "is doubled", lambda: 2 * v),
        ("position-scale", "is halved", lambda: v / 2),
        ("position-scale", "is left out", lambda: none),
        ("position-scale", "is squared", lambda: np.sign(v) * v * v),
    )
    signs: tuple[Option, ...] = (
        ("bucket-sign", "has the opposite sign", lambda: -v),
        ("relative-symmetric", "is replaced by its absolute value", lambda: np.abs(v)),
        ("relative-symmetric", "is taken as 0 where it is negative", lambda: np.maximum(v, 0)),
        ("relative-symmetric", "is taken as 0 where it is positive", lambda: np.minimum(v, 0)),
    )
    of_several: tuple[Option, ...] = (
        (code, "is 1 too large, except for 0", lambda: v + np.sign(v)),
        (code, "is 1 too small, except for 0", lambda: v - np.sign(v)),
        (code, "is everywhere that of the first", lambda: none + v.flat[0]),
        (code, "is everywhere that of the last", lambda: none + v.flat[-1]),
    )
    if v.ndim == 1 and v.size:
        text = "counts from the first of the call, not from 0"
        right = f"Use {name} as it is passed: do not subtract that of the first."
        of_several += (
            (code, text, lambda: v - v[0], right),
            (code, "is the number of the row in the call, whichever position is passed",
             lambda: np.arange(v.size), f"Use {name} as it is passed."),
        )  # fmt: skip
    of_several += tuple(
        ("position-precision", f"is {how} {kind}", lambda n=n, c=cut: significant(v, n, cut=c))
        for kind, n in SIGNIFICANT_BITS.items()
        for how, cut in (("rounded to", False), ("cut, not rounded, to", True))
    )
    return of_all if v.ndim == 0 else (*signs, *of_all, *of_several)
