"""Eviction from a cache of rotated keys: ``evict_keys``.

Error unit (see :mod:`posenc_ref.accuracy`): a pair (k1, k2) of a moved key has
A = hypot(k1, k2) and B = |dropped frequency| hypot(k1, k2); a kept key has B = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.harness.probes import dense
from posenc_ref.conformance.oracle.apply import apply_truth, joined
from posenc_ref.conformance.oracle.transforms import alike, shift

from .function import Arguments, Plain, written
from .layouts import rotary_variants

#: (B, H, S, kept, dropped): short and long, many keys kept or dropped, or none.
CALLS = (
    (2, 3, 9, 2, 3), (1, 2, 8, 4, 1), (3, 2, 12, 1, 7), (2, 1, 16, 4, 8),
    (1, 2, 6, 0, 2), (2, 2, 5, 3, 0), (1, 1, 7, 3, 4), (1, 2, 300, 4, 211),
    (1, 1, 2050, 4, 1023), (1, 5, 33, 4, 1), (1, 9, 160, 70, 2), (3, 2, 420, 130, 67),
    (1, 1, 4300, 9, 4099), (2, 1, 40, 0, 9),
)  # fmt: skip
_REQUIRED = 4
_RIGHT = (
    "Keep the first keys as they are, remove the next ones, and rotate each later key once by "
    "-dropped: its position is then its place in the cache."
)


def _calls(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    e = alike(encoding)
    for i, (b, h, n, kept, dropped) in enumerate(CALLS):
        raw = dense((b, h, n, e.head_dim), seed + 30 + i)
        k = np.asarray(e.apply(raw, np.arange(n)))
        name = f"{n} keys, kept {kept}, dropped {dropped}"
        yield Arguments(name, (k, kept, dropped), i < _REQUIRED)


def _moved(encoding: Any, k: np.ndarray, delta: Any) -> Truth:
    """Return the keys moved by ``delta``, a number or one for each key.

    A is that of a rotation by any angle: the keys may come from raw ones, rotated anew.
    """
    truth = apply_truth(shift(encoding), k, np.broadcast_to(delta, k.shape[2]))
    return Truth(truth.value, np.maximum(truth.terms, truth.amplitude), truth.angle)


def _evicted(encoding: Any, k: np.ndarray, kept: int, dropped: int) -> Truth:
    rest = _moved(encoding, k[:, :, kept + dropped :], -dropped)
    return joined([_moved(encoding, k[:, :, :kept], 0), rest])


def _truth(encoding: Any, arguments: tuple[Any, ...], value: np.ndarray) -> Truth:
    truth = _evicted(encoding, *arguments)
    return Truth(value, truth.terms, truth.angle, truth.amplitude)


def _mistakes(encoding: Any) -> Iterator[Mistake]:
    def by(
        head: Callable[[int, int], int],
        rest: Callable[[int, int, int], Any],
        first: Callable[[int, int, int], int] = lambda kept, dropped, n: kept + dropped,
        stay: Callable[[int], int] = lambda kept: kept,
    ) -> Callable[..., Truth]:
        """Return an eviction that moves kept keys by ``head`` and later ones by ``rest``.

        ``rest`` gets the number of later keys too, ``first`` is the first of them, ``stay`` the
        number of kept keys.
        """

        def made(k: np.ndarray, kept: int, dropped: int) -> Truth:
            start = first(kept, dropped, k.shape[2])
            later = k[:, :, start : start + k.shape[2] - dropped - stay(kept)]
            if later.shape[2] + stay(kept) != k.shape[2] - dropped or stay(kept) < 0:
                raise ValueError("no such eviction")
            early = k[:, :, : stay(kept)]
            sinks = _moved(encoding, early, head(kept, dropped))
            return joined([sinks, _moved(encoding, later, rest(kept, dropped, later.shape[2]))])

        return made

    def stays(kept: int, dropped: int) -> int:
        return 0

    def back(kept: int, dropped: int, n: int) -> int:
        return -dropped

    rows: tuple[tuple[str, str, Callable[..., Truth]], ...] = (
        ("stale-cache", "no key moves: keys after the gap keep their positions in the text",
         by(stays, lambda kept, dropped, n: 0)),
        ("stale-cache", "the kept keys move on by the number of dropped keys",
         by(lambda kept, dropped: dropped, back)),
        ("stale-cache", "the kept keys move back too", by(lambda kept, dropped: -dropped, back)),
        *_some(partial(by, stays)),
        ("stale-cache", "keys after the gap are rotated anew to their places in the cache, "
         "although they are rotated already",
         by(stays, lambda kept, dropped, n: kept + np.arange(n))),
        ("stale-cache", "all keys are rotated anew to their places in the cache, although they "
         "are rotated already", _anew(encoding)),
        ("position-scale", "keys after the gap move back by twice the number of dropped keys",
         by(stays, lambda kept, dropped, n: -2 * dropped)),
        ("sign", "keys after the gap move on by the number of dropped keys, not back",
         by(stays, lambda kept, dropped, n: dropped)),
        ("decode-offset", "keys after the gap move back by one position too many",
         by(stays, lambda kept, dropped, n: -dropped - 1)),
        ("decode-offset", "keys after the gap move back by one position too few: a gap of one "
         "position is left", by(stays, lambda kept, dropped, n: -dropped + 1)),
        ("decode-offset", "keys after the gap move back by kept + dropped: the first of them has "
         "position 0, like the first kept key",
         by(stays, lambda kept, dropped, n: -dropped - kept)),
        ("decode-offset", "keys after the gap move back by the number of kept keys",
         by(stays, lambda kept, dropped, n: -kept)),
        ("kept-keys", "one key too few is kept, and one later key too many",
         by(stays, back, lambda kept, dropped, n: kept + dropped - 1, lambda kept: kept - 1)),
        ("kept-keys", "one key too many is kept, and one later key too few",
         by(stays, back, lambda kept, dropped, n: kept + dropped + 1, lambda kept: kept + 1)),
        ("kept-keys", "no key is kept: the first ones are dropped",
         by(stays, back, lambda kept, dropped, n: dropped, lambda kept: 0)),
        ("kept-keys", "the last keys are dropped, not those after the kept ones",
         by(stays, lambda kept, dropped, n: 0, lambda kept, dropped, n: kept)),
        ("kept-keys", "the right keys move back, but those after the kept ones are taken: the last "
         "keys are dropped", by(stays, back, lambda kept, dropped, n: kept)),
    )  # fmt: skip
    yield written(
        "stale-cache",
        "keys are moved in blocks as long as the gap, and the last, shorter block is left out: the "
        "cache keeps its old keys there",
        lambda *call: _last_block(encoding, *call),
        "Move the keys of the last, shorter block too.",
    )
    yield written(
        "stale-cache",
        "keys are moved within one buffer, the last one first: where more keys move than are "
        "dropped, they are read after other keys were written over them, and turn again",
        lambda *call: _last_first(encoding, *call),
        "Move the key after the gap first, then the next one, or write to another buffer.",
    )
    for n in (4, 1, 2, 8, 16):
        yield written(
            "kept-keys",
            f"kept = 0 is taken for a missing argument: {n} keys are kept",
            lambda k, kept, dropped, n=n: _evicted(
                encoding, k, kept or min(n, k.shape[2] - dropped), dropped
            ),
            "Test kept for None, not for truth: 0 keys may be kept.",
        )
    for code, message, function in rows:
        yield written(code, message, function)
    for code, message, other in rotary_variants(encoding):
        if code != "sign":
            yield written(code, message, lambda *call, of=other: _evicted(of, *call))
    if (m := encoding.attention_factor()) != 1.0:
        for what, size in (("is applied a second time", m), ("is divided out", 1 / m)):
            yield written(
                "attention-factor",
                f"the attention factor m = {m:.6g} {what}, for keys after the gap",
                lambda k, kept, dropped, by=size: _times(encoding, k, kept, dropped, by),
                "Rotate without m: rotated keys are multiplied by m already.",
            )


#: Some of the n keys after the gap, in words, and which they are, from their number i.
_SOME: tuple[tuple[str, Callable[..., np.ndarray]], ...] = (
    ("the newest key", lambda i, n, kept, dropped: i == n - 1),
    ("the first key after the gap", lambda i, n, kept, dropped: i == 0),
    ("the first `dropped` keys after the gap", lambda i, n, kept, dropped: i < dropped),
    ("the last `dropped` keys", lambda i, n, kept, dropped: i >= n - dropped),
    ("the first `kept` keys after the gap", lambda i, n, kept, dropped: i < kept),
    ("the last `kept` keys", lambda i, n, kept, dropped: i >= n - kept),
)


def _some(
    by: Callable[[Callable[[int, int, int], Any]], Callable[..., Truth]],
) -> Iterator[tuple[str, str, Callable[..., Truth]]]:
    """Yield evictions that move back some of the keys after the gap only."""
    for words, which in _SOME:
        one = words.endswith(("key", "key after the gap"))
        others = "the others" if "gap" in words else "the others after the gap"
        for moves, text in (
            (False, f"keep{'s its position' if one else ' their positions'} in the text; the "
             "others move back"),
            (True, f"move{'s' * one} back; {others} keep their positions in the text"),
        ):  # fmt: skip

            def rest(kept: int, dropped: int, n: int, moves: bool = moves, of: Any = which) -> Any:
                return -dropped * (of(np.arange(n), n, kept, dropped) == moves)

            yield "stale-cache", f"{words} {text}", by(rest)


def _last_first(encoding: Any, k: np.ndarray, kept: int, dropped: int) -> Truth:
    """Return the eviction whose places are filled from the last one on, within one buffer."""
    later = np.arange(k.shape[2] - kept - dropped)
    again = (later.size - 1 - later) // dropped if dropped else 0 * later
    taken = k[:, :, kept + dropped + later + again * dropped]
    moved = _moved(encoding, taken, -dropped * (again + 1))
    return joined([_moved(encoding, k[:, :, :kept], 0), moved])


def _last_block(encoding: Any, k: np.ndarray, kept: int, dropped: int) -> Truth:
    """Return the eviction with old keys in the places of a last block shorter than the gap."""
    truth = _evicted(encoding, k, kept, dropped)
    size = truth.value.shape[2]
    left = (size - kept) % dropped if dropped else 0
    value = np.array(truth.value)
    value[:, :, size - left :] = k[:, :, size - left : size]
    return Truth(value, truth.terms, truth.angle, truth.amplitude)


def _anew(encoding: Any) -> Callable[..., Truth]:
    def made(k: np.ndarray, kept: int, dropped: int) -> Truth:
        left = np.concatenate([k[:, :, :kept], k[:, :, kept + dropped :]], axis=2)
        return _moved(encoding, left, np.arange(left.shape[2]))

    return made


def _times(encoding: Any, k: np.ndarray, kept: int, dropped: int, size: float) -> Truth:
    """Return the eviction with the rotated channels of the moved keys multiplied by ``size``."""
    truth = _evicted(encoding, k, kept, dropped)
    later = np.arange(truth.value.shape[2])[:, None] >= kept
    by = np.where(later & (truth.terms > 0), size, 1.0)
    return Truth(truth.value * by, truth.terms * by, truth.angle * by)


EVICTED_ROWS = {
    "evict_keys": Plain(
        _calls, _mistakes, "stale-cache", integers=False, truth=_truth, remedy=lambda e: _RIGHT
    ),
}
