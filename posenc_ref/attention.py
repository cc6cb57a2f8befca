"""The output of one attention head: softmax of the logits, times the values."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import check_counts, check_mask, check_numbers, check_place, dot, like
from ._namespace import (
    FLOATING,
    Array,
    astype,
    class_of,
    device_of,
    dtype_name,
    is_array,
    namespace,
    send,
    widen,
)
from ._positions import as_positions
from ._text import shown
from .bias import Bias
from .convit import ConViTBias
from .encoding import Encoding, Value
from .models.query_scale import QueryScale
from .rotary import Rotary
from .score import Score
from .scoring import scores
from .xpos import XPos

#: What carries the rotation of the values.
VALUES = ("plain", "rotated", "shared")


@dataclass(frozen=True, eq=False, repr=False)
class Attention(Value):
    """One attention layer: its encoding, what happens to the values, and its sinks.

    Formula
        ``a_ij = exp(l_ij) / (sum_k exp(l_ik) + exp(s))`` with the logits l of the encoding, over
        the keys k that query i sees; the term of the sink s is there with ``sinks=True`` only::

            o_i = sum_j a_ij v_j                    values="plain"
            o_i = R(-p_i) sum_j a_ij R(p_j) v_j     values="rotated" or "shared"

        R(p) is the rotation of the encoding without its attention factor. Rotated back, the output
        depends on the offsets p_j - p_i alone, like the logits. Query head h reads key head
        ``h // (H / H_kv)``.
    Source
        Rotated values: DeepSeek-V4 (one tensor is key and value, so the values carry the rotation
        of the keys): ``inference/model.py`` of the checkpoint, and section 2.3.3 of its report;
        ``deepseek_v4`` of transformers. Sinks: gpt-oss, arXiv:2508.10925, and its attention
        in transformers. Groups: Ainslie et al. 2023, arXiv:2305.13245.
    Error unit (see :mod:`posenc_ref.accuracy`)
        With l's own A and B, and v' = R(p) v or v: A = sum_j a_ij (A_j |v'_j - o_i| + A of v'_j),
        B the same with B; rotated back, a pair has A = |cos| A_1 + |sin| A_2, and
        B = |cos| B_1 + |sin| B_2 + |angle| hypot(o_1, o_2).
    Traps
        * Without the rotation back, the output depends on absolute positions, and the projection
          after it mixes them in (AMD-AGI/Primus#928).
        * The rotation back uses the position of the *query*, and the sign of the inverse.
        * In DeepSeek-V4 the last channels of a head rotate, in interleaved pairs, and YaRN's
          attention factor is 1 (Primus#928: no factor on the softmax scale either).
        * All keys of a layer have one base: layers with compressed keys rotate queries, window and
          compressed keys with ``compress_rope_theta`` (huggingface/transformers#45910).
        * A compressed key has the position of the first token of its window, and is seen once the
          window is complete: pass these positions, and a mask.

    Parameters
    ----------
    encoding : Encoding or None
        A rotary, bias or score encoding; None for attention without one (NoPE).
    values : {"plain", "rotated", "shared"}
        "plain": the values have no position. "rotated": values are rotated to the positions of
        their keys, and the output is rotated back. "shared": the same, and the values are the keys
        before their rotation, as in DeepSeek-V4.
    causal : bool
        Whether query i sees keys 0 .. K - Q + i only; queries are the last Q of the K tokens.
    sinks : bool
        Whether each head has a learned logit that takes weight and has no value.
    softmax_scale : float, optional
        The whole factor on q . k; None means the encoding's default, 1/sqrt(d) in most.
    query_scale : QueryScale, optional
        A factor on the queries.
    """

    kind = "attention"

    encoding: Encoding | None
    _: KW_ONLY
    values: str = "plain"
    causal: bool = True
    sinks: bool = False
    softmax_scale: float | None = None
    query_scale: QueryScale | None = None

    def __post_init__(self) -> None:
        e, scale = self.encoding, self.softmax_scale
        if e is not None and (
            not isinstance(e, Rotary | Bias | Score) or isinstance(e, ConViTBias)
        ):
            why = (
                "is added to embeddings, before the projections that give the values"
                if not isinstance(e, ConViTBias)
                else "blends two softmaxes"
            )
            raise TypeError(
                "encoding must be a rotary, bias or score encoding, or None, got "
                f"{type(e).__name__ if isinstance(e, Encoding) else shown(e)}"
                + (f", which {why}" if isinstance(e, Encoding) else "")
            )
        values = validate.choice("values", self.values, VALUES)
        if values != "plain" and (not isinstance(e, Rotary) or isinstance(e, XPos)):
            raise ValueError(
                f"values must be 'plain' unless the encoding rotates queries and keys alike, got "
                f"{values!r} with {type(e).__name__ if e is not None else None}"
            )
        for name in ("causal", "sinks"):
            validate.boolean(name, getattr(self, name))
        if isinstance(e, Bias | Score) and not e.sees_future and not self.causal:
            raise ValueError(
                f"causal must be True for {type(e).__name__}, which is defined for keys up to the "
                "query, got False"
            )
        if self.query_scale is not None and not isinstance(self.query_scale, QueryScale):
            raise TypeError(
                "query_scale must be a query scale such as QueryTemperature(...), got "
                f"{shown(self.query_scale)}"
            )
        self._set(
            values=values,
            softmax_scale=None if scale is None else validate.real("softmax_scale", scale, above=0),
        )

    def scores(self, q: Array, k: Array, q_positions: Any, k_positions: Any) -> Array:
        """Return the effective logits (..., H, Q, K) before the mask, in q's dtype.

        q is (..., H, Q, d), k is (..., H_kv, K, d) where H_kv divides H.
        """
        self._check(q, k, None)
        wide = grouped(widen(k), int(q.shape[-3]) if q.ndim > 2 else None)
        return astype(self._logits(widen(q), wide, q_positions, k_positions), q.dtype)

    def output(
        self,
        q: Array,
        k: Array,
        v: Array,
        q_positions: Any,
        k_positions: Any,
        *,
        sinks: Array | None = None,
        mask: Array | None = None,
    ) -> Array:
        """Return the output of the attention, before the output projection.

        Parameters
        ----------
        q : array (..., H, Q, d), real floating
            Queries before their rotation.
        k : array (..., H_kv, K, d)
            Keys before their rotation; H_kv divides H.
        v : array (..., H_kv, K, d_v)
            Values before their rotation; d_v is d unless ``values`` is "plain".
        q_positions, k_positions
            As for :func:`posenc_ref.scores`.
        sinks : array (H,), real floating
            The logit of the sink of each head; required if ``self.sinks``, else not allowed.
        mask : array of bool, broadcastable to (..., H, Q, K), optional
            True for keys that the query may see, in addition to ``causal``.

        Returns
        -------
        array (..., H, Q, d_v)
            In q's library, device and dtype; computed in float64 (float32 if q's device has no
            float64) and rounded once. A query that sees no key has the output 0.

        Raises
        ------
        TypeError, ValueError
            Arrays do not fit each other, sinks are missing or too many, ``causal`` attention has
            more queries than keys, or the encoding does not accept the positions.
        """
        self._check(q, k, v)
        xp, heads, n_q, n_k = namespace(q), int(q.shape[-3]), int(q.shape[-2]), int(k.shape[-2])
        wide_v = grouped(widen(v), heads)
        logits = self._logits(widen(q), grouped(widen(k), heads), q_positions, k_positions)
        seen = self._seen(q, n_q, n_k, mask)
        if seen is not None:
            logits = xp.where(seen, logits, xp.full_like(logits, -np.inf))
        top = (xp.max if n_k else xp.sum)(logits, axis=-1, keepdims=True)  # of no key: 0
        top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
        sink = self._sinks(sinks, logits, heads)
        if sink is not None:
            top = xp.maximum(top, sink)
        weights = xp.exp(logits - top)
        total = xp.sum(weights, axis=-1, keepdims=True)
        if sink is not None:
            total = total + xp.exp(sink - top)
        weights = weights / xp.where(total > 0, total, xp.ones_like(total))
        e = self.encoding
        if self.values == "plain" or not isinstance(e, Rotary):
            return astype(xp.matmul(weights, wide_v), q.dtype)
        n = e.common_length(q_positions, k_positions)
        out = xp.matmul(weights, e.apply(wide_v, k_positions, seq_len=n))
        return astype(e.inverse(out, q_positions, seq_len=n), q.dtype)

    # -- implementation ----------------------------------------------------------------------

    def _logits(self, q: Array, k: Array, q_positions: Any, k_positions: Any) -> Array:
        return effective_logits(
            self.encoding, q, k, q_positions, k_positions, self.softmax_scale, self.query_scale
        )

    def _check(self, q: Array, k: Array, v: Array | None) -> None:
        named = {"q": q, "k": k} | ({} if v is None else {"v": v})
        for name, x in named.items():
            if not is_array(x) or dtype_name(x) not in FLOATING:
                raise TypeError(f"{name} must be a real floating array, got {class_of(x)}")
            check_place(name, x, "q", q)
            if x.ndim < 3:
                raise ValueError(
                    f"{name} must have shape (..., heads, tokens, channels), got {tuple(x.shape)}"
                )
        heads, held = int(q.shape[-3]), int(k.shape[-3])
        if q.shape[:-3] != k.shape[:-3] or q.shape[-1] != k.shape[-1] or held < 1 or heads % held:
            raise ValueError(
                "q and k must have shapes (..., H, Q, d) and (..., H_kv, K, d), where H_kv divides "
                f"H, got {tuple(q.shape)} and {tuple(k.shape)}"
            )
        if v is not None and v.shape[:-1] != k.shape[:-1]:
            raise ValueError(
                f"v must have shape (..., H_kv, K, d_v) with the heads and tokens of k, "
                f"{tuple(k.shape)}, got {tuple(v.shape)}"
            )
        if v is not None and self.values != "plain" and v.shape[-1] != k.shape[-1]:
            raise ValueError(
                f"v must have {k.shape[-1]} channels, like k, because values are rotated, got "
                f"{v.shape[-1]}"
            )

    def _seen(self, q: Array, n_q: int, n_k: int, mask: Array | None) -> Array | None:
        """Return which keys each query sees, or None for all."""
        xp, device = namespace(q), device_of(q)
        seen = None
        if self.causal:
            if n_q > n_k:
                raise ValueError(
                    f"causal attention needs no more queries than keys, got {n_q} and {n_k}"
                )
            seen = send(np.arange(n_k) <= np.arange(n_k - n_q, n_k)[:, None], xp, device)
        if mask is not None:
            check_mask(mask, q, (*q.shape[:-1], n_k))
            mask = send(mask, xp, device) if isinstance(mask, np.ndarray) else mask
            seen = mask if seen is None else seen & mask
        return seen

    def _sinks(self, sinks: Array | None, logits: Array, heads: int) -> Array | None:
        if (sinks is not None) != self.sinks:
            raise ValueError(
                f"sinks must be {'an array (H,)' if self.sinks else 'None'}, because the attention "
                f"is declared with sinks={self.sinks}, got {shown(sinks)}"
            )
        if sinks is None:
            return None
        return like("sinks", check_numbers("sinks", sinks, heads), logits)[:, None, None]


def effective_logits(
    encoding: Encoding | None,
    q: Array,
    k: Array,
    q_positions: Any,
    k_positions: Any,
    scale: float | None,
    query_scale: QueryScale | None,
) -> Array:
    """Return the logits with the factors of a model; encoding None has no positional term."""
    if query_scale is not None:  # before the rotation, which is linear
        q = query_scale.apply(q, q_positions)
    if encoding is None:  # the positions have no effect, but a wrong one is a wrong call
        at = [
            as_positions(p, x=q, name=name).shape
            for name, p in (("q_positions", q_positions), ("k_positions", k_positions))
        ]
        check_counts(q, k, (at[0][-1] if at[0] else 1, at[1][-1] if at[1] else 1), None)
        return dot(q, k, q.shape[-1] ** -0.5 if scale is None else scale)
    return scores(encoding, q, k, q_positions, k_positions, scale=scale)


def grouped(x: Array, heads: int | None) -> Array:
    """Return keys or values (..., H_kv, K, d) repeated for ``heads`` query heads."""
    if heads is None or x.ndim < 3 or x.shape[-3] == heads:
        return x
    xp, (held, n, d) = namespace(x), x.shape[-3:]
    spread = xp.broadcast_to(x[..., :, None, :, :], (*x.shape[:-3], held, heads // held, n, d))
    return xp.reshape(spread, (*x.shape[:-3], heads, n, d))
