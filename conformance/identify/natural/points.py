"""Functions of coordinates, several numbers for each token, as tables or rotations of axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref.conformance.harness.foreign import Refused
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import ROWS
from .foreign import Foreign
from .rows import Parts, tokens_of, turns
from .tables import rotation

#: The numbers of coordinates to try: those of boxes, points in space, points, boxes in space.
_COUNTS = (4, 3, 2, 6)
Form = Callable[[np.ndarray], Any]
#: The shapes of coordinates, from (A, N).
_FORMS: tuple[tuple[str, Form], ...] = (
    ("(N, A)", lambda p: p.T),
    ("(1, N, A)", lambda p: p.T[None]),
    ("(N, 1, A)", lambda p: p.T[:, None]),
    ("(A, N)", lambda p: p),
    ("(A, 1, N)", lambda p: p[:, None]),
    ("(A, 1, 1, N)", lambda p: p[:, None, None]),
)
#: Those of functions of vectors x too, which have a batch.
_BATCHED = tuple(form for form in _FORMS if form[0].startswith(("(1,", "(A, 1,")))


def coordinates(fn: Foreign, axes: int = 1) -> Iterator[Implementation]:
    """Yield a function of coordinates as a table or a rotation of so many axes, by default any."""
    for count in (axes,) if axes > 1 else _COUNTS:
        for words, form in _FORMS if "x" not in fn.required else _BATCHED:
            ask = _asked(fn, form)
            parts = next((p for p in _probes(count) if _every_axis(ask, p)), None)
            if parts is None:
                continue
            found = list(_seen(fn, count, ask, ask(parts), f"{count} coordinates {words}"))
            yield from found
            if found:
                return


def _seen(
    fn: Foreign, count: int, ask: Callable[[np.ndarray], Parts], parts: Parts, words: str
) -> Iterator[Implementation]:
    """Yield what the arrays for coordinates may be: a rotation, and a table."""
    words = words.replace("A", str(count))
    turn = turns(ask(_probes(count)[1])) if parts[0].dtype.kind in "fc" else None
    if turn is not None and (len(parts) > 1 or parts[0].ndim != 2 or turn.layout):
        yield rotation(fn, ask, turn, parts, count, words)
    if len(parts) != 1 or parts[0].ndim != 2 or parts[0].dtype.kind != "f":
        return

    def table(positions: np.ndarray) -> np.ndarray:
        return ask(np.asarray(positions, np.float32))[0]

    def inverted(positions: np.ndarray) -> np.ndarray:
        p = np.asarray(positions, np.float64)
        if p.size and not (p.min() >= 0 and p.max() <= 1):
            raise ValueError("coordinates must be from 0 to 1: the function takes their logits")
        with np.errstate(divide="ignore"):
            return ask((np.log(p) - np.log1p(-p)).astype(np.float32))[0]

    yield Implementation(table, "table", fn.name, axes=count, how=words)
    how = f"the logits of {words}: the function takes their sigmoid"
    yield Implementation(inverted, "table", fn.name, axes=count, how=how)


def _probes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return coordinates (A, N) of trial calls: parts of 1, and whole numbers."""
    parts = np.random.default_rng(0).uniform(0.1, 0.9, (count, ROWS)).astype(np.float32)
    whole = np.stack([(np.arange(ROWS) * (a + 1)) % ROWS for a in range(count)])
    return parts, whole


def _asked(fn: Foreign, form: Form) -> Callable[[np.ndarray], Parts]:
    def ask(p: np.ndarray) -> Parts:
        given = form(p)
        by_role = dict.fromkeys(("positions", "x", "points", "grid"), given)
        if {"positions", "x"} <= fn.roles:  # x has the dtype and the device alone
            by_role["x"] = np.zeros((1, 1, 1, fn.facts.by_role["head_dim"]))
        return tokens_of(fn(given, **by_role), (p.shape[1],))

    return ask


def _every_axis(ask: Callable[[np.ndarray], Parts], given: np.ndarray) -> bool:
    """Return whether a call succeeds, and depends on every coordinate."""
    step = np.float32(0.05) if given.dtype.kind == "f" else 1
    try:
        first = ask(given)
        for axis in range(len(given)):
            moved = given.copy()
            moved[axis] += step
            rows = zip(first, ask(moved), strict=True)
            if not any((a != b).reshape(len(a), -1).any(axis=1).all() for a, b in rows):
                return False
    except (Refused, ValueError):
        return False
    return True
