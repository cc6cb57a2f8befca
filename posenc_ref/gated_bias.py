"""WavLM's relative position bias: T5's, times a gate computed from the query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._arrays import check_numbers, like, product
from ._namespace import Array, astype, is_array, namespace, to_host, widen
from ._network import sigmoid
from ._positions import as_pairs
from ._text import shown
from .accuracy import Truth
from .score import Score
from .t5 import T5Bias


@dataclass(frozen=True, eq=False, repr=False)
class GatedBias(Score):
    """Gated relative position bias.

    Formula
        The logits of head h are ``A_ij = q_i . k_j / sqrt(d) + g_i b_h(j - i)``, where b_h is the
        ``bias`` of the head.  The gate is ``g_i = 2 + a_i (scale_h r_i - 1)`` with
        ``a_i = sigmoid(w_0 . x_i + c_0)`` and ``r_i = sigmoid(w_1 . x_i + c_1)``.
        All heads share w = ``weight`` and c = ``linear_bias``; x_i holds the d channels of head h.
        The paper writes the gate with u = 1 - a: ``g_i = 1 + u_i + (1 - u_i) scale_h r_i``.
    Source
        Chen et al. 2021, *WavLM*, arXiv:2110.13900, section III, after Chi et al. 2021, *XLM-E*,
        arXiv:2106.16138.  In the paper, x is the query, as in :meth:`terms`.  In the authors' code
        and transformers, x is the *hidden state*, cut into heads before any projection
        (:meth:`gated_bias`).  In another branch of the authors' code (TorchScript, TPU,
        incremental), x is the projected query, scaled by 1/sqrt(d).
    Traps
        The bias is added to the scaled product.  ``gru_rel_pos_linear`` has eight outputs; the
        argument of each sigmoid is the sum of four. All layers share the table of ``bias``, but
        each layer has its own gates. WavLM has 320 buckets, up to a distance of 800.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = the sum of ``|q| |k|``, multiplied by the factor of q . k, plus
        ``|b| (2 + A_a (1 + |scale| A_r))``, B = 0.  For each sigmoid s (a or r),
        ``A_s = s + s (1 - s) (|w| |x| + |c|)``.

    Parameters
    ----------
    bias : T5Bias
    weight : array (2, d), real floating
        The sum of rows 0 to 3 and the sum of rows 4 to 7 of ``gru_rel_pos_linear.weight``.
    linear_bias : array (2,), real floating
        The same sums of ``gru_rel_pos_linear.bias``.
    scale : array (H,), real floating
        ``gru_rel_pos_const``.
    """

    bias: T5Bias
    weight: Array
    linear_bias: Array
    scale: Array

    def __post_init__(self) -> None:
        if not isinstance(self.bias, T5Bias):
            raise TypeError(f"bias must be a T5Bias, got {shown(self.bias)}")
        check_numbers("weight", self.weight, 2, "d")
        check_numbers("linear_bias", self.linear_bias, 2)
        check_numbers("scale", self.scale, self.bias.num_heads)

    @property
    def head_dim(self) -> int:  # type: ignore[override]
        """Number of channels d of a head."""
        return int(self.weight.shape[1])

    @property
    def heads(self) -> int | None:
        """Number of heads H."""
        return self.bias.num_heads

    def gates(self, x: Array) -> Array:
        """Return the gates g (..., H, S) of x (..., H, S, d), in the working dtype."""
        h, d = self.heads, self.head_dim
        if not is_array(x) or x.ndim < 3 or (x.shape[-3], x.shape[-1]) != (h, d):
            shape = f"{tuple(x.shape)}" if is_array(x) else type(x).__name__
            raise ValueError(f"x must be an array (..., H, S, d), H = {h} and d = {d}, got {shape}")
        x = widen(x)
        a, r = (sigmoid(self._argument(x, n)) for n in (0, 1))
        scale = like("scale", self.scale, x)[:, None]
        return 2.0 + a * (scale * r - 1.0)

    def gated_bias(self, x: Array, q_positions: Any, k_positions: Any) -> Array:
        """Return ``g_i b(j - i)`` (..., H, Q, K), with gates from x (..., H, Q, d).

        x holds queries, or hidden states cut into heads. Add the result to ``q . k / sqrt(d)``.
        Positions are (Q,) and (K,). The result has x's dtype, rounded once.
        """
        gates = self.gates(x)
        q_at, k_at = as_pairs(q_positions, k_positions, integers=True, x=x)
        if q_at.shape != (gates.shape[-1],):
            raise ValueError(
                f"q_positions must have shape ({gates.shape[-1]},), one for each row of x, "
                f"got {q_at.shape}"
            )
        r = k_at.values[None, :] - q_at.values[:, None]
        return astype(gates[..., None] * self._bias_like(gates, r), x.dtype)

    def _bias_like(self, x: Array, r: Array) -> Array:
        """Return ``b`` (H, Q, K) of relative positions key - query (Q, K), on the device of x."""
        return like("bias", self.bias._of_offset(r), x)

    def _argument(self, x: Array, row: int) -> Array:
        """Return ``w . x + c`` (..., H, S), the argument of one gate's sigmoid."""
        w, c = like("weight", self.weight, x), like("linear_bias", self.linear_bias, x)
        return namespace(x).sum(x * w[row, :], axis=-1) + c[row]

    def _of_offset(self, q: Array, k: Array, r: Array, scale: float) -> dict[str, Array]:
        return {
            "content-content": product(q, k) * scale,
            "content-position": self.gates(q)[..., None] * self._bias_like(q, r),
        }

    def _truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        """Return each term of the logits with the coefficients A and B of its rounding error."""
        r = k_at - q_at
        values = self._of_offset(q, k, r, scale)
        bias = np.abs(np.asarray(to_host(self.bias._of_offset(r)), np.float64))
        sizes = {
            "content-content": product(np.abs(q), np.abs(k)) * abs(scale),
            "content-position": self.gate_sizes(q)[..., None] * bias,
        }
        return {n: Truth(v, sizes[n], np.zeros_like(v)) for n, v in values.items()}

    def gate_sizes(self, x: np.ndarray) -> np.ndarray:
        """Return the coefficient A of the rounding error of the gates, sigmoids included."""
        sizes = self._sizes()
        a, r = (sigmoid(self._argument(x, n)) for n in (0, 1))
        of_a, of_r = (g + g * (1 - g) * sizes._argument(np.abs(x), n) for n, g in enumerate((a, r)))
        scale = np.asarray(to_host(sizes.scale), np.float64)[:, None]
        return np.asarray(2 + of_a * (1 + scale * of_r))
