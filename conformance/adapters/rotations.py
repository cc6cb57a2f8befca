"""Functions that rotate one row of a batch, or the patches of a whole grid, as ``apply``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posenc_ref.conformance.calling.grids import Grid, whole
from posenc_ref.conformance.harness.implementation import Implementation


def row_by_row(call: Callable[[Any, Any], Any], axes: int = 1) -> Callable[[Any, Any], Any]:
    """Return ``fn(x, positions)`` that calls ``call`` once for each row of the batch.

    Parameters
    ----------
    call : callable
        ``call(x, positions)`` takes x (B, H, S, D) and positions (S,), or (A, S) if ``axes`` > 1,
        which all rows share.
    axes : int
        The number A of position axes.

    Returns
    -------
    callable
        The positions of the result are those of ``apply``: one row for each row of x, if the first
        axis (the second, with several axes) is the batch.
    """
    import torch

    def rotate(x: Any, positions: Any) -> Any:
        if positions.ndim == (1 if axes == 1 else 2):
            return call(x, positions)
        if not len(x):
            return x
        rows = positions.unbind(-2)
        return torch.cat([call(one[None], row) for one, row in zip(x, rows, strict=True)])

    return rotate


def on_grids(
    name: str,
    call: Callable[[Any, tuple[int, ...]], Any],
    head_dim: int = 64,
    grid: Grid | None = None,
    *,
    num_heads: int | None = None,
) -> Implementation:
    """Return ``apply`` of a function of PyTorch that rotates all patches of a grid.

    Parameters
    ----------
    name : str
        The library.
    call : callable
        ``call(x, sizes)`` rotates x (B, H, N, D), the N tokens of a grid in row-major order;
        ``sizes`` are (height, width) or (frames, height, width).
    head_dim : int
    grid : Grid, optional
        The grids that ``call`` takes; any grid with two axes by default.
    num_heads : int, optional
        The only number of heads that ``call`` takes.
    """
    grid = grid or Grid(2)

    def apply(x: Any, positions: Any) -> Any:
        rows = positions if positions.ndim == 3 else positions[:, None].expand(-1, len(x), -1)
        return whole(grid, lambda given, sizes: call(given["x"], sizes), {"x": x}, rows, "bhsd")

    return Implementation(
        apply, "apply", name, backend="torch", head_dim=head_dim, axes=grid.axes,
        num_heads=num_heads, how=grid.words, limits=grid.limits,
    )  # fmt: skip
