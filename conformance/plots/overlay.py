"""Two encodings in one picture: lines together, heat maps subtracted."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .picture import Line, Picture


def overlay(a: Sequence[Picture], b: Sequence[Picture], names: tuple[str, str]) -> list[Picture]:
    """Return the pictures that both have.

    Lines are drawn together.  Cells of the same shape are subtracted, a - b; others are left out.

    Raises
    ------
    ValueError
        They have no picture in common.
    """
    found = []
    others = {picture.name: picture for picture in b}
    for one in a:
        other = others.get(one.name)
        if other is None:
            continue
        if one.cells is None or other.cells is None:
            lines = [
                Line(name if line.label in ("declared", "all pairs", "bucket", name) else
                     f"{name}, {line.label}", line.x, line.y)
                for name, picture in zip(names, (one, other), strict=True)
                for line in picture.lines
                if line.label != "without scaling"
            ]  # fmt: skip
            marks = dict.fromkeys((*one.marks, *other.marks))
            found.append(dataclasses.replace(one, lines=tuple(lines), marks=tuple(marks)))
        elif one.cells.shape == other.cells.shape:
            found.append(
                dataclasses.replace(
                    one,
                    title=f"{one.title}: difference",
                    cells=one.cells - other.cells,
                    cells_label=f"{one.cells_label}, {names[0]} - {names[1]}",
                )
            )
    if not found:
        raise ValueError(
            f"{names[0]} and {names[1]} have no picture in common: {_names(a)} and {_names(b)}"
        )
    return found


def _names(pictures: Sequence[Picture]) -> str:
    return ", ".join(picture.name for picture in pictures)
