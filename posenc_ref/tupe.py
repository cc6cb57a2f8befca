"""Untied positional encoding of TUPE: position terms without content."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers, like, lookup, product
from ._namespace import Array, device_of, from_host, namespace
from ._text import shown
from .score import Score
from .t5 import T5Bias


@dataclass(frozen=True, eq=False, repr=False)
class TUPE(Score):
    """Untied positional encoding.

    Formula
        ``A_ij = q_i . k_j / sqrt(2d) + v_ij``,
        ``v_ij = (p_i U_Q) . (p_j U_K) / sqrt(2d) + b(j - i)``.  If ``cls_to_others`` and
        ``others_to_cls`` are given, they replace v at position 0: ``v_0j = cls_to_others``, and
        ``v_i0 = others_to_cls`` for i > 0.
    Source
        Ke, He, Liu 2020, *Rethinking Positional Encoding in Language Pre-training*,
        arXiv:2006.15595, equations (7), (8) and (10): TUPE-A without b, TUPE-R with it.
    Traps
        No position is added to the embeddings. The scale is 1/sqrt(2d), and b is not scaled.  At
        [CLS], the authors' code replaces the product ``(p_i U_Q) . (p_j U_K) / sqrt(2d)`` by a
        learned number and takes b from a bucket of its own.  ``cls_to_others`` and
        ``others_to_cls`` are each the sum of that number and that b.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|scale|`` times the sum of ``|q| |k|`` and ``|p U_Q| |p U_K|``, plus ``|b|``, B = 0.

    Parameters
    ----------
    position_queries, position_keys : array (rows, H, d), real floating
        ``p U_Q`` and ``p U_K`` of normalised position embeddings, the same in all layers.
    bias : T5Bias, optional
    cls_to_others, others_to_cls : array (H,), optional
        The biases in the row and the column of position 0.
    """

    position_queries: Array
    position_keys: Array
    _: KW_ONLY
    bias: T5Bias | None = None
    cls_to_others: Array | None = None
    others_to_cls: Array | None = None

    relative = False

    def __post_init__(self) -> None:
        shape = check_numbers("position_queries", self.position_queries, "rows", "H", "d").shape
        check_numbers("position_keys", self.position_keys, *shape)
        if self.bias is not None and not isinstance(self.bias, T5Bias):
            raise TypeError(f"bias must be a T5Bias, got {shown(self.bias)}")
        if self.bias is not None and self.bias.num_heads != shape[1]:
            raise ValueError(f"bias must have {shape[1]} heads, got {self.bias.num_heads}")
        if (self.cls_to_others is None) != (self.others_to_cls is None):
            raise ValueError("cls_to_others and others_to_cls must both be given, or neither")
        for name in ("cls_to_others", "others_to_cls"):
            if getattr(self, name) is not None:
                check_numbers(name, getattr(self, name), shape[1])

    @property
    def head_dim(self) -> int:  # type: ignore[override]
        """The number of channels d of a head."""
        return int(self.position_queries.shape[2])

    @property
    def heads(self) -> int | None:
        """The number of heads H of the projections."""
        return int(self.position_queries.shape[1])

    @property
    def rows(self) -> int | None:
        """The number of positions that have an embedding."""
        return int(self.position_queries.shape[0])

    def own_scale(self, dim: int) -> float:
        """Return ``1 / sqrt(2d)``."""
        return float((2 * validate.integer("dim", dim, minimum=1)) ** -0.5)

    def _of_pairs(
        self, q: Array, k: Array, q_at: Array, k_at: Array, scale: float
    ) -> dict[str, Array]:
        sides = (("position_queries", q_at[:, 0]), ("position_keys", k_at[0, :]))
        pq, pk = (self._rows(name, at, q) for name, at in sides)
        found = {"position-position": product(pq, pk) * scale}
        if self.bias is not None:
            found["bias"] = like("bias", self.bias.bias(q_at[:, 0], k_at[0, :]), q)
        if self.cls_to_others is not None:
            found = self._reset(found, q_at, k_at, q)
        logits = product(q, k) * scale
        zero = namespace(q).zeros_like(logits)
        return {"content-content": logits} | {n: zero + t for n, t in found.items()}

    def _reset(
        self, found: dict[str, Array], q_at: Array, k_at: Array, q: Array
    ) -> dict[str, Array]:
        """Replace the terms of queries at position 0 and of keys at position 0 by learned numbers.

        These are the first row and the first column of each Q x K matrix in ``found``.
        """
        xp, device = namespace(q), device_of(q)
        first, last = (from_host(at, xp, device) if isinstance(at, np.ndarray) else at
                       for at in (q_at == 0, k_at == 0))  # fmt: skip
        row = like("cls_to_others", self.cls_to_others, q)[:, None, None]
        column = like("others_to_cls", self.others_to_cls, q)[:, None, None]
        kept = {name: xp.where(first | last, xp.zeros_like(t), t) for name, t in found.items()}
        untied = xp.where(first, row, xp.where(last, column, xp.zeros_like(row)))
        return kept | {"cls": untied}

    def _rows(self, name: str, at: Array, q: Array) -> Array:
        """Return the rows (H, S, d) of the table ``name`` at positions ``at`` (S,)."""
        table = getattr(self, name)
        rows, h, d = (int(n) for n in table.shape)
        flat = namespace(table).reshape(table, (rows, h * d))
        xp = namespace(q)
        found = like(name, lookup("positions", flat, at), q)
        return xp.permute_dims(xp.reshape(found, (int(at.shape[0]), h, d)), (1, 0, 2))

    def _sizes(self) -> Self:
        sizes = super()._sizes()
        if self.bias is None:
            return sizes
        table = np.abs(np.asarray(self.bias.table, np.float64))
        return sizes.replace(bias=self.bias.replace(table=table))
