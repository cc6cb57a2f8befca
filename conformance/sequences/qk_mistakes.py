"""Known mistakes of calls with queries and keys: wrong positions of either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from posenc_ref import Rotary, XPos
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.position_mistakes import batch, heads
from posenc_ref.conformance.oracle.apply import identical

from .cases_qk import Side

#: A function that returns the positions a mistake uses, or None where it is impossible.
Positions = Callable[[Side], np.ndarray | None]


def qk_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    """Yield the known mistakes of calls with queries and keys, likely ones first."""

    def at(positions: Positions, only: bool | None = None) -> Callable[[Side], Truth | None]:
        """Return a ``predict`` with new positions of keys (only=True), queries (False) or both."""

        def predict(side: Side) -> Truth | None:
            p = positions(side) if only in (None, side.keys) else side.positions
            if p is None or p.shape[-1] != side.x.shape[2]:
                return None
            return replace(side, positions=p).truth()

        return predict

    def index(of: Callable[[np.ndarray], np.ndarray]) -> Positions:
        return lambda side: None if side.encoding.num_axes > 1 else of(side.x)

    def from_0(side: Side) -> np.ndarray:
        return np.arange(side.x.shape[2])

    def first_row(side: Side) -> np.ndarray | None:
        return side.positions[..., :1, :] if side.positions.ndim > 1 else None

    for what, other, only in (
        ("keys", "queries", True),
        ("queries", "keys", False),
        ("queries and keys", "", None),
    ):
        if other:
            yield Mistake(
                "wrong-row",
                f"{what} get the positions of the {other}",
                at(lambda side: side.others, only),
                "Index the table once for the queries and once for the keys.",
            )
        for code, message, positions in (
            ("decode-offset", f"{what} are rotated as if they started at 0", from_0),
            ("row-offset", f"all rows of {what} get the positions of the first one", first_row),
            ("position-axis", f"the head index is used as the position of {what}", index(heads)),
            ("position-axis", f"the row index is used as the position of {what}", index(batch)),
        ):
            yield Mistake(code, message, at(positions, only))
    for what, keys in (("keys", True), ("queries", False)):
        yield Mistake(
            "frequency-spacing",
            f"{what} are not rotated",
            lambda side, keys=keys: identical(side.x) if side.keys == keys else side.truth(),  # type: ignore[misc]
            f"Rotate the {what} too, each by the angles of its own position.",
        )
    if not isinstance(encoding, XPos):
        for message, only in (
            ("queries and keys turn the other way: by -angle", None),
            ("queries and keys turn opposite ways: keys by -angle", True),
            ("queries and keys turn opposite ways: queries by -angle", False),
        ):
            yield Mistake(
                "sign",
                message,
                at(lambda side: -side.positions, only),
                "Rotate both by +angle: their dot product then depends on the difference of "
                "positions.",
            )
