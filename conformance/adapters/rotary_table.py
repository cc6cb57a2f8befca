"""Find out by probing how a rotary module gives its cosines and sines.

Every probe uses distinct sizes, none of them 1, so that a wrong guess cannot broadcast or index
its way through.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from .binding import bind, parameters

# Batch, heads, sequence of every probe; axes are 2, 3 or 4.
B, H, S = 5, 7, 11

# How a module may want positions that are (B, S), or (A, B, S) where it has several axes. The last
# one is the easiest to take for another.
ARRANGEMENTS = ("(B, S)", "(A, B, S)", "(B, S, A)", "(S, A)")
AXES = (2, 3, 4)
# Rows and columns of the grid that is asked of modules whose tables are those of an image, and the
# sizes of a patch that are tried.
SIDE = 160
PATCHES = (1, 2, 4, 8, 14, 16, 32)


@dataclass(frozen=True)
class CosSinTable:
    """A module's table of cosines and sines, and how it is asked for."""

    module: Any
    arrangement: str  # one of ARRANGEMENTS, "length", "buffer", "grid", "space", "points", "tuple"
    form: str  # "cos, sin", "sin, cos", "complex", "angles", "cos|sin" or "sin|cos"
    axes: int = 1
    layer_type: str | None = None

    def arranged(self, positions: Any) -> Any:
        """Return (B, S) or (A, B, S) positions as the module wants them."""
        import torch

        if self.axes > 1 and positions.ndim == 2:  # text: all axes advance together
            positions = positions.expand(self.axes, *positions.shape)
        if self.arrangement == "tuple":
            return tuple(positions[:, :, None])
        if self.arrangement == "(S, A)":
            if positions.shape[1] != 1:
                raise ValueError(f"{type(self.module).__name__} has one row of positions for all")
            return positions[:, 0].T
        return torch.movedim(positions, 0, -1) if self.arrangement == "(B, S, A)" else positions

    def raw(self, x: Any, positions: Any) -> Any:
        """Return what the module says at `positions`, (B, S) or (A, B, S), for vectors `x`."""
        import torch

        if self.arrangement == "buffer":  # gathered, then in x's precision, as attention does it
            rows = self.module.embed_positions
            index = positions[..., None].expand(*positions.shape, rows.shape[-1])
            every = rows.expand(len(positions), *rows.shape)
            return every.gather(1, index).to(x.dtype)
        if self.arrangement == "length":
            return self._rows(x, positions)
        positions = self.arranged(positions)
        if self.arrangement == "grid":
            return grid_rows(self.module, x, positions)
        if self.arrangement == "space":  # three coordinates, and the number of what they belong to
            roles = {"coordinates": torch.movedim(positions[:3], 0, -1), "identity": positions[3]}
            return self.module(**bind(self.module.forward, roles | {"dtype": x.dtype}))
        if self.arrangement == "points":  # for which angles are a learned linear map
            points = torch.movedim(positions, 0, -1).to(next(self.module.parameters()).dtype)
            with torch.no_grad():
                return self.module(**bind(self.module.forward, {"points": points}))[0]
        roles = {"x": x, "positions": positions, "shape": positions.shape}
        if self.layer_type is not None:
            roles["layer_type"] = self.layer_type
        return self.module(**bind(self.module.forward, roles))

    def _rows(self, x: Any, positions: Any) -> Any:
        """Take rows out of the table of a module that takes a length instead of positions."""
        name = type(self.module).__name__
        length = length_of(positions, name)
        raw = self.module(x.new_zeros((1, length, 1)))
        parts = tuple(raw) if isinstance(raw, tuple) or raw.shape[0] == 2 else (raw,)
        if any(part.numel() != length * part.shape[-1] for part in parts):
            shapes = [tuple(part.shape) for part in parts]
            raise ValueError(f"{name} gives tables {shapes} for a sequence of {length}")
        parts = tuple(part.reshape(length, -1)[positions] for part in parts)
        return parts if len(parts) > 1 else parts[0]

    def __call__(self, x: Any, positions: Any) -> tuple[Any, Any]:
        """Return (cos, sin), each (B, S, W); W is the rotary width or half of it."""
        raw = self.raw(x, positions)
        if self.form == "complex":
            cos, sin = raw.real, raw.imag
        elif self.form == "angles":
            cos, sin = raw.cos(), raw.sin()
        else:
            cos, sin = raw if isinstance(raw, tuple) else raw.chunk(2, -1)
            if self.form in ("sin, cos", "sin|cos"):
                cos, sin = sin, cos
        return (cos, sin) if cos.ndim > 2 else (cos[None], sin[None])

    def probe_positions(self) -> Any:
        """Return the largest probe that this arrangement has: B rows, or the only one."""
        import torch

        return torch.arange(S).expand(1 if self.arrangement == "(S, A)" else B, S)


def find_table(module: Any, layer_types: tuple[str | None, ...] = (None,)) -> CosSinTable:
    """Return how `module` is asked for its table, or raise ValueError with what was tried."""
    import torch

    tried = []
    for layer_type in layer_types:
        for arrangement, axes in _questions(module):
            trial = CosSinTable(module, arrangement, "?", axes, layer_type)
            positions = trial.probe_positions()
            try:
                raw = trial.raw(torch.zeros(B, H, S, 2), positions)
                _require_rows(raw, positions.shape)
                found = replace(trial, form=_form(raw))
                _require_axes(found)
                return found
            except Exception as error:
                where = arrangement if axes == 1 else f"{arrangement} with A={axes}"
                where = where if layer_type is None else f"{where}, layer type {layer_type!r}"
                tried.append(f"positions as {where}: {describe(error)}")
    wants = ", ".join(parameters(module.forward)) or "nothing"
    raise ValueError(
        f"{type(module).__name__} gives no table at given positions (its forward takes {wants}); "
        f"tried {'; '.join(dict.fromkeys(tried)) or 'nothing, as it takes no positions'}"
    )


def grid_rows(module: Any, x: Any, positions: Any) -> Any:
    """Return the rows at (row, column), positions (2, B, S), of the table of a square image.

    The module takes an image, whose patches it numbers row by row; tokens that follow them, such
    as Llama 4's class token, are left out.
    """
    name = type(module).__name__
    if positions.is_floating_point() or bool((positions < 0).any()):
        raise ValueError(f"{name} has the rows and columns of a grid only")
    for patch in PATCHES:
        side = SIDE * patch
        # The values are never looked at: one number stands for all, so that no memory is needed.
        raw = module(x.new_zeros(()).expand(1, 3, side, side))
        parts = raw if isinstance(raw, tuple) else (raw,)
        rows = [part.numel() // part.shape[-1] for part in parts]
        sides = {math.isqrt(n) for n in rows}
        if sides == {SIDE} or set(rows) == {n * n + 1 for n in sides}:
            break
    else:
        raise ValueError(f"{name} has tables of {rows} rows for an image of {side} x {side}")
    side = sides.pop()
    if bool((positions >= side).any()):
        raise ValueError(f"{name} has {side} rows and columns")
    index = positions[0] * side + positions[1]
    parts = tuple(part.reshape(-1, part.shape[-1])[index] for part in parts)
    return parts if len(parts) > 1 else parts[0]


def length_of(positions: Any, name: str) -> int:
    """Return the shortest sequence that has all `positions`: what starts at 0 has no others."""
    if positions.is_floating_point() or bool((positions < 0).any()):
        raise ValueError(f"{name} has integer positions from 0 only")
    return int(positions.max()) + 1


def describe(error: Exception) -> str:
    """Return one short line about an exception."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:100]}"


def _questions(module: Any) -> list[tuple[str, int]]:
    if hasattr(getattr(module, "embed_positions", None), "dtype"):
        return [("buffer", 1)]
    names = parameters(module.forward)
    if "positions" in names:
        streams, *others = ARRANGEMENTS[1:]
        several = [(a, n) for a in others for n in AXES]
        # What takes several streams takes one as well, and spreads it; the other way round fails.
        return [*((streams, n) for n in AXES), ("(B, S)", 1), *several]
    if {"coordinates", "identity"} <= set(names):
        return [("space", 4)]
    if "points" in names:
        return [("points", 2)]
    if list(names) == ["image"]:
        return [("grid", 2)]
    return [("length", 1), ("grid", 2)] if list(names) == ["x"] else []


def _require_rows(raw: Any, rows: tuple[int, ...]) -> None:
    shapes = [tuple(part.shape) for part in (raw if isinstance(raw, tuple) else (raw,))]
    accepted = [tuple(rows), tuple(rows[1:])] if rows[0] == 1 else [tuple(rows)]
    if len(shapes) > 2 or any(shape[:-1] not in accepted for shape in shapes):
        raise ValueError(f"tables of shape {shapes} for positions {tuple(rows)}")


def _require_axes(table: CosSinTable) -> None:
    """Raise ValueError unless every axis changes a column: a module may use only the first."""
    import torch

    if table.axes == 1:
        return
    rows = table.probe_positions().shape[0]
    x = torch.zeros(rows, H, S, 2)
    still = torch.zeros((table.axes, rows, S), dtype=torch.int64)
    before = table(x, still)
    for axis in range(table.axes):
        moved = still.clone()
        moved[axis] = 1
        if all(torch.equal(a, b) for a, b in zip(table(x, moved), before, strict=True)):
            raise ValueError(f"positions of axis {axis} of {table.axes} change nothing")


def _form(raw: Any) -> str:
    """Return which part is cosines and which sines, from position 0, the probe's first row."""
    parts = raw if isinstance(raw, tuple) else (raw,)
    if parts[0].is_complex():
        return "complex"
    first = [part.reshape(-1, part.shape[-1])[0] for part in parts]
    if len(first) == 2:
        return "sin, cos" if not first[0].any() and first[1].all() else "cos, sin"
    if not first[0].any():
        return "angles"
    return "sin|cos" if not first[0].chunk(2)[0].any() else "cos|sin"
