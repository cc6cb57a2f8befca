"""Relative sinusoids with global biases: Transformer-XL, XLNet, Funnel, Conformer."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers, check_queries_and_keys, check_scale, clip, like, product
from ._namespace import Array, astype, device_of, from_host, is_array, namespace, widen
from ._text import shown
from .accuracy import Truth
from .score import Score
from .sinusoidal import Sinusoidal


@dataclass(frozen=True, eq=False, repr=False)
class TransformerXL(Score):
    """Relative sinusoids, projected for each head, with two biases shared by all queries.

    Formula
        ``A_ij = ((q_i + u) . k_j + (q_i + v) . W R(i - j)) / sqrt(d)``; R(p) is the row of
        ``sinusoid`` at p, which may be negative.  The four terms are ``q . k``, ``q . W R``,
        ``u . k`` and ``v . W R``, in this order.
    Source
        Dai et al. 2019, *Transformer-XL*, arXiv:1901.02860, section 3.3; R is ``[sin | cos]``.
        Conformer (Gulati et al. 2020, arXiv:2005.08100), ESPnet (``rel_pos_type=latest``),
        Wav2Vec2-Conformer, Parakeet: R is interleaved.  Funnel, XLNet (:class:`XLNet`): R is
        ``[sin | cos]``.
    Traps
        The offset is query minus key.  The authors compute ``q_i . W R`` for the K distances
        K - 1 .. 0 and align these columns with the keys by a reshape (:func:`relative_shift`).
        That is right for causal attention only: a key after the query gets a value from the row of
        the next query.  Ports without the reshape use the key's position instead of the distance.
        ESPnet's legacy table is :class:`ESPnetLegacy`.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|scale|`` times the sum of ``|q| |k|``, ``|q| |W| |R|``, ``|u| |k|`` and
        ``|v| |W| |R|`` over the channels, B = ``|scale|`` times the sum of ``|q| |W|`` and
        ``|v| |W|``, both times ``|(i - j) omega|``.

    Parameters
    ----------
    projection : array (H, d, D), real floating
        W, which maps a row of R to the d channels of each head.
    content_bias, position_bias : array (H, d), optional
        u and v; None means 0.
    sinusoid : Sinusoidal
        R; it must have D columns.
    clamp : int, optional
        Offsets are clipped to -clamp .. clamp (``clamp_len``).

    The logits are computed by the formula: R(i - j) is stored for every query and key, which takes
    Q K D numbers.
    """

    projection: Array
    content_bias: Array | None = None
    position_bias: Array | None = None
    _: KW_ONLY
    sinusoid: Sinusoidal
    clamp: int | None = None

    def __post_init__(self) -> None:
        h, d, width = check_numbers("projection", self.projection, "H", "d", "D").shape
        if not isinstance(self.sinusoid, Sinusoidal):
            raise TypeError(f"sinusoid must be a Sinusoidal, got {shown(self.sinusoid)}")
        if self.sinusoid.dim != width:
            raise ValueError(
                f"sinusoid must have the {width} columns that projection takes, got "
                f"{self.sinusoid.dim}"
            )
        for name in ("content_bias", "position_bias"):
            if (bias := getattr(self, name)) is not None:
                check_numbers(name, bias, h, d)
        if self.clamp is not None:
            self._set(clamp=validate.integer("clamp", self.clamp, minimum=1))

    @property
    def head_dim(self) -> int:  # type: ignore[override]
        """The number of channels d of a head."""
        return int(self.projection.shape[1])

    @property
    def heads(self) -> int | None:
        """The number of heads H of ``projection``."""
        return int(self.projection.shape[0])

    def _of_offset(self, q: Array, k: Array, r: Array, scale: float) -> dict[str, Array]:
        return self._of_rows(q, k, self._table(-self._held(r), q), scale)

    def _table(self, at: Array, q: Array) -> Array:
        """Return R (Q, K, D) at positions (Q, K), in the dtype and on the device of q."""
        xp = namespace(q) if isinstance(at, np.ndarray) else None
        return astype(self.sinusoid.table(at, xp=xp, device=device_of(q)), q.dtype)

    def _angles(self, at: np.ndarray) -> np.ndarray:
        """Return the error coefficient B of R at positions ``at``: (..., D)."""
        moved = np.zeros((*at.shape, self.sinusoid.dim))
        angle = np.abs(at[..., None] * self.sinusoid.frequencies()) * abs(self.sinusoid.scale)
        for columns in self.sinusoid.columns():
            moved[..., columns] = angle[..., : columns.size]
        return moved

    def _held(self, r: Array) -> Array:
        return r if self.clamp is None else clip(r, -self.clamp, self.clamp)

    def _of_rows(self, q: Array, k: Array, rows: Array, scale: float) -> dict[str, Array]:
        """Return the scaled terms of the logits by name, for rows R(i - j) (Q, K, D)."""
        found = {
            "content-content": product(q, k) * scale,
            "content-position": self._projected(q, rows) * scale,
        }
        xp = namespace(q)
        if self.content_bias is not None:
            u = like("content_bias", self.content_bias, q)[:, None, :]
            found["position-content"] = product(xp.zeros_like(q) + u, k) * scale
        if self.position_bias is not None:
            v = like("position_bias", self.position_bias, q)[:, None, :]
            found["position-position"] = self._projected(xp.zeros_like(q) + v, rows) * scale
        return found

    def _projected(self, x: Array, rows: Array) -> Array:
        """Return ``x_i . W R_ij`` (..., H, Q, K) for x (..., H, Q, d) and rows R (Q, K, D)."""
        xp = namespace(x)
        wide = xp.matmul(x, like("projection", self.projection, x))
        return xp.matmul(wide[..., None, :], xp.matrix_transpose(rows))[..., 0, :]

    def _truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        """Return each term with the coefficients A and B of its rounding error."""
        r = self._held(k_at - q_at)
        rows, moved = self._table(-r, q), self._angles(r)
        values = self._of_rows(q, k, rows, scale)
        sizes = self._sizes()
        terms = sizes._of_rows(np.abs(q), np.abs(k), np.abs(rows), abs(scale))
        bends = sizes._of_rows(np.abs(q), np.abs(k), moved, abs(scale))
        return {
            name: Truth(v, terms[name], bends[name] * name.endswith("-position"))
            for name, v in values.items()
        }


@dataclass(frozen=True, eq=False, repr=False)
class XLNet(TransformerXL):
    """Relative attention of XLNet: Transformer-XL's four terms and one for segments.

    Formula
        ``A_ij = ((q_i + u) . k_j + (q_i + v) . W R(i - j) + (q_i + s) . e[g_ij]) / sqrt(d)``;
        g_ij is 0 if query and key are in the same segment, else 1.
    Source
        Yang et al. 2019, *XLNet*, arXiv:1906.08237, section 2.5.  The content stream and the query
        stream have the same terms, each with its own q.
    Traps
        With ``attn_type="bi"`` the code's array of scores by distance has columns for both signs of
        i - j.  The reshape that aligns these columns with the keys drops one column more than
        Transformer-XL's.
    Error unit (see :mod:`posenc_ref.accuracy`)
        As :class:`TransformerXL`, but the sum in A also contains ``|q| |e|`` and ``|s| |e|``.

    Parameters
    ----------
    projection, content_bias, position_bias, sinusoid, clamp
        As in :class:`TransformerXL`; the sinusoid is ``Sinusoidal(D, layout="concat")``.
    segment_bias : array (H, d), optional
        s.
    segments : array (2, H, d), optional
        e: row 0 for the same segment, row 1 for different segments.
    """

    segment_bias: Array | None = None
    segments: Array | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        h, d, _ = self.projection.shape
        if (self.segment_bias is None) != (self.segments is None):
            raise ValueError("segment_bias and segments must both be given, or neither")
        if self.segments is not None:
            check_numbers("segments", self.segments, 2, h, d)
            check_numbers("segment_bias", self.segment_bias, h, d)

    def segment_term(
        self, q: Array, q_segments: Any, k_segments: Any, *, scale: float | None = None
    ) -> Array:
        """Return the fifth term (..., H, Q, K) of queries (..., H, Q, d); add it to ``scores``.

        Segment numbers are integers (Q,) and (K,), on the host or on q's device. The result has q's
        dtype, rounded once.
        """
        if self.segments is None:
            raise ValueError("segments must be given for segment_term(), got None")
        self._check(q, q)
        check_queries_and_keys(q, q)
        scale = self.own_scale(int(q.shape[-1])) if scale is None else check_scale(scale)
        xp, wide = namespace(q), widen(q)
        both = like("segment_bias", self.segment_bias, wide)[:, None, :] + wide
        e = like("segments", self.segments, wide)
        same, other = (xp.sum(both * e[n, :, None, :], axis=-1)[..., None] for n in (0, 1))
        one, two = (
            s if is_array(s) and not isinstance(s, np.ndarray)
            else from_host(np.asarray(s), xp, device_of(q))
            for s in (q_segments, k_segments)
        )  # fmt: skip
        return astype(xp.where(one[:, None] == two[None, :], same, other) * scale, q.dtype)
