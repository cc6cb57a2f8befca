"""Learned absolute positions: a lookup in a trained table."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from . import _validate as validate
from ._arrays import check_numbers, check_place, lookup
from ._namespace import (
    INTEGER,
    Array,
    astype,
    cumulative_sum,
    dtype_name,
    is_array,
    namespace,
    wide_integer,
)
from ._positions import Positions, as_positions
from .angles import MAX_POSITION
from .table import LearnedTable


@dataclass(frozen=True, eq=False, repr=False)
class Learned(LearnedTable):
    """Learned absolute position embedding.

    Formula
        ``PE(p) = weight[p + offset]``
    Source
        Gehring et al. 2017, arXiv:1705.03122, section 3.1.  BERT has offset 0.  OPT and BART have
        offset 2: the first two rows are for padding.  In RoBERTa, padding tokens have position
        padding_idx, and the other tokens count from padding_idx + 1 (:meth:`ids_from_tokens`).
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = B = 0: the rows of ``weight`` are copied bit for bit.

    Parameters
    ----------
    weight : array, shape (rows, dim), real floating
        Stored without a copy. Results have its library, device and dtype.
    offset : int
        Added to every position.
    padding_idx : int, optional
        The row of padding tokens, used by :meth:`ids_from_tokens`.

    Raises
    ------
    TypeError
        Positions are not integers, or weight is not a real floating array.
    ValueError
        A position is outside ``0 <= p + offset < rows``: nothing is clamped or wrapped round.
    """

    weight: Array
    _: KW_ONLY
    offset: int = 0
    padding_idx: int | None = None

    def __post_init__(self) -> None:
        check_numbers("weight", self.weight, "rows", "dim")
        self._set(offset=validate.integer("offset", self.offset, maximum=MAX_POSITION))
        if self.padding_idx is not None:
            row = validate.integer("padding_idx", self.padding_idx, minimum=0)
            if row >= self.rows:
                raise ValueError(
                    f"padding_idx must be a row of weight, below {self.rows}, got {row}"
                )
            self._set(padding_idx=row)

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return int(self.weight.shape[0])

    @property
    def dim(self) -> int:  # type: ignore[override]
        """The number of columns of ``weight``."""
        return int(self.weight.shape[1])

    def ids_from_tokens(self, input_ids: Array) -> Array:
        """Return RoBERTa's positions (..., S) of token ids (..., S), as fairseq's make_positions.

        With these positions, ``table`` returns row ``padding_idx`` for every padding token, and
        rows ``padding_idx + 1``, ``padding_idx + 2``, ... for the other tokens in order.
        """
        if self.padding_idx is None:
            raise ValueError("padding_idx must be given for ids_from_tokens(), got None")
        if not is_array(input_ids) or dtype_name(input_ids) not in INTEGER:
            raise TypeError(f"input_ids must be an integer array, got {type(input_ids).__name__}")
        real = astype(input_ids != self.padding_idx, wide_integer(namespace(input_ids)))
        return cumulative_sum(real, axis=-1) * real + (self.padding_idx - self.offset)

    def _positions(self, positions: Any, x: Array | None = None) -> Positions:
        return as_positions(positions, x=x, integers=True)

    def _lookup(self, p: Positions) -> Array:
        check_place("positions", p.values, "the table", self.weight)
        return lookup("positions + offset", self.weight, p.values + self.offset)
