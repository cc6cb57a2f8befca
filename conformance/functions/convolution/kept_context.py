"""Convolutions that take tokens of the call before for those before the first token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import ConvPositions
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake, each_part


def kept_context(e: ConvPositions) -> Iterator[Mistake]:
    """Yield convolutions whose values before the first token are tokens of the call before."""
    left = int(e.weights[0].shape[2]) // 2
    for words, alike in (("", True), (", of whatever number of rows", False)):

        def predict(call: Any, alike: bool = alike) -> Truth | None:
            x, kept = call.arguments[0], None
            for (before,) in call.before:
                kept = before[:, -left:] if before.shape[1] >= left else kept
            if kept is None or (alike and len(kept) != len(x)):
                return call.truth(e.truth(x).value)  # type: ignore[no-any-return]
            if len(kept) not in (1, len(x)):
                return None
            wide = np.concatenate([np.broadcast_to(kept, (len(x), *kept.shape[1:])), x], axis=1)
            return each_part(e.truth(wide), lambda part: part[:, left:] if part.ndim else part)

        yield Mistake(
            "state",
            f"the last {left} tokens of the call before{words} are kept, and stand before the "
            "first token instead of zeros",
            predict,
            "Start every call with zeros before its first token: clear what is kept of the call "
            "before.",
        )
