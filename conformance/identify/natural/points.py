"""Tables of boxes (N, 4) as tables of four axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref.conformance.harness.foreign import Refused
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import ROWS
from .foreign import Foreign
from .rows import tokens_of


def boxes(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of boxes, four numbers each, as a table of four axes."""
    forms: tuple[tuple[str, Callable[[np.ndarray], Any]], ...] = (
        ("(N, 4)", lambda p: p.T),
        ("(N, 1, 4)", lambda p: p.T[:, None]),
        ("(1, N, 4)", lambda p: p.T[None]),
    )
    given = np.random.default_rng(0).uniform(0.1, 0.9, (4, ROWS)).astype(np.float32)
    for words, form in forms:

        def table(positions: np.ndarray, form: Callable[[np.ndarray], Any] = form) -> np.ndarray:
            p = form(np.asarray(positions, np.float32))
            found = tokens_of(fn(p, positions=p, x=p, points=p), (positions.shape[1],))
            if len(found) != 1 or found[0].ndim != 2 or found[0].dtype.kind != "f":
                raise ValueError("expected one array (N, dim)")
            return found[0]

        try:
            first = table(given)
            moved = [table(given + np.float32(0.05) * np.eye(4, dtype=np.float32)[:, [a]])
                     for a in range(4)]  # fmt: skip
        except (Refused, ValueError):
            continue
        if all((first != other).any(axis=1).all() for other in moved):
            yield Implementation(table, "table", fn.name, axes=4, how=f"boxes {words}")
            return
