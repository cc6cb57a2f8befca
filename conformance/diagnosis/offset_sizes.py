"""Measure at which offsets results are wrong: the sizes of a bound, of a period or of a tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref.conformance.harness.run import Run

from .mistake import JudgedCall
from .scored import scores

#: The largest tile that is considered.
_WIDEST = 1024


@dataclass(frozen=True)
class Sizes:
    """Sizes that changes of an offset may have; they are measured on wrong and right results."""

    bounds: tuple[int, ...] = ()  #: offsets of at most this size are right
    tiles: tuple[int, ...] = ()  #: multiples of this are right


def sizes_of(run: Run, calls: Sequence[JudgedCall], offsets: Callable[[Any], np.ndarray]) -> Sizes:
    """Return the sizes that the wrong results suggest.

    ``offsets`` returns query - key (Q, K) from the facts of a call.
    """
    wrong: set[int] = set()
    right: set[int] = set()
    for one in calls:
        off = scores(run, one, one.truth) > run.budget
        rest = tuple(range(off.ndim - 2))
        r = np.broadcast_to(offsets(one.facts), off.shape[-2:])
        seen = np.broadcast_to(True if one.mask is None else one.mask, off.shape).any(axis=rest)
        bad = np.asarray(off.any(axis=rest))
        wrong |= set(np.unique(r[bad]).tolist())
        right |= set(np.unique(r[seen & ~bad]).tolist())
    return sizes_among(wrong, right - wrong)


def sizes_among(wrong: set[int], right: set[int]) -> Sizes:
    """Return the sizes that the offsets of wrong results and those of right ones suggest."""
    if not wrong:
        return Sizes()
    bounds = {min(map(abs, wrong)) - 1}
    for side in (1, -1):  # the bounds of both directions may differ
        bounds |= {min(side * r for r in wrong if side * r > 0) - 1} if any(
            side * r > 0 for r in wrong
        ) else set()  # fmt: skip
    tile = int(np.gcd.reduce([abs(r) for r in right] or [0]))
    return Sizes(tuple(sorted(n for n in bounds if n > 0)), (tile,) if 1 < tile <= _WIDEST else ())
