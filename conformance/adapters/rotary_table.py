"""Find out by trial calls how a rotary module returns its cos and sin table.

Every call uses distinct axis sizes, none of them 1, so that a wrong guess cannot succeed by
broadcasting or indexing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from posenc_ref.conformance.calling.roles import bind, parameters

from .library import require_indices

# Batch, heads and sequence length of every trial call; there are 2, 3 or 4 position axes.
B, H, S = 5, 7, 11

# Shapes in which modules take positions. "(S, A)" is last because it is easily mistaken.
ARRANGEMENTS = ("(B, S)", "(A, B, S)", "(B, S, A)", "(S, A)")
AXES = (2, 3, 4)
# Rows and columns of the patch grid for modules that take an image, and the patch sizes to try.
SIDE = 160
PATCHES = (1, 2, 4, 8, 14, 16, 32)


@dataclass(frozen=True)
class CosSinTable:
    """A module's cos and sin table, and how to get it from the module."""

    module: Any
    arrangement: str  # one of ARRANGEMENTS, "length", "buffer", "grid", "space", "points", "tuple"
    form: str  # "cos, sin", "sin, cos", "complex", "angles", "cos|sin" or "sin|cos"
    axes: int = 1
    layer_type: str | None = None

    def arranged(self, positions: Any) -> Any:
        """Return (B, S) or (A, B, S) positions in the shape that the module takes."""
        import torch

        if self.axes > 1 and positions.ndim == 2:  # text: all axes advance together
            positions = positions.expand(self.axes, *positions.shape)
        if self.arrangement == "tuple":
            return tuple(positions[:, :, None])
        if self.arrangement == "(S, A)":
            if positions.shape[1] != 1:
                name = type(self.module).__name__
                raise ValueError(f"{name} takes one row of positions for the whole batch")
            return positions[:, 0].T
        return torch.movedim(positions, 0, -1) if self.arrangement == "(B, S, A)" else positions

    def raw(self, x: Any, positions: Any) -> Any:
        """Return the module's output for `positions`, (B, S) or (A, B, S), and vectors `x`."""
        import torch

        if self.arrangement == "buffer":  # as in attention: gather, then cast to x's dtype
            rows = self.module.embed_positions
            index = positions[..., None].expand(*positions.shape, rows.shape[-1])
            every = rows.expand(len(positions), *rows.shape)
            return every.gather(1, index).to(x.dtype)
        if self.arrangement == "length":
            return self._rows(x, positions)
        positions = self.arranged(positions)
        if self.arrangement == "grid":
            return grid_rows(self.module, x, positions)
        if self.arrangement == "space":  # three coordinates and the residue number
            roles = {"coordinates": torch.movedim(positions[:3], 0, -1), "identity": positions[3]}
            return self.module(**bind(self.module.forward, roles | {"dtype": x.dtype}))
        if self.arrangement == "points":  # keypoints, which a learned linear map turns into angles
            points = torch.movedim(positions, 0, -1).to(next(self.module.parameters()).dtype)
            with torch.no_grad():
                return self.module(**bind(self.module.forward, {"points": points}))[0]
        roles = {"x": x, "positions": positions, "shape": positions.shape}
        if self.layer_type is not None:
            roles["layer_type"] = self.layer_type
        return self.module(**bind(self.module.forward, roles))

    def _rows(self, x: Any, positions: Any) -> Any:
        """Return rows of the table of a module that takes a length instead of positions."""
        length = length_of(positions)
        raw = self.module(x.new_zeros((1, length, 1)))
        parts = tuple(raw) if isinstance(raw, tuple) or raw.shape[0] == 2 else (raw,)
        if any(part.numel() != length * part.shape[-1] for part in parts):
            name, shapes = type(self.module).__name__, [tuple(part.shape) for part in parts]
            raise ValueError(f"{name} gives tables {shapes} for a sequence of {length}")
        return tuple(part.reshape(length, -1)[positions] for part in parts)

    def __call__(self, x: Any, positions: Any) -> tuple[Any, Any]:
        """Return (cos, sin), each (B, S, W); W is the rotary width or half of it."""
        parts = _parts(self.raw(x, positions))
        if self.form == "complex":
            cos, sin = parts[0].real, parts[0].imag
        elif self.form == "angles":
            cos, sin = parts[0].cos(), parts[0].sin()
        else:
            cos, sin = parts if len(parts) == 2 else parts[0].chunk(2, -1)
            if self.form in ("sin, cos", "sin|cos"):
                cos, sin = sin, cos
        return (cos, sin) if cos.ndim > 2 else (cos[None], sin[None])

    def probe_positions(self) -> Any:
        """Return positions for a trial call: B rows, or one if the module takes only one."""
        import torch

        return torch.arange(S).expand(1 if self.arrangement == "(S, A)" else B, S)


def find_table(module: Any, layer_types: tuple[str | None, ...] = (None,)) -> CosSinTable:
    """Return the table of `module`, or raise ValueError with the failed attempts."""
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
    """Return rows of the table of a square image, at positions (2, B, S): patch rows and columns.

    The module takes an image and numbers its patches row by row; later tokens, such as Llama 4's
    class token, are omitted.
    """
    name = type(module).__name__
    require_indices(positions)
    for patch in PATCHES:
        side = SIDE * patch
        # The module ignores the values; expanding one number needs no memory.
        parts = _parts(module(x.new_zeros(()).expand(1, 3, side, side)))
        rows = [part.numel() // part.shape[-1] for part in parts]
        sides = {math.isqrt(n) for n in rows}
        if sides == {SIDE} or set(rows) == {n * n + 1 for n in sides}:
            break
    else:
        raise ValueError(f"{name} has tables of {rows} rows for an image of {side} x {side}")
    side = sides.pop()
    if bool((positions >= side).any()):
        raise ValueError(f"positions must be below {side}: the table of {name} has {side} rows "
                         f"and columns of patches")  # fmt: skip
    index = positions[0] * side + positions[1]
    return tuple(part.reshape(-1, part.shape[-1])[index] for part in parts)


def length_of(positions: Any) -> int:
    """Return the length of the shortest sequence from 0 that contains all `positions`."""
    require_indices(positions)
    return int(positions.max()) + 1


def describe(error: Exception) -> str:
    """Return an exception as one short line."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:100]}"


def _questions(module: Any) -> list[tuple[str, int]]:
    if hasattr(getattr(module, "embed_positions", None), "dtype"):
        return [("buffer", 1)]
    names = parameters(module.forward)
    if "positions" in names:
        streams, *others = ARRANGEMENTS[1:]
        several = [(a, n) for a in others for n in AXES]
        # Try several axes first: such a module also takes (B, S), and copies it to every axis.
        return [*((streams, n) for n in AXES), ("(B, S)", 1), *several]
    if {"coordinates", "identity"} <= set(names):
        return [("space", 4)]
    if "points" in names:
        return [("points", 2)]
    if list(names) == ["image"]:
        return [("grid", 2)]
    return [("length", 1), ("grid", 2)] if list(names) == ["x"] else []


def _parts(raw: Any) -> tuple[Any, ...]:
    return raw if isinstance(raw, tuple) else (raw,)


def _require_rows(raw: Any, rows: tuple[int, ...]) -> None:
    shapes = [tuple(part.shape) for part in _parts(raw)]
    accepted = [tuple(rows), tuple(rows[1:])] if rows[0] == 1 else [tuple(rows)]
    if len(shapes) > 2 or any(shape[:-1] not in accepted for shape in shapes):
        raise ValueError(f"tables of shape {shapes} for positions {tuple(rows)}")


def _require_axes(table: CosSinTable) -> None:
    """Raise ValueError unless the table depends on the positions of every axis."""
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
            raise ValueError(f"the table ignores the positions of axis {axis} of {table.axes}")


def _form(raw: Any) -> str:
    """Return the `CosSinTable.form` of a table, recognized at position 0: cos is 1, sin is 0."""
    parts = _parts(raw)
    if parts[0].is_complex():
        return "complex"
    first = [part.reshape(-1, part.shape[-1])[0] for part in parts]
    if len(first) == 2:
        return "sin, cos" if not first[0].any() and first[1].all() else "cos, sin"
    if not first[0].any():
        return "angles"
    return "sin|cos" if not first[0].chunk(2)[0].any() else "cos|sin"
