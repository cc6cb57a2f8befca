"""Tables of cos and sin, or of angles, that rotations take: how to get their rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posenc_ref._namespace import namespace, to_host
from posenc_ref.conformance.harness.foreign import NotTried

from .facts import Facts
from .positions import SEVERAL_AXES, arranged, every_axis, require_indices, window_start
from .roles import parameters

#: How rows (S, ...) or (B, S, ...) are passed to a rotation: the axes of rows and singletons.
SHAPES = ("as returned", "(S, W)", "(1, S, W)", "(1, 1, S, W)", "(1, S, 1, W)", "(S, 1, W)",
          "(S, 1, 1, W)")  # fmt: skip
#: Those with one table for all rows of a batch.
ONE_TABLE = ("(S, W)", "(S, 1, W)")


@dataclass(frozen=True)
class Rows:
    """Rows of a table at the positions of a call: one array, or two (cos and sin)."""

    parts: tuple[Any, ...]  #: each (S, ...) or (B, S, ...)
    batched: bool  #: whether the first axis is the batch
    whole: bool = False  #: whether the parts are passed as they were returned

    def shaped(self, shape: str, templates: tuple[tuple[int, ...], ...]) -> tuple[Any, ...]:
        """Return the parts in one of :data:`SHAPES`; -1 in a template is the axis of rows."""
        if self.whole:
            if shape != "as returned":
                raise ValueError("a table for several position axes is not reshaped")
            return self.parts
        return tuple(
            self._one(part, shape, template)
            for part, template in zip(self.parts, templates, strict=True)
        )

    def _one(self, part: Any, shape: str, template: tuple[int, ...]) -> Any:
        lead = 2 if self.batched else 1
        trail, length = tuple(part.shape[lead:]), part.shape[lead - 1]
        batch = part.shape[0] if self.batched else 1
        if shape == "as returned":
            axis = template.index(-1)
            if self.batched and axis == 0:
                part = _only_row(part)
            front = (batch, *template[1:axis], length) if axis else (length,)
            return part.reshape((*front, *template[axis + 1 :]))
        if shape == "(S, 1, 1, W)" and self.batched:
            xp = namespace(part)
            return xp.moveaxis(part, 0, 1)[:, :, None]
        if self.batched and shape in ONE_TABLE:
            part = _only_row(part)
        ones = {"(S, W)": (length,), "(1, S, W)": (batch, length),
                "(1, 1, S, W)": (batch, 1, length), "(1, S, 1, W)": (batch, length, 1),
                "(S, 1, W)": (length, 1), "(S, 1, 1, W)": (length, 1, 1)}  # fmt: skip
        return part.reshape((*ones[shape], *trail))


ONE_ROW = "rows of a batch must have equal positions: the function takes one table for all"


def _only_row(part: Any) -> Any:
    """Return the rows (1, S, ...) that all rows of the batch have, or raise ValueError."""
    if not bool((part == part[:1]).all()):
        raise ValueError(ONE_ROW)
    return (
        part[:1] if part.shape[0] else namespace(part).zeros((1, *part.shape[1:]), dtype=part.dtype)
    )


#: The most rows that a table is made for, unless its source says otherwise.
MOST_ROWS = 131072
#: The shapes of x that a table of a whole sequence may be made for; n is the length.
SEQUENCES: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "(1, n, D)": lambda n, d: (1, n, d),
    "(1, 1, n, D)": lambda n, d: (1, 1, n, d),
    "(1, n, 1, D)": lambda n, d: (1, n, 1, d),
    "(n, 1, 1, D)": lambda n, d: (n, 1, 1, d),
}
#: The kinds of sources that take positions.
AT_POSITIONS = ("positions", "row of positions", "column of positions", "positions as x",
                *SEVERAL_AXES)  # fmt: skip
#: The shapes of tokens that sources take with the first position of a window; n is their number.
WINDOWS: dict[str, Callable[[int], tuple[int, ...]]] = {
    "window (1, n)": lambda n: (1, n),
    "window (1, 1, n)": lambda n: (1, 1, n),  # several codebooks
}
#: What tokens are passed: any that is no padding, unless facts say it.
_TOKEN = 2


@dataclass(frozen=True)
class Source:
    """A callable that gives a table, and how to call it."""

    call: Callable[..., Any]
    facts: Facts
    words: str  #: describes it in a report, such as "LlamaRotaryEmbedding(x, position_ids)"
    #: What is passed: "positions" (B, S), "row of positions" (S,), "column of positions" (S, 1),
    #: "positions as x" (S,), positions of several axes (one of SEVERAL_AXES), the first position of
    #: a window (a key of WINDOWS), "length", a sequence x of this shape (a key of SEQUENCES), or
    #: "nothing".
    kind: str = "?"
    axes: int = 1  #: the number of position axes of a row
    templates: tuple[tuple[int, ...], ...] = ()  #: the shape of each part; -1 is the axis of rows
    stacked: bool = False  #: whether one array holds cos and sin in its first axis
    form: str = ""  #: "cos, sin", "sin, cos", "complex", "angles", "cos|sin", "sin|cos" or "other"
    every_length: bool = True  #: whether the rows do not depend on the length of the table
    most: int = MOST_ROWS  #: the most rows that a table is made for
    instead: str = ""  #: the class that is as likely to make the table, and why it does not
    kept: dict[Any, Any] = field(default_factory=dict, compare=False)

    def rows(self, x: Any, positions: Any) -> Rows:
        """Return the rows at ``positions``, (S,), (B, S) or (A, B, S), for the vectors ``x``."""
        if self.axes > 1:
            positions = every_axis(positions, self.axes)
            if self.kind == "(S, A)" and positions.shape[1] != 1:
                raise ValueError(f"{self.words} takes one row of positions for the whole batch")
            parts = self._parts(self._called(x, positions=arranged(self.kind, positions)))
            shape = tuple(positions.shape[1:])
            return Rows(tuple(p.reshape((*shape, p.shape[-1])) for p in parts), True)
        if positions.ndim == 3:
            if self.kind not in AT_POSITIONS:
                raise ValueError("positions have several axes, but the table has one")
            return Rows(self._parts(self._called(x, positions=positions)), True, whole=True)
        batched = positions.ndim == 2
        if self.kind in AT_POSITIONS:
            given = positions[None] if self.kind == "positions" and not batched else positions
            if batched and self.kind != "positions":
                raise ValueError(ONE_ROW)
            given = given[:, None] if self.kind == "column of positions" else given
            parts = self._parts(self._called(x, positions=given))
            return Rows(self._in_rows(parts, tuple(positions.shape)), batched)
        if self.kind in WINDOWS:
            parts = self._parts(
                self._called(x, length=positions.shape[-1], start=self._start(positions))
            )
            return Rows(self._in_rows(parts, (positions.shape[-1],)), False)
        values = to_host(positions)
        require_indices(values)
        if values.max(initial=0) >= self.most:
            raise NotTried(f"the suite makes no table longer than {self.most} rows")
        every = self.every_row(x, int(values.max(initial=0)) + 1)
        if values.max(initial=0) >= every[0].shape[0]:
            raise ValueError(f"positions must be below {every[0].shape[0]}, the rows of the table")
        return Rows(tuple(_selected(part, positions, values, x) for part in every), batched)

    def every_row(self, x: Any, length: int) -> tuple[Any, ...]:
        """Return the rows of positions 0 .. length-1, each part as (length, ...)."""
        if self.kind in AT_POSITIONS:
            at = namespace(x).arange(length, device=getattr(x, "device", None))
            return self.rows(x, at).parts
        key = (str(x.dtype), str(getattr(x, "device", "")))
        known, kept = self.kept.get(key, (0, ()))
        if self.every_length and length <= known:
            return kept  # type: ignore[no-any-return]
        if self.every_length:  # a power of two, so that few tables are made
            length = max(64, 1 << (length - 1).bit_length())
        parts = self._parts(self._called(x, length=length))
        found = self._in_rows(parts, None)
        self.kept[key] = (length, found)
        return found

    def _in_rows(self, parts: tuple[Any, ...], shape: tuple[int, ...] | None) -> tuple[Any, ...]:
        """Return parts as (*shape, ...); by default, as all their rows (n, ...)."""
        return tuple(
            _in_shape(p, (*(shape or (p.shape[t.index(-1)],)), *trail(p, t)))
            for p, t in zip(parts, self.templates, strict=True)
        )

    def _start(self, positions: Any) -> int:
        """Return the first position of a window, which the callable must take unless it is 0."""
        start = window_start(positions)
        if start and not {"start", "offset"} & {*parameters(self.call)}:
            raise ValueError(f"positions of {self.words} must start at 0, got {start}")
        return start

    def cos_sin_at(self, x: Any, positions: Any) -> tuple[Any, Any]:
        """Return cos and sin (S, W) at ``positions`` (S,), for vectors such as ``x``."""
        rows = self.cos_sin(self.rows(x, positions))
        cos, sin = (part[0] for part in rows.parts) if rows.batched else rows.parts
        return cos, sin

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

    def _called(
        self, x: Any, positions: Any = None, length: int | None = None, start: int | None = None
    ) -> Any:
        also: dict[str, Any] = {"dtype": x.dtype, "device": getattr(x, "device", None)}
        xp = namespace(x)
        shape: tuple[int, ...] = (1, 1, length or 1, x.shape[-1])
        if positions is not None:
            also["positions"] = self._in_time(positions, xp)
            also["x"] = positions if self.kind == "positions as x" else x
            also["shape"] = positions.shape
        if length is not None:
            also |= {"length": length, "shape": (1, length)}
        if self.kind in SEQUENCES and length is not None:
            shape = SEQUENCES[self.kind](length, x.shape[-1])
        window, named = WINDOWS.get(self.kind), parameters(self.call)
        count = math.prod((1,) if positions is None else positions.shape)
        count = count if length is None else length
        if window is not None:
            shape = (1, count, x.shape[-1])
            also["offset"] = start
        if "embeddings" in named:
            also["embeddings"] = xp.zeros((1, count, x.shape[-1]), dtype=x.dtype)
        if "tokens" in named and (window is None or "embeddings" not in named):
            tokens = (1, count) if window is None else window(count)
            also["tokens"] = xp.full(tokens, self.facts.by_role.get("token", _TOKEN))
        also["start"] = start or 0
        also.setdefault("x", xp.zeros(shape, dtype=x.dtype))
        if "device" in also and also["device"] is None:
            del also["device"]
        spare = length if positions is None else positions
        optional = ("tokens", "start") if window is None else ()
        return self.call(**self.facts.arguments(self.call, also, optional, spare=spare))

    def _in_time(self, positions: Any, xp: Any) -> Any:
        """Return positions as floats where they are times of a diffusion, which are no integers."""
        taken = parameters(self.call).get("positions")
        if taken is None or not taken.name.startswith("timestep"):
            return positions
        return xp.asarray(positions, dtype=xp.float32)

    def _parts(self, raw: Any) -> tuple[Any, ...]:
        parts = tuple(raw) if isinstance(raw, tuple | list) else (raw,)
        if len(parts) > 1:  # some return a scale as well
            parts = tuple(part for part in parts if getattr(part, "ndim", 0) > 1)[:2]
        if self.stacked:
            parts = (parts[0][0], parts[0][1])
        return parts


def _in_shape(part: Any, shape: tuple[int, ...]) -> Any:
    """Return a part of a table as ``shape``: one row for a batch is the row of all, as it is used.

    A module that answers for row 0 alone rotates all rows of the batch by it.
    """
    if part.shape and math.prod(part.shape) == math.prod(shape[1:]) != math.prod(shape):
        return namespace(part).broadcast_to(part.reshape((1, *shape[1:])), shape)
    return part.reshape(shape)


def _selected(part: Any, positions: Any, values: np.ndarray, x: Any) -> Any:
    """Return rows of a table, as an array of x's library; tables may be NumPy's."""
    if isinstance(part, np.ndarray) and not isinstance(x, np.ndarray):
        xp = namespace(x)
        return xp.asarray(part[values], dtype=x.dtype) if part.dtype.kind == "f" else part[values]
    return part[positions]


def trail(part: Any, template: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of the axes after the rows, without singletons between."""
    after = template[template.index(-1) + 1 :]
    return tuple(n for n in after[:-1] if n != 1) + after[-1:]
