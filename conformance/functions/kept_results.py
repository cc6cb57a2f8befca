"""Plain functions that return the result of an earlier call, kept under a part of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake


def _number(argument: Any) -> Hashable:
    return np.shape(argument) if np.ndim(argument) else float(argument)


#: Under what a result is kept, in words, and the key of the arguments of a call.
_KEYS: tuple[tuple[str, Callable[[tuple[Any, ...]], Hashable]], ...] = (
    ("of the same shapes", lambda a: tuple(map(_number, a))),
    ("of the same shapes, whatever its numbers are", lambda a: tuple(map(np.shape, a))),
    ("whose first one has the same shape", lambda a: np.shape(a[0])),
    ("whose first one is the same", lambda a: _number(a[0])),
    ("whose last one is the same", lambda a: _number(a[-1])),
    ("that are the same but for the last", lambda a: tuple(map(_number, a[:-1]))),
)


def kept_results(own: Callable[..., Any]) -> Iterator[Mistake]:
    """Yield functions that return what they returned for arguments that are only alike.

    ``own`` returns the declared result.
    """
    for words, key in _KEYS:
        yield Mistake(
            "state",
            f"a call returns the result of the first call with arguments {words}",
            partial(_kept, own, key),
            "Make every argument that the result depends on a part of the key of what is kept, or "
            "keep nothing.",
        )


def _kept(
    own: Callable[..., Any], key: Callable[[tuple[Any, ...]], Hashable], call: Any
) -> Truth | None:
    if not call.arguments:
        return None
    wanted = key(call.arguments)
    first = next((a for a in call.before if key(a) == wanted), call.arguments)
    value = np.asarray(own(*first), np.float64)
    if value.shape != np.shape(own(*call.arguments)):
        return None
    kept: Truth = call.truth(value)
    return kept
