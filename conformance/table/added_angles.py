"""Name sines and cosines of sums of angles whose addition theorem is written wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np

from posenc_ref import Sinusoidal
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import explains, likely, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness.probes import GENERIC
from posenc_ref.conformance.harness.reach import TableAccess
from posenc_ref.conformance.harness.run import Run

#: The products of the sines and cosines of a and b.
Products = dict[str, np.ndarray]
#: Sizes of tiles, beside those that the first wrong row shows; the smallest of these.
_TILES = (4, 8, 10, 16, 32, 50, 64, 100, 128, 256, 512, 1000, 1024)
_LEAST = 3
#: How near a wrong right-hand side must come, for a scale of 1.
_NEAR = 0.05
#: The rows that show which terms are wrong: around the ends of tiles.
_FEW = np.unique([1, 2, 3, *(n + k for n in _TILES for k in (-1, 0, 1, 3))])
#: Wrong right-hand sides, in words; the first of each is right.
_SINES: tuple[tuple[str, Callable[[Products], np.ndarray]], ...] = (
    ("sin a cos b + cos a sin b", lambda t: t["sc"] + t["cs"]),
    ("sin a cos b - cos a sin b", lambda t: t["sc"] - t["cs"]),
    ("cos a sin b - sin a cos b", lambda t: t["cs"] - t["sc"]),
    ("sin a cos b", lambda t: t["sc"]),
    ("cos a sin b", lambda t: t["cs"]),
    ("cos a cos b + sin a sin b", lambda t: t["cc"] + t["ss"]),
    ("sin a + sin b", lambda t: t["s"]),
)
_COSINES: tuple[tuple[str, Callable[[Products], np.ndarray]], ...] = (
    ("cos a cos b - sin a sin b", lambda t: t["cc"] - t["ss"]),
    ("cos a cos b + sin a sin b", lambda t: t["cc"] + t["ss"]),
    ("cos a cos b", lambda t: t["cc"]),
    ("sin a cos b - cos a sin b", lambda t: t["sc"] - t["cs"]),
    ("cos a + cos b", lambda t: t["c"]),
)


def wrong_addition(run: Run, access: TableAccess, encoding: Sinusoidal) -> bool:
    """Report a wrong addition theorem that gives all rows; return whether one does.

    The position is the sum of the start of a tile, a, and of the index in the tile, b.
    """
    calls = []
    for at in map(access.within, (_FEW, np.arange(520), GENERIC)):
        truth = encoding.truth(at)
        case = f"positions {at[0]}..{at[-1]}"
        calls.append(JudgedCall(case, access.rows(at), truth, (at, truth)))
    off = (run.scores(calls[1].actual, calls[1].truth) > run.budget).any(axis=1)
    first = int(np.argmax(off))  # in the first tile, a is 0
    sizes = dict.fromkeys(n for n in (first - 1, first, *_TILES) if n >= _LEAST)
    for mistake in likely(run, calls, _additions(encoding, calls[0], [*sizes])):
        if explains(run, calls, mistake):
            return match(run, calls, [mistake])
    return False


def _additions(encoding: Sinusoidal, few: JudgedCall, sizes: list[int]) -> Iterator[Mistake]:
    """Yield wrong right-hand sides of both theorems that are near the rows of a call."""
    sines, cosines = encoding.columns()
    for n in sizes:
        terms = _products(encoding, n, few.facts[0])
        near = [
            [
                i
                for i, (_, of) in enumerate(sides)
                if np.abs(encoding.scale * of(terms)[:, : columns.size] - few.actual[:, columns])
                .max(initial=0.0) < _NEAR * abs(encoding.scale)
            ]
            for sides, columns in ((_SINES, sines), (_COSINES, cosines))
        ]  # fmt: skip
        for one, two in product(*near):
            if one or two:
                yield _addition(encoding, n, one, two)


def _addition(encoding: Sinusoidal, n: int, one: int, two: int) -> Mistake:
    both = (("sin", one, _SINES), ("cos", two, _COSINES))
    said, right = (
        " and ".join(f"{name}(a + b) = {sides[i * used][0]}" for name, i, sides in both if i)
        for used in (1, 0)
    )
    return Mistake(
        "sign",
        f"angles are added in tiles of {n} positions, but {said}; a is the angle of the start of a "
        "tile, b that of the index in it",
        partial(_added, encoding, n, one, two),
        f"Compute {right}.",
    )


def _products(encoding: Sinusoidal, n: int, at: np.ndarray) -> Products:
    start = at // n * n
    w = encoding.frequencies()
    a, b = (np.multiply.outer(p, w) for p in (start + encoding.offset, at - start))
    (sa, ca), (sb, cb) = ((np.sin(x), np.cos(x)) for x in (a, b))
    return {"sc": sa * cb, "cs": ca * sb, "cc": ca * cb, "ss": sa * sb, "s": sa + sb, "c": ca + cb}


def _added(
    encoding: Sinusoidal, n: int, one: int, two: int, facts: tuple[np.ndarray, Truth]
) -> Truth:
    at, truth = facts
    sines, cosines = encoding.columns()
    terms, value = _products(encoding, n, at), np.array(truth.value)
    value[:, sines] = encoding.scale * _SINES[one][1](terms)[:, : sines.size]
    value[:, cosines] = encoding.scale * _COSINES[two][1](terms)[:, : cosines.size]
    return Truth(value, np.maximum(truth.terms, np.abs(value)), truth.angle, truth.amplitude)
