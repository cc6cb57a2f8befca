"""Biases that sum gates of the tokens between query and key: Forgetting Transformer, CABLE."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers, check_place, like, lookup, product
from ._cached import cached_property
from ._namespace import Array, astype, cumulative_sum, namespace, to_host, widen, working_dtype
from ._network import softplus
from .accuracy import Truth
from .bias import Bias


@dataclass(frozen=True, eq=False, repr=False)
class ForgettingBias(Bias):
    """The bias of one sequence's forget gates.

    Formula
        ``b_h(i, j) = sum of log f_h,t for t = j + 1 .. i``, for keys j <= i, added to
        ``q . k / sqrt(d)``.  ``log_gates`` holds ``log f_h,t = log sigmoid(w_h . x_t + c_h)``;
        x_t is the hidden state of token t (:meth:`of`).
    Source
        Lin et al. 2025, *Forgetting Transformer* (FoX), arXiv:2503.02130, section 3; its kernel
        takes ``log_fgate``.  x-transformers, ``data_dependent_alibi``.
        The code of CABLE (Veisi et al. 2025, *Context-aware Biases for Length Extrapolation*,
        arXiv:2503.08067) sums ``-softplus(w_h . x_t + c_h)``.  This is FoX with the opposite signs
        of w and c (:meth:`cable`).  CABLE's code does not divide ``q . k`` by sqrt(d): its divisor
        sqrt(C/n_embd) is 1.
    Traps
        The sum includes the query's own gate and excludes the key's, so b(i, i) = 0.  If all tokens
        have the same gate g, this is ALiBi of slope -log g.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = the sum of ``|log f|`` up to i plus the sum up to j, because kernels subtract one
        cumulative sum from the other.  B = 0.

    Parameters
    ----------
    log_gates : array (H, S), real floating
        Log gates of the tokens at positions 0 .. S - 1, finite and at most 0 (a gate of 0 would
        give inf - inf). Stored without a copy. The numbers are not checked: every sequence has new
        gates, and a check would copy them from the device.
    scaled : bool
        Whether ``q . k`` is divided by sqrt(d): True in FoX, False in CABLE's code.
    """

    log_gates: Array
    _: KW_ONLY
    scaled: bool = True

    integers = True
    relative = False
    holds = frozenset({"zero-at-own", "decay"})
    sees_future = False

    def __post_init__(self) -> None:
        check_numbers("log_gates", self.log_gates, "H", "S")
        self._set(scaled=validate.boolean("scaled", self.scaled))

    @classmethod
    def of(cls, x: Array, weight: Array, bias: Array | None = None, *, scaled: bool = True) -> Self:
        """Return the bias of FoX for hidden states x (S, D), weight (H, D) and bias (H,)."""
        width = check_numbers("x", x, "S", "D").shape[1]
        heads = check_numbers("weight", weight, "H", width).shape[0]
        x = widen(x)
        z = product(like("weight", weight, x), x)
        if bias is not None:
            check_numbers("bias", bias, heads)
            z = z + like("bias", bias, x)[:, None]
        return cls(-softplus(-z), scaled=scaled)  # log sigmoid

    @classmethod
    def cable(cls, x: Array, weight: Array, bias: Array | None = None) -> Self:
        """Return the bias of CABLE for hidden states x (S, D), weight (H, D) and bias (H,)."""
        heads = check_numbers("weight", weight, "H", "D").shape[0]
        if bias is not None:
            check_numbers("bias", bias, heads)
        return cls.of(x, -weight, None if bias is None else -bias, scaled=False)

    @property
    def num_heads(self) -> int:  # type: ignore[override]
        """Number of heads H, the number of rows of ``log_gates``."""
        return int(self.log_gates.shape[0])

    @property
    def tokens(self) -> int:
        """Number of tokens of the sequence."""
        return int(self.log_gates.shape[1])

    def own_scale(self, dim: int) -> float:
        """Return 1/sqrt(d), or 1 unless ``scaled``."""
        return super().own_scale(dim) if self.scaled else 1.0

    @cached_property
    def _sums(self) -> Array:
        """The sums (S, H) of the log gates from position 0 up to each position."""
        wide = astype(self.log_gates, working_dtype(self.log_gates))
        xp: Any = namespace(wide)
        return xp.matrix_transpose(cumulative_sum(wide, axis=-1))

    def _of_pairs(self, q: Array, k: Array) -> Array:
        check_place("positions", q, "the table", self._sums)
        up_to_q = lookup("q_positions", self._sums, q)
        up_to_k = lookup("k_positions", self._sums, k)
        return namespace(self._sums).moveaxis(up_to_q - up_to_k, -1, -3)

    def _truth(self, q_positions: Any, k_positions: Any) -> Truth:
        """Return the bias with the coefficients A and B of its rounding error."""
        value = np.asarray(to_host(self.bias(q_positions, k_positions)), np.float64)
        gates = np.abs(np.asarray(to_host(self.log_gates), np.float64))
        size = np.cumsum(gates, axis=-1)
        q, k = (np.asarray(p) for p in (q_positions, k_positions))
        terms = size[:, q][:, :, None] + size[:, k][:, None, :]
        return Truth(value, terms, np.zeros_like(value))
