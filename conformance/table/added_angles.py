"""Name sines and cosines of sums of angles whose addition theorem is written wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from posenc_ref import Sinusoidal
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import explains, likely, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness.probes import GENERIC
from posenc_ref.conformance.harness.reach import TableAccess
from posenc_ref.conformance.harness.run import Run

#: The smallest tile.
_LEAST = 3
#: The rows from 0 on that are compared.
_ROWS = 520
#: The factors of sin a cos b, cos a sin b, cos a cos b and sin a sin b: 1, 1, 1 and -1 are right.
_RIGHT = (1, 1, 1, -1)
_TERMS = ("sin a cos b", "cos a sin b", "cos a cos b", "sin a sin b")


def wrong_addition(run: Run, access: TableAccess, encoding: Sinusoidal) -> bool:
    """Report a wrong term of an addition theorem that gives all rows; return whether one does.

    The position is the sum of the start of a tile, a, and of the index in the tile, b.
    """
    calls = []
    for at in map(access.within, (np.arange(48), np.arange(_ROWS), GENERIC)):
        case = f"positions {at[0]}..{at[-1]}"
        truth = encoding.truth(at)
        calls.append(JudgedCall(case, access.rows(at), truth, (at, truth)))
    off = (run.scores(calls[1].actual, calls[1].truth) > run.budget).any(axis=1)
    first = int(np.argmax(off))  # in the first tile, a is 0
    sizes = [n for n in (first - 1, first) if n >= _LEAST]
    for mistake in likely(run, calls, _additions(encoding, sizes)):
        if explains(run, calls, mistake):
            return match(run, calls, [mistake])
    return False


def _additions(encoding: Sinusoidal, sizes: list[int]) -> Iterator[Mistake]:
    for term, name in enumerate(_TERMS):
        kept = "sin(a + b) = " if term < 2 else "cos(a + b) = "
        one, two = _TERMS[:2] if term < 2 else _TERMS[2:]
        right = f"{kept}{one} {'+' if term < 2 else '-'} {two}"
        for n in sizes:
            for words, by in (("has the opposite sign", -1), ("is left out", 0)):
                factors = [f * (by if i == term else 1) for i, f in enumerate(_RIGHT)]
                yield Mistake(
                    "sign" if by else "amplitude",
                    f"angles are added in tiles of {n} positions, {right}, and the term {name} "
                    f"{words}; a is the angle of the tile's start, b that of the index in the tile",
                    partial(_added, encoding, n, tuple(factors)),
                    f"Compute {right}.",
                )


def _added(
    encoding: Sinusoidal, n: int, factors: tuple[int, ...], facts: tuple[np.ndarray, Truth]
) -> Truth:
    at, truth = facts
    sines, cosines = encoding.columns()
    start = at // n * n
    w = encoding.frequencies()
    a, b = (np.multiply.outer(p, w) for p in (start + encoding.offset, at - start))
    terms = [f * x for f, x in zip(factors, (
        np.sin(a) * np.cos(b), np.cos(a) * np.sin(b), np.cos(a) * np.cos(b), np.sin(a) * np.sin(b),
    ), strict=True)]  # fmt: skip
    value = np.array(truth.value)
    value[:, sines] = encoding.scale * (terms[0] + terms[1])[:, : sines.size]
    value[:, cosines] = encoding.scale * (terms[2] + terms[3])[:, : cosines.size]
    return Truth(value, np.maximum(truth.terms, np.abs(value)), truth.angle, truth.amplitude)
