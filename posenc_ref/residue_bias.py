"""Relative positions of residues in AlphaFold 2: a learned vector for every clipped offset."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from . import _validate as validate
from ._arrays import check_numbers, check_place, clip, lookup
from ._namespace import Array, namespace
from .bias import Bias


def nearest(offset: Array, period: Array | int) -> Array:
    """Return integer offsets on a ring of ``period`` residues: at most period/2 in absolute value.

    An offset of exactly period/2 keeps its sign.
    """
    xp = namespace(offset)
    rest = xp.abs(offset) % period
    return xp.sign(offset) * xp.where(2 * rest > period, rest - period, rest)


@dataclass(frozen=True, eq=False, repr=False)
class ResidueBias(Bias):
    """Relative positional encoding of AlphaFold 2, added to the pair representation.

    Formula
        ``b_c(i, j) = table[clip(i - j, -r, r) + r, c]`` for residues i (first axis of the pair
        representation) and j (second axis).  With ``period`` P, the offset i - j is first replaced
        by ``i - j - n P`` with the integer n that makes it smallest: a cyclic chain.  Of two equal
        ones, P/2 and -P/2, either is right; here it has the sign of i - j.
    Source
        Jumper et al. 2021, supplement, algorithm 4 (relpos), with r = 32;
        ``period``: ColabDesign, ``add_cyclic_offset``; Boltz, ``cyclic_period``.
    Traps
        The offset is row minus column.  ESMFold subtracts in the opposite order, and its row 0 is
        for masked pairs: its table here is ``embedding.weight[1:]`` reversed.  Algorithm 4 is a
        linear layer of a one-hot vector: the table is the transpose of its weight plus its bias.
        Positions are residue numbers, so a chain break is a gap in the positions.
        The offset of a cyclic chain keeps its sign: the last residue is one *before* the first.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|b|``, B = 0.

    Parameters
    ----------
    table : array (2r + 1, C), real floating
        Biases are entries of the table, bit for bit.  C, the number of channels of the pair
        representation, takes the place of the number of heads.
    period : int, optional
        Number of residues of a cyclic chain.
    """

    table: Array
    _: KW_ONLY
    period: int | None = None

    integers = True

    def __post_init__(self) -> None:
        rows = int(check_numbers("table", self.table, "2r + 1", "C").shape[0])
        if rows % 2 == 0:
            raise ValueError(
                f"table must have an odd number of rows, 2r + 1 for the offsets -r .. r, got "
                f"{rows}; a row for masked pairs or for other chains does not belong here "
                "(ChainBias has one for other chains)"
            )
        if self.period is not None:
            self._set(period=validate.integer("period", self.period, minimum=1))

    @property
    def num_heads(self) -> int:  # type: ignore[override]
        """The number of channels of the pair representation, the columns of the table."""
        return int(self.table.shape[1])

    @property
    def reach(self) -> int:
        """The largest offset r with a row of its own."""
        return int(self.table.shape[0]) // 2

    def _of_offset(self, offset: Array) -> Array:
        d = -offset
        if self.period is not None:
            d = nearest(d, self.period)
        row = clip(d, -self.reach, self.reach) + self.reach
        check_place("positions", row, "the table", self.table)
        return namespace(self.table).moveaxis(lookup("row", self.table, row), -1, -3)
