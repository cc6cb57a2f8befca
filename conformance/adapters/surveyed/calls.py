"""How functions of PyTorch that take no positions, or that hide their logits, are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from posenc_ref.conformance.calling.positions import require_indices, window_start

#: The most tokens of a call whose only positions are those of a sequence from 0 on.
LONGEST = 8192


def from_zero(rotate: Callable[[Any], Any], longest: int = LONGEST) -> Callable[[Any, Any], Any]:
    """Return ``apply`` for ``rotate(x (B, H, S, D))``, which rotates token p to position p.

    The vectors are put at the end of a sequence that begins at position 0.
    """

    def apply(x: Any, positions: Any) -> Any:
        start = window_start(positions)
        end = start + x.shape[-2]
        if end > longest:
            raise ValueError(f"positions must be below {longest}: a call rotates all from 0 on")
        whole = x.new_zeros((*x.shape[:-2], end, x.shape[-1]))
        whole[..., start:, :] = x
        return rotate(whole)[..., start:, :]

    return apply


def gathered(cos: Any, sin: Any, rotate: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    """Return ``apply`` that looks positions up in tables (P, ...), for x (B, H, S, D).

    ``rotate`` gets x, cos and sin, each (1 or B, 1, S, ...).
    """

    def apply(x: Any, positions: Any) -> Any:
        require_indices(positions)
        rows = positions if positions.ndim > 1 else positions[None]
        return rotate(x, cos[rows][:, None], sin[rows][:, None])

    return apply


def rows_of(table: Any) -> Callable[[Any], Any]:
    """Return the function of positions that takes the rows of ``table`` (P, dim)."""

    def rows(positions: Any) -> Any:
        require_indices(positions)
        return table[positions]

    return rows


def require_equal_lengths(q: Any, k: Any) -> None:
    """Raise ValueError unless there are as many queries as keys, (B, H, S, D) each."""
    if q.shape[-2] != k.shape[-2]:
        raise ValueError("q and k must have equal lengths: the layer is one of self-attention")


@contextmanager
def captured(owner: Any, name: str, argument: int | None = None) -> Iterator[list[Any]]:
    """Replace ``owner.name`` by itself; collect its results, or one of its arguments.

    Layers do not return their logits, and softmax or a mask loses them.
    """
    function, seen = getattr(owner, name), []

    def watched(*given: Any, **settings: Any) -> Any:
        result = function(*given, **settings)
        seen.append((result if argument is None else given[argument]).clone())
        return result

    with mock.patch.object(owner, name, watched):
        yield seen
