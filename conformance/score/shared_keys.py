"""Keys that are changed for some query heads of a group only, such as in place in a shared view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import Bias, Rotary, XPos
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import each_part
from posenc_ref.conformance.oracle.scores import Parts, Scored

from .changed import Change

#: Returns how often a step is applied to the keys of query heads m of a group of g: once is right.
_Times = Callable[[np.ndarray, int], np.ndarray]
#: The query heads of a group, in words, and how often a step is applied to their keys.
_MEMBERS: tuple[tuple[str, str, _Times], ...] = (
    ("m + 1 times", "query head m of each group (from 0), as in place, in one shared view, in turn",
     lambda m, g: m + 1),
    ("twice", "the second query head of each group", lambda m, g: 1 + (m == 1)),
    ("twice", "the last query head of each group", lambda m, g: 1 + ((m == g - 1) & (m > 0))),
    ("twice", "all query heads of a group but the first", lambda m, g: 1 + (m > 0)),
    ("twice", "every second query head of a group", lambda m, g: 1 + m % 2),
    ("twice", "all query heads of groups of two and more", lambda m, g: 1 + (g > 1) + 0 * m),
    ("as often as their group has query heads", "all query heads of it", lambda m, g: g + 0 * m),
    ("never", "all query heads of a group but the first", lambda m, g: (m == 0) + 0 * m),
    ("never", "the second query head of each group", lambda m, g: (m != 1) + 0 * m),
    ("never", "the last query head of each group", lambda m, g: 1 - ((m == g - 1) & (m > 0))),
    ("never", "all query heads of groups of two and more", lambda m, g: (g == 1) + 0 * m),
)  # fmt: skip


def shared_key_changes(declared: Any) -> Iterator[Change]:
    """Yield keys that are rotated, or scaled, not once for some query heads of a group."""
    right = (
        "Change the keys once, before they are repeated for the query heads of a group, and not "
    )
    right += "in place."
    for often, whose, times in _MEMBERS:
        if isinstance(declared, Rotary) and not isinstance(declared, XPos):
            text = f"keys are rotated {often}, not once, for {whose}"
            yield "head-order", text, partial(_rotated, times), right
        if (declared is None or isinstance(declared, Rotary | Bias)) and often != "never":
            text = f"keys are multiplied by the softmax scale {often}, not once, for {whose}"
            yield "softmax-scale", text, partial(_scaled, times), right


def _counts(times: _Times, call: Scored) -> np.ndarray:
    """Return how often the step is applied to the keys of each query head."""
    return np.asarray(times(np.arange(call.q.shape[1]) % call.group, call.group))


def _rotated(times: _Times, call: Scored) -> Parts:
    counts, plain = _counts(times, call), call.parts()
    if (counts == 1).all():
        return plain
    q_at, k_at = call.positions
    found = plain["q.k"]
    for n in set(counts.tolist()) - {1}:
        moved = call.replace(q_at=q_at, k_at=n * k_at).dot()
        here = (counts == n)[:, None, None]
        found = Truth(*(
            np.where(here, getattr(moved, part), getattr(found, part))
            for part in ("value", "terms", "angle")
        ))  # fmt: skip
    return plain | {"q.k": found}


def _scaled(times: _Times, call: Scored) -> Parts:
    by = call.scale ** (_counts(times, call) - 1.0)[:, None, None]
    return call.parts() | {"q.k": each_part(call.dot(), lambda part: part * by)}
