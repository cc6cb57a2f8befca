"""Relative position representations of Shaw et al.: a learned vector for each clipped offset."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers, clip, gathered, like, product
from ._namespace import Array, astype, device_of, from_host, namespace, widen
from ._positions import as_pairs
from .score import Score


@dataclass(frozen=True, eq=False, repr=False)
class Shaw(Score):
    """Relative position representations: ``q_i . (k_j + a_ij)``.

    Formula
        ``e_ij = q_i . (k_j + a_ij) / sqrt(d)``, ``z_i = sum_j alpha_ij (v_j + b_ij)``;
        ``a_ij = keys[clip(j - i, -before, after) + before]`` with ``after = rows - 1 - before``,
        and b_ij the same row of ``values``.
    Source
        Shaw, Uszkoreit, Vaswani 2018, arXiv:1803.02155, equations (3) to (5), before = after = K.
        Wav2Vec2-BERT and SeamlessM4T v2 have before = 64, after = 8 and no ``values``.  SpeechT5
        and Granite-Speech count i - j (``counted="query-key"``); SpeechT5's table has 2K rows, so
        after = K - 1.  Music Transformer (Huang et al. 2018, arXiv:1809.04281) has a table for each
        head, and after = 0.
    Traps
        Shaw's table has 2K + 1 rows, not 2K. Implementations differ in the sign of the offset.
        Music Transformer aligns its rows by a reshape ("skew"), which puts arbitrary values at keys
        after the query; this class clips the offset of these keys to 0.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|scale|`` times the sum of ``|q| |k|`` and ``|q| |a|`` over the channels, B = 0.

    Parameters
    ----------
    keys : array (rows, d), or (H, rows, d) with a table for each head; real floating
    before : int
        The number of rows before the row of offset 0.
    counted : {"key-query", "query-key"}
        The difference that selects the row.
    values : array of the shape of ``keys``, optional
        The vectors b_ij that :meth:`context` adds to the values.
    """

    keys: Array
    _: KW_ONLY
    before: int
    counted: str = "key-query"
    values: Array | None = None

    def __post_init__(self) -> None:
        shape = ("H", "rows", "d") if getattr(self.keys, "ndim", 2) == 3 else ("rows", "d")
        check_numbers("keys", self.keys, *shape)
        if self.values is not None:
            check_numbers("values", self.values, *self.keys.shape)
        before = validate.integer("before", self.before, minimum=0)
        if before >= self.keys.shape[-2]:
            raise ValueError(
                f"before must be the index of a row of keys, 0 .. {self.keys.shape[-2] - 1}, "
                f"got {before}"
            )
        self._set(
            before=before,
            counted=validate.choice("counted", self.counted, ("key-query", "query-key")),
        )

    @property
    def head_dim(self) -> int:  # type: ignore[override]
        """The number of channels d of ``keys``."""
        return int(self.keys.shape[-1])

    @property
    def heads(self) -> int | None:
        """The number of heads H of ``keys``, or None if all heads share one table."""
        return int(self.keys.shape[0]) if self.keys.ndim == 3 else None

    def row(self, r: Array) -> Array:
        """Return the index of the table row for relative positions key - query."""
        r = r if self.counted == "key-query" else -r
        after = int(self.keys.shape[-2]) - 1 - self.before
        return clip(r, -self.before, after) + self.before

    def context(self, weights: Array, v: Array, q_positions: Any, k_positions: Any) -> Array:
        """Return ``z_i = sum_j weights_ij (v_j + b_ij)``, weights (..., H, Q, K), v (..., H, K, d).

        Positions are (Q,) and (K,), on the host or on v's device; the result has v's dtype.
        """
        if self.values is None:
            raise ValueError("values must be given for context(), got None")
        xp, wide = namespace(v), widen(v)
        q_at, k_at = as_pairs(q_positions, k_positions, integers=True, x=v)
        weights = astype(weights, wide.dtype)
        row = self.row(k_at.values[None, :] - q_at.values[:, None])
        b = like("values", self.values, wide)
        # The total weight of each row: sum_j weights_ij [row_ij = m].
        falls = []
        for m in range(int(b.shape[-2])):
            mask = row == m
            here = from_host(mask, xp, device_of(v)) if isinstance(mask, np.ndarray) else mask
            falls.append(xp.sum(weights * astype(here, wide.dtype), axis=-1))
        falls = xp.stack(falls, axis=-1)
        return astype(xp.matmul(weights, wide) + xp.matmul(falls, b), v.dtype)

    def _of_offset(self, q: Array, k: Array, r: Array, scale: float) -> dict[str, Array]:
        by_row = product(q, like("keys", self.keys, q))
        return {
            "content-content": product(q, k) * scale,
            "content-position": gathered(by_row, self.row(r)) * scale,
        }
