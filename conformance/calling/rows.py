"""Rows of a table, in the shapes in which rotations take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .libraries import namespace

#: How rows (S, ...) or (B, S, ...) are passed to a rotation: the axes of rows and singletons.
SHAPES = ("as returned", "(S, W)", "(1, S, W)", "(1, 1, S, W)", "(1, S, 1, W)", "(S, 1, W)",
          "(S, 1, 1, W)")  # fmt: skip


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
                raise ValueError(ONE_ROW)
            front = (batch, *template[1:axis], length) if axis else (length,)
            return part.reshape((*front, *template[axis + 1 :]))
        if shape == "(S, 1, 1, W)" and self.batched:
            xp = namespace(part)
            return xp.moveaxis(part, 0, 1)[:, :, None]
        if self.batched and shape in ("(S, W)", "(S, 1, W)"):
            raise ValueError(ONE_ROW)
        ones = {"(S, W)": (length,), "(1, S, W)": (batch, length),
                "(1, 1, S, W)": (batch, 1, length), "(1, S, 1, W)": (batch, length, 1),
                "(S, 1, W)": (length, 1), "(S, 1, 1, W)": (length, 1, 1)}  # fmt: skip
        return part.reshape((*ones[shape], *trail))


ONE_ROW = "rows of a batch must have equal positions: the function takes one table for all"
