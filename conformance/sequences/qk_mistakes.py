"""What calls with queries and keys are known to get wrong: whose positions each side gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from posenc_ref import Rotary, XPos
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake

from .cases_qk import Side


def qk_suspects(encoding: Rotary) -> Iterator[Mistake]:
    """What is known to go wrong between the two, the likelier first."""

    def at(
        positions: Callable[[Side], np.ndarray | None], only: bool | None = None
    ) -> Callable[[Side], Truth | None]:
        """Both sides, or only the keys (True) or queries (False), at these positions."""

        def predict(side: Side) -> Truth | None:
            if only is not None and side.keys != only:
                return side.truth()
            p = positions(side)
            if p is None or p.shape[-1] != side.x.shape[2]:
                return None
            return side.at(p)

        return predict

    def index(side: Side) -> np.ndarray:
        return np.arange(side.x.shape[2])

    for what, only in (("keys", True), ("queries", False), ("queries and keys", None)):
        other = {"keys": "queries", "queries": "keys"}.get(what)
        if other:
            yield Mistake(
                "wrong-row",
                f"{what} get the positions of the {other}",
                at(lambda side: side.others, only),
                remedy="Index the table once for the queries and once for the keys.",
            )
        yield Mistake(
            "decode-offset", f"{what} are rotated as if they started at 0", at(index, only)
        )
        yield Mistake(
            "row-offset",
            f"all rows of {what} get the positions of the first one",
            at(lambda side: side.positions[..., :1, :] if side.positions.ndim > 1 else None, only),
        )
        yield Mistake(
            "position-axis",
            f"the head index is taken for the position of {what}",
            at(_heads, only),
        )
        yield Mistake(
            "position-axis",
            f"the row index is taken for the position of {what}",
            at(_rows, only),
        )
    yield Mistake(
        "frequency-spacing",
        "keys are not rotated",
        lambda side: _raw(side) if side.keys else side.truth(),
    )
    yield Mistake(
        "frequency-spacing",
        "queries are not rotated",
        lambda side: side.truth() if side.keys else _raw(side),
    )
    if not isinstance(encoding, XPos):
        yield Mistake(
            "sign",
            "queries and keys turn opposite ways",
            lambda side: side.at(-side.positions) if side.keys else side.truth(),
            remedy="Rotate both by +angle: the logit's own transpose brings the difference.",
        )


def _heads(side: Side) -> np.ndarray | None:
    if side.encoding.num_axes > 1:
        return None
    return np.broadcast_to(np.arange(side.x.shape[1])[:, None], side.x.shape[:-1])


def _rows(side: Side) -> np.ndarray | None:
    if side.encoding.num_axes > 1:
        return None
    return np.broadcast_to(np.arange(side.x.shape[0])[:, None, None], side.x.shape[:-1])


def _raw(side: Side) -> Truth:
    zero = np.zeros_like(side.x)
    return Truth(side.x, zero, zero)
