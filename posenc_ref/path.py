"""PaTH: a product of Householder-like matrices, one of each token, between key and query."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers, like, lookup, product
from ._namespace import Array, device_of, from_host, namespace, to_host
from ._text import shown
from .accuracy import Truth
from .forgetting import ForgettingBias
from .score import Score

#: What positions count, in messages.
_TOKENS = "the tokens of directions"


@dataclass(frozen=True, eq=False, repr=False)
class PaTH(Score):
    """Position encoding by accumulated Householder transformations.

    Formula
        ``A_ij = k_j^T H_{j+1} H_{j+2} ... H_i q_i / sqrt(d)`` for keys j <= i, with
        ``H_t = I - beta_t w_t w_t^T``, ``w_t = v_t / |v_t|``; v_t are the ``directions``.
        PaTH-FoX adds the sum of ``log f_t`` for t = j + 1 .. i (``forget``).
    Source
        Yang et al. 2025, *PaTH Attention: Position Encoding via Accumulating Householder
        Transformations*, arXiv:2505.16381, section 2; fla-core, ``fla/ops/path_attn/naive.py`` and
        ``fla/layers/path_attn.py``.
    Traps
        The product includes the matrix of the query's token and excludes that of the key's, so
        A_ii = q_i . k_i / sqrt(d).  The query meets its own matrix first: the order matters,
        because the matrices do not commute.  beta lies in (0, 2), twice a sigmoid; up to 1, the
        matrices only shrink and do not reflect.  w must have unit length.  fla-core adds the log
        gates before it multiplies by 1/sqrt(d) (``gates_scaled=True``); FoX adds them to the scaled
        product.  In decoding, fla-core keeps transformed keys: each step multiplies all earlier
        keys by the new H.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|scale| |q_i| |k_j| (1 + n)``, where ``|x|`` is the Euclidean length and n the number
        of matrices: each of them rounds a vector no longer than q_i.  With ``forget``, A of the
        bias is added, times ``|scale|`` if gates are scaled.  B = 0.

    Parameters
    ----------
    directions : array (H, S, d), real floating
        v of the tokens at positions 0 .. S - 1, of any length above 0.  A length of 0 raises in a
        NumPy array, and gives NaN in other arrays, which are not read.
    beta : array (H, S), real floating
        Between 0 and 2.  As for ``directions``, the numbers are not checked: every sequence has new
        ones, and a check would copy them from the device.
    forget : ForgettingBias, optional
        The forget gates of the same H heads and S tokens (PaTH-FoX).
    gates_scaled : bool
        Whether the log gates are multiplied by the scale too, as in fla-core.
    """

    directions: Array
    beta: Array
    _: KW_ONLY
    forget: ForgettingBias | None = None
    gates_scaled: bool = False

    relative = False
    holds_tokens = True
    sees_future = False

    def __post_init__(self) -> None:
        h, s, _ = check_numbers("directions", self.directions, "H", "S", "d").shape
        check_numbers("beta", self.beta, h, s)
        self._check_lengths()
        self._set(gates_scaled=validate.boolean("gates_scaled", self.gates_scaled))
        if self.forget is None:
            if self.gates_scaled:
                raise ValueError("gates_scaled must be False without forget: there are no gates")
            return
        if not isinstance(self.forget, ForgettingBias):
            raise TypeError(f"forget must be a ForgettingBias, got {shown(self.forget)}")
        if (self.forget.num_heads, self.forget.tokens) != (h, s):
            raise ValueError(
                f"forget must have the {h} heads and {s} tokens of directions, got "
                f"{self.forget.num_heads} heads and {self.forget.tokens} tokens"
            )

    def _check_lengths(self) -> None:
        """Raise ValueError for a direction without a length; arrays of a device are not read."""
        if not isinstance(self.directions, np.ndarray):
            return
        with np.errstate(over="ignore", under="ignore"):
            lengths = np.linalg.norm(self.directions.astype(np.float64), axis=-1)
        wrong = np.argwhere(~(lengths > 0) | np.isinf(lengths))
        if len(wrong):
            head, token = wrong[0]
            raise ValueError(
                "directions must have finite lengths above 0 in float64, got "
                f"{lengths[head, token]:g} for head {head}, token {token}"
            )

    @property
    def head_dim(self) -> int:  # type: ignore[override]
        """The number of channels d of a head."""
        return int(self.directions.shape[2])

    @property
    def heads(self) -> int | None:
        """The number of heads H."""
        return int(self.directions.shape[0])

    @property
    def rows(self) -> int | None:
        """The number of tokens S of the sequence."""
        return int(self.directions.shape[1])

    def _of_pairs(
        self, q: Array, k: Array, q_at: Array, k_at: Array, scale: float
    ) -> dict[str, Array]:
        terms = {"content-content": self._products(q, k, q_at, k_at) * scale}
        if self.forget is not None:
            bias = like("forget", self.forget.bias(q_at[:, 0], k_at[0, :]), q)
            bias = bias * (scale if self.gates_scaled else 1.0)
            terms["forget"] = namespace(q).zeros_like(terms["content-content"]) + bias
        return terms

    def _products(self, q: Array, k: Array, q_at: Array, k_at: Array) -> Array:
        """Return ``k_j^T H_{j+1} ... H_i q_i`` (..., H, Q, K), from the last token to the first."""
        xp: Any = namespace(q)
        w, beta = like("directions", self.directions, q), like("beta", self.beta, q)
        w = w / xp.sqrt(xp.sum(w * w, axis=-1, keepdims=True))

        def here(mask: Array) -> Array:
            return from_host(mask, xp, device_of(q)) if isinstance(mask, np.ndarray) else mask

        none = xp.zeros_like(w[0, :, :1])
        inside = lookup("q_positions", none, q_at[:, 0], of=_TOKENS)  # raises, or is NaN
        inside = inside + xp.matrix_transpose(lookup("k_positions", none, k_at[0, :], of=_TOKENS))
        found = product(q, k) + inside  # of later keys, which the caller masks, and the query's own
        for t in range(int(w.shape[-2]) - 1, -1, -1):  # q is H_{t+1} ... H_i q_i
            found = xp.where(here((k_at == t) & (q_at > t)), product(q, k), found)
            w_t = w[:, t, None, :]
            turned = q - beta[:, t, None, None] * w_t * xp.sum(q * w_t, axis=-1, keepdims=True)
            q = xp.where(here(q_at >= t), turned, q)
        return found

    def _truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        """Return each term of the logits with the coefficients A and B of its rounding error."""
        values = {n: np.asarray(t) for n, t in self._of_pairs(q, k, q_at, k_at, scale).items()}
        of_q, of_k = (np.linalg.norm(x, axis=-1) for x in (q, k))
        size = of_q[..., :, None] * of_k[..., None, :] * (1 + np.maximum(q_at - k_at, 0))
        terms = {"content-content": size * abs(scale)}
        if self.forget is not None:
            gates = np.abs(np.asarray(to_host(self.forget.log_gates), np.float64))
            sums = np.cumsum(gates, axis=-1)
            a = sums[:, q_at[:, 0]][:, :, None] + sums[:, k_at[0, :]][:, None, :]
            terms["forget"] = a * (abs(scale) if self.gates_scaled else 1.0)
        return {n: Truth(v, terms[n] + 0 * v, np.zeros_like(v)) for n, v in values.items()}
