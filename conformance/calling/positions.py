"""Positions in the forms that functions take."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref._namespace import namespace, to_host

#: How positions are passed to a function that takes them.
FORMS = ("as given", "(1, S)", "(B, S)")
#: How the positions of several axes are passed besides (A, B, S).
ONE_ROW = ("(A, S)", "(S, A)", "each (S,)", "tuple of (S,)")  # a call for each row of the batch
AXES_FORMS = (*ONE_ROW, "(B, S, A)", "each (B, S)", "tuple of (B, S)", "tuple of (B, 1, S)")
#: How a table of several position axes takes them; "(S, A)" is last, for it is easily mistaken.
SEVERAL_AXES = ("(A, B, S)", "(B, S, A)", "(S, A)")
#: Tensor layouts with one axis for the tokens of all batch rows.
FLAT = ("thd", "t(hd)")


def require_indices(positions: Any) -> None:
    """Raise ValueError unless ``positions`` are integers >= 0, which can index a table."""
    values = to_host(positions)
    if values.dtype.kind == "f" or (values < 0).any():
        raise ValueError("positions must be integers from 0: they are indices of a table")


def window_start(positions: Any) -> int:
    """Return the first position; raise ValueError if positions are not contiguous and equal."""
    rows = np.atleast_2d(to_host(positions))
    if not rows.size:
        return 0
    if rows.ndim > 2:
        raise ValueError("positions must have one axis: the function takes an offset")
    if (rows != rows[0]).any():
        raise ValueError("rows of a batch must have equal positions: the function takes an offset")
    start = int(rows[0, 0])
    if start < 0 or (rows[0] != np.arange(start, start + rows.shape[1])).any():
        raise ValueError("positions must be contiguous integers >= 0: the function takes an offset")
    return start


def every_axis(positions: Any, axes: int) -> Any:
    """Return positions (A, B, S); those of text, (S,) or (B, S), are the same on every axis."""
    if positions.ndim == 3:
        return positions
    rows = positions if positions.ndim == 2 else positions[None]
    return namespace(positions).broadcast_to(rows, (axes, *rows.shape))


def arranged(form: str, positions: Any) -> Any:
    """Return positions (A, B, S), or (A, T), in one of AXES_FORMS, else unchanged."""
    if form == "(B, S, A)":
        return namespace(positions).moveaxis(positions, 0, -1)
    if form == "tuple of (B, 1, S)":  # which broadcast to the heads
        return tuple(axis[:, None] for axis in positions)
    row = positions[:, 0] if form in ONE_ROW and positions.ndim == 3 else positions
    if form.startswith(("each", "tuple")):
        return tuple(row)
    return namespace(row).moveaxis(row, 0, -1) if form == "(S, A)" else row


def formed(form: str, x: Any, positions: Any, layout: str) -> Any:
    """Return positions (S,), (B, S) or (A, B, S) in the form that the function takes."""
    if positions.ndim == 3 or (layout in FLAT and positions.ndim == 2):
        return arranged(form, positions)
    if form == "as given" or positions.ndim > 1 or layout in FLAT:
        return positions
    xp = namespace(positions)
    batch = x.shape[1] if layout == "sbhd" else x.shape[0]
    rows = positions[None]
    return rows if form == "(1, S)" else xp.broadcast_to(rows, (batch, positions.shape[0]))
