"""ESPnet's relative encoding until 2020, for checkpoints that were trained with it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from . import _validate as validate
from ._namespace import Array, astype, device_of, from_host, namespace
from .accuracy import Truth
from .transformer_xl import TransformerXL


@dataclass(frozen=True, eq=False, repr=False)
class ESPnetLegacy(TransformerXL):
    """Relative sinusoids of ESPnet with ``rel_pos_type: legacy``.

    ESPnet aligns the logits with the keys by reshaping, as Transformer-XL does.  This gives wrong
    logits for keys after the query.  Transformer-XL masks those keys, but ESPnet's encoder attends
    to them.

    Formula
        As :class:`TransformerXL`, except for the part ``(q_i + v) . W R(i - j)``, where v is
        ``position_bias``, W ``projection`` and R(p) the row of ``sinusoid`` at p.  With K keys and
        L = max(max_len, K), this part is ``(q_i + v) . W R(L - K + i - j)`` for j <= i, 0 for
        j = i + 1, and ``(q_(i+1) + v) . W R(L + 1 + i - j)`` for j > i + 1, where q_(i+1) is the
        query of the *next* row.  The queries are at the positions of the last keys, in order.
    Source
        espnet/espnet, ``LegacyRelPositionalEncoding`` and ``LegacyRelPositionMultiHeadedAttention``
        (version 202511).  Pull request 2816 replaced this encoding by
        ``TransformerXL(..., sinusoid=Sinusoidal(D))``.
    Traps
        Distance 0 uses R(L - K), so the logits of a pair depend on the length K of the utterance.
        In ESPnet, an utterance longer than ``max_len`` enlarges the table of R, which changes the
        logits of all later utterances: then pass the longest length so far as ``max_len``.
        For keys j <= i, this encoding equals ``TransformerXL`` with
        ``sinusoid=Sinusoidal(D, offset=L - K)``.
    Error unit (see :mod:`posenc_ref.accuracy`)
        As :class:`TransformerXL`, but B uses the argument of R above instead of i - j.

    Parameters
    ----------
    projection, content_bias, position_bias, sinusoid
        As in :class:`TransformerXL`; the sinusoid is ``Sinusoidal(D)``.
    clamp : None
        Must be None, because this encoding does not clamp offsets.
    max_len : int
        Number of rows of ESPnet's table: 5000, or the length of the longest utterance so far.
    """

    _: KW_ONLY
    max_len: int = 5000

    relative = False
    mixes_queries = True

    @property
    def properties(self) -> frozenset[str]:
        """The properties listed in :attr:`Score.properties` that hold.

        "prefix" does not: R depends on the number of keys, so later tokens change all logits.
        """
        return frozenset({"translation"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clamp is not None:
            raise ValueError(
                f"clamp must be None, because ESPnetLegacy does not clamp offsets, got {self.clamp}"
            )
        self._set(max_len=validate.integer("max_len", self.max_len, minimum=1))

    def _places(self, q_at: Array, k_at: Array) -> Array:
        """Return the argument (Q, K) of the sinusoid R for each pair of query and key."""
        d, length = q_at - k_at, max(self.max_len, int(k_at.shape[-1]))
        xp = namespace(d)
        return xp.where(d >= 0, d + (length - int(k_at.shape[-1])), d + (length + 1))

    def _of_pairs(
        self, q: Array, k: Array, q_at: Array, k_at: Array, scale: float
    ) -> dict[str, Array]:
        rows = self._table(self._places(q_at, k_at), q)
        return self._of_tables(q, k, q_at, k_at, rows, scale)

    def _of_tables(
        self, q: Array, k: Array, q_at: Array, k_at: Array, rows: Array, scale: float
    ) -> dict[str, Array]:
        """Return the terms of the logits; ``rows`` (Q, K, D) holds R for each query and key."""
        xp, device = namespace(q), device_of(q)
        own, later = (
            astype(from_host(m, xp, device) if isinstance(m, np.ndarray) else m, q.dtype)
            for m in (q_at >= k_at, q_at < k_at - 1)
        )
        found = self._of_rows(q, k, rows, scale)
        following = xp.concat([q[..., 1:, :], xp.zeros_like(q[..., :1, :])], axis=-2)
        next_term = self._projected(following, rows) * scale
        found["content-position"] = found["content-position"] * own + next_term * later
        if "position-position" in found:
            found["position-position"] = found["position-position"] * (own + later)
        return found

    def _truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        """Return each term of the logits with the coefficients A and B of its rounding error."""
        places = self._places(q_at, k_at)
        rows, moved = self._table(places, q), self._angles(places)
        values = self._of_tables(q, k, q_at, k_at, rows, scale)
        sizes, aq, ak = self._sizes(), np.abs(q), np.abs(k)
        terms = sizes._of_tables(aq, ak, q_at, k_at, np.abs(rows), abs(scale))
        bends = sizes._of_tables(aq, ak, q_at, k_at, moved, abs(scale))
        return {
            name: Truth(v, terms[name], bends[name] * name.endswith("-position"))
            for name, v in values.items()
        }
