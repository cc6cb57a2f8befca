"""Contextual position encoding (CoPE): positions are sums of gates computed from q . k."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._arrays import check_numbers, like, product
from ._namespace import Array, astype, device_of, from_host, namespace
from .accuracy import Truth
from .score import Score


@dataclass(frozen=True, eq=False, repr=False)
class CoPE(Score):
    """Contextual position encoding.

    Formula
        The gates are ``g_ij = sigmoid(q_i . k_j / sqrt(d))`` for keys j <= i, the positions
        ``p_ij = min(sum of g_it for t from j to i, P - 1)``, and the logits
        ``A_ij = q_i . k_j / sqrt(d) + q_i . e[p_ij]``.  ``e[p]`` is interpolated linearly between
        the rows ``e[floor(p)]`` and ``e[floor(p) + 1]``.
    Source
        Golovneva et al. 2024, *Contextual Position Encoding*, arXiv:2405.18719, equations (3) to
        (5), and its code (appendix B), which computes gates from the scaled and masked logits.
    Traps
        The mask must be applied before the gates: an unmasked sigmoid counts later keys.  The
        position term is not scaled, and the sum runs from the key to the query.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``C_ij + (1 + p_ij + sum of C_it / 4 over t <= i) E_ij``, B = 0.  C is ``|scale|`` times
        ``|q| |k|``.  E is ``|q| |e|``, summed over the two interpolated rows.  The factor of E
        allows for rounding the gates and their sum.

    Parameters
    ----------
    embedding : array (P, d), real floating
        e, shared by the heads.
    """

    embedding: Array

    relative = False
    sees_future = False

    @property
    def properties(self) -> frozenset[str]:
        """The properties listed in :attr:`Score.properties` that hold.

        "translation" does, because only the order of positions matters.
        """
        return frozenset({"prefix", "translation"})

    def __post_init__(self) -> None:
        check_numbers("embedding", self.embedding, "P", "d")

    @property
    def head_dim(self) -> int:  # type: ignore[override]
        """The number of channels d of a head."""
        return int(self.embedding.shape[1])

    def positions(self, logits: Array, q_at: Array, k_at: Array) -> Array:
        """Return p_ij (..., Q, K) for scaled ``logits`` and positions (Q, 1) and (1, K)."""
        xp, device = namespace(logits), device_of(logits)
        gates = 1.0 / (1.0 + xp.exp(-logits))
        visible, later = (
            astype(from_host(m, xp, device) if isinstance(m, np.ndarray) else m, logits.dtype)
            for m in (k_at <= q_at, k_at >= namespace(k_at).matrix_transpose(k_at))
        )
        # later[j, t] is 1 if key t is at or after key j.
        p = xp.matmul(gates * visible, xp.matrix_transpose(later))
        return xp.minimum(p, xp.full_like(p, float(self.embedding.shape[0] - 1)))

    def _of_pairs(
        self, q: Array, k: Array, q_at: Array, k_at: Array, scale: float
    ) -> dict[str, Array]:
        logits = product(q, k) * scale
        p = self.positions(logits, q_at, k_at)
        by_row = product(q, like("embedding", self.embedding, q))
        return {"content-content": logits, "content-position": self._at(p, by_row)}

    def _at(self, p: Array, by_row: Array) -> Array:
        """Return ``by_row`` (..., Q, P), interpolated linearly at p (..., Q, K)."""
        xp = namespace(p)
        total = xp.zeros_like(p)
        for m in range(int(by_row.shape[-1])):
            share = 1.0 - xp.abs(p - float(m))
            total = total + xp.maximum(share, xp.zeros_like(p)) * by_row[..., m : m + 1]
        return total

    def _truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        """Return each term of the logits with the coefficients A and B of its rounding error."""
        values = self._of_pairs(q, k, q_at, k_at, scale)
        size = product(np.abs(q), np.abs(k)) * abs(scale)
        p = self.positions(values["content-content"], q_at, k_at)
        by_row = product(np.abs(q), np.abs(np.asarray(self.embedding, np.float64)))
        low = np.floor(p).astype(int)
        high = np.minimum(low + 1, by_row.shape[-1] - 1)
        both = sum(np.take_along_axis(by_row, m, axis=-1) for m in (low, high))
        shaken = np.sum(size * (k_at <= q_at), axis=-1, keepdims=True) / 4
        terms = {"content-content": size, "content-position": both * (1 + p + shaken)}
        return {n: Truth(v, terms[n], np.zeros_like(v)) for n, v in values.items()}
