"""Tables of cos and sin, or of angles, that rotations take: how to get their rows.

Every trial call uses a number of rows that no other axis has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posenc_ref.conformance.harness.foreign import Refused, refusals

from .facts import Facts
from .libraries import namespace, to_host
from .roles import role_of
from .rows import ONE_ROW, Rows
from .signatures import signature_of

#: The number of rows in a trial call, and the most rows that a table is made for.
ROWS, MOST_ROWS = 11, 131072
#: The shapes of x that a table of a whole sequence may be made for; n is the length.
_SEQUENCES: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "(1, n, D)": lambda n, d: (1, n, d),
    "(1, 1, n, D)": lambda n, d: (1, 1, n, d),
    "(1, n, 1, D)": lambda n, d: (1, n, 1, d),
    "(n, 1, 1, D)": lambda n, d: (n, 1, 1, d),
}


#: The kinds of sources that take positions.
AT_POSITIONS = ("positions", "row of positions", "positions as x")


class NoTable(ValueError):
    """A callable returns no table of cos and sin; the message says what was tried."""


@dataclass(frozen=True)
class Source:
    """A callable that gives a table, and how to call it."""

    call: Callable[..., Any]
    facts: Facts
    words: str  #: describes it in a report, such as "LlamaRotaryEmbedding(x, position_ids)"
    #: What is passed: "positions" (B, S), "row of positions" (S,), "positions as x" (S,), "length",
    #: a sequence x of this shape (a key of _SEQUENCES), or "nothing".
    kind: str = "?"
    templates: tuple[tuple[int, ...], ...] = ()  #: the shape of each part; -1 is the axis of rows
    stacked: bool = False  #: whether one array holds cos and sin in its first axis
    form: str = ""  #: "cos, sin", "sin, cos", "complex", "angles", "cos|sin", "sin|cos" or "other"
    every_length: bool = True  #: whether the rows do not depend on the length of the table
    kept: dict[Any, Any] = field(default_factory=dict, compare=False)

    def rows(self, x: Any, positions: Any) -> Rows:
        """Return the rows at ``positions``, (S,), (B, S) or (A, B, S), for the vectors ``x``."""
        if positions.ndim == 3:
            if self.kind not in AT_POSITIONS:
                raise ValueError("positions have several axes, but the table has one")
            return Rows(self._parts(self._called(x, positions=positions)), True, whole=True)
        batched = positions.ndim == 2
        if self.kind in AT_POSITIONS:
            given = positions[None] if self.kind == "positions" and not batched else positions
            if batched and self.kind != "positions":
                raise ValueError(ONE_ROW)
            parts = self._parts(self._called(x, positions=given))
            shape = tuple(positions.shape)
            found = [
                p.reshape((*shape, *trail(p, t)))
                for p, t in zip(parts, self.templates, strict=True)
            ]
            return Rows(tuple(found), batched)
        values = np.asarray(to_host(positions))
        if values.dtype.kind not in "iu" or (values < 0).any():
            raise ValueError("positions must be integers >= 0: they select rows of a table")
        if values.max(initial=0) >= MOST_ROWS:
            raise ValueError(f"the suite makes no table longer than {MOST_ROWS} rows")
        every = self.every_row(x, int(values.max(initial=0)) + 1)
        if values.max(initial=0) >= every[0].shape[0]:
            raise ValueError(f"positions must be below {every[0].shape[0]}, the rows of the table")
        return Rows(tuple(_selected(part, positions, values, x) for part in every), batched)

    def every_row(self, x: Any, length: int) -> tuple[Any, ...]:
        """Return the rows of positions 0 .. length-1, each part as (length, ...)."""
        key = (str(x.dtype), str(getattr(x, "device", "")))
        known, kept = self.kept.get(key, (0, ()))
        if self.every_length and length <= known:
            return kept  # type: ignore[no-any-return]
        if self.every_length:  # a power of two, so that few tables are made
            length = max(64, 1 << (length - 1).bit_length())
        parts = self._parts(self._called(x, length=length))
        found = tuple(
            p.reshape((p.shape[_row_axis(t)], *trail(p, t)))
            for p, t in zip(parts, self.templates, strict=True)
        )
        self.kept[key] = (length, found)
        return found

    def cos_sin(self, rows: Rows) -> Rows:
        """Return rows of cos and of sin, for rotations that take both."""
        parts = rows.parts
        xp = namespace(parts[0])
        if self.form == "complex":
            parts = (xp.real(parts[0]), xp.imag(parts[0]))
        elif self.form == "angles":
            parts = (xp.cos(parts[0]), xp.sin(parts[0]))
        elif len(parts) == 1:
            half = parts[0].shape[-1] // 2
            parts = (parts[0][..., :half], parts[0][..., half:])
        if len(parts) != 2:
            raise ValueError("the table has no cos and sin")
        if self.form in ("sin, cos", "sin|cos"):
            parts = (parts[1], parts[0])
        return replace(rows, parts=parts)

    def _called(self, x: Any, positions: Any = None, length: int | None = None) -> Any:
        also: dict[str, Any] = {"dtype": x.dtype, "device": getattr(x, "device", None)}
        xp = namespace(x)
        shape: tuple[int, ...] = (1, 1, length or 1, x.shape[-1])
        if positions is not None:
            also["positions"] = positions
            also["x"] = positions if self.kind == "positions as x" else x
        if length is not None:
            also |= {"length": length, "shape": (1, length)}
        if self.kind in _SEQUENCES and length is not None:
            shape = _SEQUENCES[self.kind](length, x.shape[-1])
        also.setdefault("x", xp.zeros(shape, dtype=x.dtype))
        if "device" in also and also["device"] is None:
            del also["device"]
        spare = length if positions is None else positions
        return self.call(**self.facts.arguments(self.call, also, spare=spare))

    def _parts(self, raw: Any) -> tuple[Any, ...]:
        parts = tuple(raw) if isinstance(raw, tuple | list) else (raw,)
        if len(parts) > 1:  # some return a scale as well
            parts = tuple(part for part in parts if getattr(part, "ndim", 0) > 1)[:2]
        if self.stacked:
            parts = (parts[0][0], parts[0][1])
        return parts


def find_source(call: Callable[..., Any], facts: Facts, words: str, like: Any) -> Source:
    """Return how to get rows from ``call``; ``like`` is an array such as x, with D channels.

    Raises
    ------
    NoTable
        No way of calling it returns an array with a row for each position.
    """
    tried = []
    for kind in _kinds(call):
        trial = Source(call, facts, words, kind)
        try:
            with refusals():
                return _measured(trial, like)
        except Refused as error:
            tried.append(f"called with {kind}: {error}")
    some = "; ".join(list(dict.fromkeys(tried))[:2])
    raise NoTable(f"{words} returns no table of cos and sin: {some}")


def _kinds(call: Callable[..., Any]) -> Iterator[str]:
    signature = signature_of(call).parameters
    roles = {role_of(name) for name in signature}
    if "shape" in roles:
        yield "shape"
    if "positions" in roles:
        yield "positions"
        yield "row of positions"
    if "length" in roles:
        yield "length"
    if "x" in roles:
        yield "positions as x"
        yield from _SEQUENCES
    yield "nothing"


def _measured(trial: Source, like: Any) -> Source:
    """Return the source with the shape and form of its table, or raise an exception."""
    xp = namespace(like)
    at = xp.arange(ROWS)
    if trial.kind in AT_POSITIONS:
        raw = trial._called(like, positions=at[None] if trial.kind == "positions" else at)
    else:
        raw = trial._called(like, length=ROWS)
    parts = trial._parts(raw)
    if not parts or not all(hasattr(part, "shape") for part in parts):
        raise ValueError("it returns no array")
    if len(parts) == 1 and parts[0].ndim > 2 and parts[0].shape[0] == 2:
        trial = replace(trial, stacked=True, kept={})
        parts = (parts[0][0], parts[0][1])
    rows = None if trial.kind != "nothing" else max(parts[0].shape)
    templates = tuple(template_of(tuple(part.shape), rows or ROWS) for part in parts)
    if any(_width(t) > 2 * like.shape[-1] for t in templates):
        raise ValueError(f"the rows of its table are too long: shape {tuple(parts[0].shape)}")
    found = replace(trial, templates=templates, kept={})
    first = found.rows(like, xp.zeros(2, dtype=at.dtype)).parts
    next_rows = found.rows(like, xp.ones(2, dtype=at.dtype)).parts
    pairs = zip(first, next_rows, strict=True)
    alike = all(np.array_equal(to_host(a), to_host(b)) for a, b in pairs)
    if alike and not any(np.any(to_host(part)) for part in first):
        raise ValueError("all rows are 0")
    if alike and found.kind not in ("positions", "row of positions", "length"):
        raise ValueError("all rows of its table are equal")
    return replace(found, form=form_of(first), kept={})


def template_of(shape: tuple[int, ...], rows: int) -> tuple[int, ...]:
    """Return ``shape`` with -1 for the axis of rows; axes before it must be 1."""
    if rows not in shape:
        raise ValueError(f"called for {rows} positions, it returns shape {shape}")
    axis = shape.index(rows)
    if any(n != 1 for n in shape[:axis]) or len(shape) < axis + 2:
        raise ValueError(
            f"its table has the shape {shape}: expected axes of 1, {rows} positions, channels"
        )
    return (*shape[:axis], -1, *shape[axis + 1 :])


def _selected(part: Any, positions: Any, values: np.ndarray, x: Any) -> Any:
    """Return rows of a table, as an array of x's library; tables may be NumPy's."""
    if isinstance(part, np.ndarray) and not isinstance(x, np.ndarray):
        xp = namespace(x)
        return xp.asarray(part[values], dtype=x.dtype) if part.dtype.kind == "f" else part[values]
    return part[positions]


def _row_axis(template: tuple[int, ...]) -> int:
    return template.index(-1)


def trail(part: Any, template: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of the axes after the rows, without singletons between."""
    after = template[template.index(-1) + 1 :]
    return tuple(n for n in after[:-1] if n != 1) + after[-1:]


def _width(template: tuple[int, ...]) -> int:
    """Return the number of channels in a row of a table; cos and sin may be in a last axis of 2."""
    width = 1
    for n in template[template.index(-1) + 1 :]:
        width *= n
    return width


def form_of(parts: tuple[Any, ...]) -> str:
    """Return the form of a table, recognized at position 0, where cos is 1 and sin is 0."""
    host = [np.asarray(to_host(part))[0].reshape(-1) for part in parts]
    if np.iscomplexobj(host[0]):
        return "complex"
    if len(host) == 2:
        return "sin, cos" if not host[0].any() and host[1].all() else "cos, sin"
    if not host[0].any():
        return "angles"
    first, last = np.split(host[0], 2)
    if not first.any():
        return "sin|cos"
    return "cos|sin" if not last.any() else "other"
