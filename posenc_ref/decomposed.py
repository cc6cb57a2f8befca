"""Relative positions of images, one table for each axis: MViTv2, ViTDet, SAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from . import _validate as validate
from ._arrays import check_numbers, gathered, like, product
from ._namespace import Array, is_lazy, namespace
from ._text import shown
from .score import Score


@dataclass(frozen=True, eq=False, repr=False)
class DecomposedRelative(Score):
    """Relative positions, with separate terms for height and width.

    Formula
        ``A_ij = q_i . k_j / sqrt(d) + q_i . R_h[y_i - y_j + h - 1] + q_i . R_w[x_i - x_j + w - 1]``
        for tokens of an h x w grid in row-major order, ``y = p // w`` and ``x = p % w``.
    Source
        Li et al. 2021, *MViTv2*, arXiv:2112.01526, equation (4); ViTDet and SAM's image encoder.
    Traps
        The position terms use the unscaled query.  For a grid of another size, resize both tables
        first.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|scale|`` times the sum of ``|q| |k|`` over the channels, plus the sums of
        ``|q| |R_h|`` and ``|q| |R_w|``, which are not scaled.  B = 0.

    Parameters
    ----------
    height_table, width_table : array (2h - 1, d) and (2w - 1, d), real floating
    grid : (int, int)
        Height h and width w of the grid, in tokens.
    """

    height_table: Array
    width_table: Array
    _: KW_ONLY
    grid: Sequence[int]

    relative = False

    def __post_init__(self) -> None:
        h, w = validate_grid("grid", self.grid)
        _, d = check_numbers("height_table", self.height_table, 2 * h - 1, "d").shape
        check_numbers("width_table", self.width_table, 2 * w - 1, d)
        self._set(grid=(h, w))

    @property
    def head_dim(self) -> int:  # type: ignore[override]
        """The number of channels d of a head."""
        return int(self.height_table.shape[1])

    @property
    def rows(self) -> int | None:
        """Number of tokens of the grid."""
        return int(self.grid[0] * self.grid[1])

    def _of_pairs(
        self, q: Array, k: Array, q_at: Array, k_at: Array, scale: float
    ) -> dict[str, Array]:
        h, w = self.grid
        check_tokens(q_at, k_at, h * w, "grid")
        dy, dx = q_at // w - k_at // w, q_at % w - k_at % w
        by_height = product(q, like("height_table", self.height_table, q))
        by_width = product(q, like("width_table", self.width_table, q))
        return {
            "content-content": product(q, k) * scale,
            "content-height": gathered(by_height, dy + h - 1),
            "content-width": gathered(by_width, dx + w - 1),
        }


def check_tokens(q_at: Array, k_at: Array, count: int, what: str) -> None:
    """Check that concrete positions are 0 .. count - 1; lazy ones cannot be checked."""
    for name, at in (("q_positions", q_at), ("k_positions", k_at)):
        if is_lazy(at) or 0 in at.shape:
            continue
        xp = namespace(at)
        low, high = int(xp.min(at)), int(xp.max(at))
        if low < 0 or high >= count:
            raise ValueError(
                f"{name} must be tokens of the {what}, 0 .. {count - 1}, got "
                f"{low if low < 0 else high}"
            )


def validate_grid(name: str, value: Any) -> tuple[int, int]:
    """Return ``value`` as (height, width), two positive integers."""
    plain = isinstance(value, Sequence) and not isinstance(value, str | bytes | memoryview)
    if not plain or len(value) != 2:
        raise TypeError(f"{name} must be (height, width), got {shown(value)}")
    h, w = (validate.integer(f"{name}[{a}]", n, minimum=1) for a, n in enumerate(value))
    return h, w
