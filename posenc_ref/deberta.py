"""Disentangled attention of DeBERTa: content to position and position to content."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers, clip, gathered, like, product
from ._cached import cached_property
from ._namespace import (
    INTEGER,
    Array,
    astype,
    dtype_name,
    is_array,
    namespace,
    wide_integer,
)
from .score import Score
from .t5 import geometric_starts, reached


@dataclass(frozen=True, eq=False, repr=False)
class DeBERTa(Score):
    """Disentangled attention.

    Formula
        ``A_ij = (q_i . k_j + q_i . Kr[r_ij] + k_j . Qr[r_ij]) / sqrt(n d)``.  n is the number of
        terms: 3, or 2 without Kr or without Qr.  The row of both tables is
        ``r_ij = clip(b(i - j) + span, 0, 2 span - 1)``, where span is half their number of rows.
        In DeBERTa v1, which has no buckets, ``b(x) = x``.  In DeBERTa v2 and v3, with
        mid = buckets // 2, ``b(x) = x`` for |x| <= mid, and for other x
        ``b(x) = sign(x) (mid + ceil(log(|x|/mid) / log((max_position - 1)/mid) (mid - 1)))``.
    Source
        He et al. 2020, arXiv:2006.03654, equations (2) to (4).  The buckets b are in the authors'
        code (``make_log_bucket_position``).
    Traps
        The paper writes ``Qr[r_ji]`` in equation (4) (``p2c="paper"``).  The authors' code and
        transformers have ``Qr[r_ij]`` (``p2c="code"``).  The offset is query minus key.  The
        largest b, span, shares the last row of a table with span - 1.  The smallest, -span, has
        row 0, and 1 - span has row 1.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|scale|`` times the sum of ``|q| |k|``, ``|q| |Kr|`` and ``|k| |Qr|`` over the
        channels, B = 0.

    Parameters
    ----------
    relative_keys : array (H, 2 span, d), real floating, or None
        Kr, the relative embeddings after the key projection; multiplied with queries (c2p).
    relative_queries : array (H, 2 span, d), real floating, or None
        Qr, the relative embeddings after the query projection; multiplied with keys (p2c).
    buckets, max_position : int, optional
        ``position_buckets`` (256) and ``max_relative_positions`` (512) of DeBERTa v2 and v3; None
        in v1.
    p2c : {"code", "paper"}
        "code": the last term has ``Qr[r_ij]``; "paper": it has ``Qr[r_ji]``.
    """

    relative_keys: Array | None
    relative_queries: Array | None
    _: KW_ONLY
    buckets: int | None = None
    max_position: int | None = None
    p2c: str = "code"

    def __post_init__(self) -> None:
        tables = {"relative_keys": self.relative_keys, "relative_queries": self.relative_queries}
        given = {name: check_numbers(name, t, "H", "2 span", "d") for name, t in tables.items()
                 if t is not None}  # fmt: skip
        if not given:
            raise ValueError("relative_keys or relative_queries must be given, both are None")
        for name, t in given.items():
            check_numbers(name, t, *self._table.shape)
        if self._table.shape[-2] % 2:
            raise ValueError(
                f"{next(iter(given))} must have an even number of rows (2 span), "
                f"got {self._table.shape[-2]}"
            )
        self._set(p2c=validate.choice("p2c", self.p2c, ("code", "paper")))
        if (self.buckets is None) != (self.max_position is None):
            raise ValueError("buckets and max_position must both be given, or neither")
        if self.buckets is not None:
            buckets = validate.size("buckets", self.buckets, minimum=4)
            if buckets != self.span:
                raise ValueError(f"buckets must be {self.span}, half of the rows, "
                                 f"got {buckets}")  # fmt: skip
            largest = validate.integer("max_position", self.max_position, minimum=buckets // 2 + 2)
            self._set(buckets=buckets, max_position=largest)

    @property
    def _table(self) -> Array:
        return self.relative_queries if self.relative_keys is None else self.relative_keys

    @property
    def span(self) -> int:
        """Half of the number of rows of a table."""
        return int(self._table.shape[-2]) // 2

    @property
    def head_dim(self) -> int:  # type: ignore[override]
        """The number of channels d of a head."""
        return int(self._table.shape[-1])

    @property
    def heads(self) -> int | None:
        """Number of heads H, the size of the first axis of the tables."""
        return int(self._table.shape[0])

    def own_scale(self, dim: int) -> float:
        """Return ``1 / sqrt(n d)``, n the number of terms."""
        terms = sum(t is not None for t in (self.relative_keys, self.relative_queries))
        return float((validate.integer("dim", dim, minimum=1) * (1 + terms)) ** -0.5)

    @cached_property
    def thresholds(self) -> tuple[int, ...]:
        """The smallest |i - j| of each bucket mid + 1, mid + 2, ..., span.

        They are exact: no rounded logarithm decides.
        """
        if self.buckets is None or self.max_position is None:
            return ()
        mid, last = self.buckets // 2, self.max_position - 1
        count = self.buckets - mid - 1
        return (mid + 1, *geometric_starts(mid, last, mid - 1, count, beyond=True))

    def bucket(self, relative_position: Any) -> Array:
        """Return b(r) of integer relative positions ``query - key`` (...), as int64 (...).

        Results are clipped to -span .. span, because all offsets beyond share a row.
        """
        r = relative_position if is_array(relative_position) else np.asarray(relative_position)
        if dtype_name(r) not in INTEGER:
            raise TypeError(f"relative_position must be integers, got dtype {dtype_name(r)}")
        xp = namespace(r)
        wide = wide_integer(xp)
        r = astype(r, wide)
        if self.buckets is None:
            return clip(r, -self.span, self.span)
        mid = self.buckets // 2
        size = clip(xp.abs(r), 0, mid) + reached(xp.abs(r), self.thresholds)
        return size * xp.sign(r)

    def row(self, r: Array) -> Array:
        """Return ``clip(b(r) + span, 0, 2 span - 1)`` for r = query - key."""
        return clip(self.bucket(r) + self.span, 0, 2 * self.span - 1)

    def _of_offset(self, q: Array, k: Array, r: Array, scale: float) -> dict[str, Array]:
        found = {"content-content": product(q, k) * scale}
        row = self.row(-r)
        if self.relative_keys is not None:
            by_row = product(q, like("relative_keys", self.relative_keys, q))
            found["content-position"] = gathered(by_row, row) * scale
        if self.relative_queries is not None:
            by_row = product(k, like("relative_queries", self.relative_queries, k))
            xp = namespace(row)
            back = xp.matrix_transpose(row if self.p2c == "code" else self.row(r))
            found["position-content"] = (
                namespace(q).matrix_transpose(gathered(by_row, back)) * scale
            )
        return found
