"""Known mistakes of calls with queries and keys: wrong positions of either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from posenc_ref import Rotary, XPos
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis import position_mistakes
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.oracle.apply import identical

from .cases_qk import Side


def qk_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    """Yield the known mistakes of calls with queries and keys, likely ones first."""

    def at(
        positions: Callable[[Side], np.ndarray | None], only: bool | None = None
    ) -> Callable[[Side], Truth | None]:
        """Return a prediction with these positions for keys (True), queries (False), or both."""

        def predict(side: Side) -> Truth | None:
            if only is not None and side.keys != only:
                return side.truth()
            p = positions(side)
            return (
                None
                if p is None or p.shape[-1] != side.x.shape[2]
                else replace(side, positions=p).truth()
            )

        return predict

    def index(of: Callable[[np.ndarray], np.ndarray]) -> Callable[[Side], np.ndarray | None]:
        return lambda side: None if side.encoding.num_axes > 1 else of(side.x)

    for what, only in (("keys", True), ("queries", False), ("queries and keys", None)):
        other = {"keys": "queries", "queries": "keys"}.get(what)
        if other:
            yield Mistake(
                "wrong-row",
                f"{what} get the positions of the {other}",
                at(lambda side: side.others, only),
                "Index the table once for the queries and once for the keys.",
            )
        for code, message, positions in (
            (
                "decode-offset",
                f"{what} are rotated as if they started at 0",
                lambda side: np.arange(side.x.shape[2]),
            ),
            (
                "row-offset",
                f"all rows of {what} get the positions of the first one",
                lambda side: side.positions[..., :1, :] if side.positions.ndim > 1 else None,
            ),
            (
                "position-axis",
                f"the head index is taken for the position of {what}",
                index(position_mistakes.heads),
            ),
            (
                "position-axis",
                f"the row index is taken for the position of {what}",
                index(position_mistakes.batch),
            ),
        ):
            yield Mistake(code, message, at(positions, only))
    for what, keys in (("keys", True), ("queries", False)):
        yield Mistake(
            "frequency-spacing",
            f"{what} are not rotated",
            lambda side, keys=keys: identical(side.x) if side.keys == keys else side.truth(),  # type: ignore[misc]
        )
    if not isinstance(encoding, XPos):
        yield Mistake(
            "sign",
            "queries and keys turn opposite ways",
            lambda side: (replace(side, positions=-side.positions) if side.keys else side).truth(),
            "Rotate both by +angle: their dot product then depends on the difference of positions.",
        )
