"""ESPnet's relative encoding up to 2020, which checkpoints of that time need."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from . import _validate as validate
from ._namespace import Array, astype, device_of, from_host, namespace
from .accuracy import Truth
from .transformer_xl import TransformerXL


@dataclass(frozen=True, eq=False, repr=False)
class ESPnetLegacy(TransformerXL):
    """ESPnet's ``rel_pos_type: legacy``: Transformer-XL's causal shift in an encoder.

    Formula
        As :class:`TransformerXL`, except for the terms with R.  With K keys and L = max(max_len,
        K): ``(q_i + v) . W R(L - K + i - j)`` for j <= i, 0 for j = i + 1, and ``(q_(i+1) + v) . W
        R(L + 1 + i - j)`` for later keys; q_(i+1) is the query of the *next* row.  Queries are the
        last keys, in order.
    Source
        espnet/espnet, ``LegacyRelPositionalEncoding`` and ``LegacyRelPositionMultiHeadedAttention``
        (version 202511); pull request 2816 replaced it by ``TransformerXL(...,
        sinusoid=Sinusoidal(D))``.
    Traps
        Distance 0 uses row L - K, so the logits of a pair depend on the length of the utterance.
        The table grows with the longest utterance so far: beyond ESPnet's own ``max_len``, logits
        depend on earlier utterances; give the longest length as ``max_len`` then. For keys up to
        the query, this encoding equals the current one with ``Sinusoidal(D, offset=L - K)``.
    Error unit
        As :class:`TransformerXL`; B uses the position of the row of R.

    Parameters
    ----------
    projection, content_bias, position_bias, sinusoid
        As in :class:`TransformerXL`; the sinusoid is ``Sinusoidal(D)``.
    clamp : None
        Not supported: offsets are not clamped.
    max_len : int
        Rows of the table: 5000, or the longest utterance so far.
    """

    _: KW_ONLY
    max_len: int = 5000

    relative = False
    mixes_queries = True

    @property
    def properties(self) -> frozenset[str]:
        """The properties that hold: none, because rows are counted from the end of the sequence."""
        return frozenset({"translation"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clamp is not None:
            raise ValueError(f"clamp must be None: it has no effect here, got {self.clamp}")
        self._set(max_len=validate.integer("max_len", self.max_len, minimum=1))

    def _places(self, q_at: Array, k_at: Array) -> Array:
        """Return the position (Q, K) at which R is evaluated for each pair."""
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
        """Return the terms of the logits for rows R (Q, K, D) of the sinusoid."""
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

    def truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        """Return each term with the error coefficients A and B."""
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
