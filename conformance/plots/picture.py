"""The numbers of a picture: lines, or the cells of a heat map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a picture.

    Attributes
    ----------
    label : str
        Its name in the legend.
    x, y : array (n,)
        Its points.
    """

    label: str
    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True, eq=False)
class Picture:
    """What one panel shows: either ``lines``, or ``cells``.

    Attributes
    ----------
    name : str
        The kind of picture, such as "wavelengths".
    title, x_label, y_label : str
        The words around it.
    lines : tuple[Line, ...]
        The lines.
    cells : array (rows, columns), optional
        The numbers of a heat map, the first row on top; NaN is left empty.
    cells_label : str
        What the cells are.
    steps : bool
        Whether a line holds its value up to the next point.
    scale : tuple[str, str]
        The scales of x and y: "linear", "log" or "symlog".
    marks : tuple[tuple[str, float], ...]
        Labelled horizontal lines, such as the trained length.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...] = ()
    cells: np.ndarray | None = None
    cells_label: str = ""
    steps: bool = False
    scale: tuple[str, str] = ("linear", "linear")
    marks: tuple[tuple[str, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the picture as JSON-ready data; numbers that are not finite become null."""
        body = dict(vars(self))
        body["lines"] = [
            {"label": line.label, "x": _numbers(line.x), "y": _numbers(line.y)}
            for line in self.lines
        ]
        body["cells"] = None if self.cells is None else [_numbers(row) for row in self.cells]
        return body


def _numbers(row: np.ndarray) -> list[float | None]:
    return [value + 0 if np.isfinite(value) else None for value in row.tolist()]  # 0 for -0
