"""FIRE: a learned function of the distance divided by a function of the query's position."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._namespace import Array, astype, namespace, working_dtype
from ._network import Network
from .accuracy import Truth
from .bias import Bias
from .limits import FACTOR


@dataclass(frozen=True, eq=False, repr=False)
class FIRE(Bias):
    """Functional interpolation for relative position encoding.

    Formula
        ``b(i, j) = f(psi(i - j) / (psi(max(i, length)) + eps))`` for j <= i, with
        ``psi(x) = log(1 + c x)`` and ``f(x) = output relu(hidden x + hidden_bias) + output_bias``.
    Source
        Li et al. 2023, *Functional Interpolation for Relative Positions*, arXiv:2310.04418,
        equation (7), and its code (appendix), which has eps.
    Traps
        The denominator depends on the query, so for i beyond ``length`` the bias is not a function
        of j - i alone.  Positions count from 0.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = the sum of the absolute values of all products in f(x), with x replaced by
        ``x + 1 / psi(max(i, length))``, B = 0.  The added part allows for rounding inside the
        logarithm.

    Parameters
    ----------
    hidden : array (W, 1);  hidden_bias : array (W,);  output : array (H, W), real floating
    output_bias : array (H,), optional
    c, length : float
        Positive. The paper's code learns both: c as the absolute value of a parameter, ``length``
        as 512 times the absolute value of another parameter.
    eps : float
    """

    hidden: Array
    hidden_bias: Array
    output: Array
    output_bias: Array | None = None
    _: KW_ONLY
    c: float = 0.1
    length: float = 512.0
    eps: float = 1e-6

    relative = False
    sees_future = False

    def __post_init__(self) -> None:
        self._network.check(1)
        self._set(
            c=validate.real("c", self.c, above=0.0, maximum=FACTOR),
            length=validate.real("length", self.length, above=0.0),
            eps=validate.real("eps", self.eps, minimum=0.0),
        )

    @property
    def _network(self) -> Network:
        return Network(
            {"hidden": self.hidden, "output": self.output},
            {"hidden_bias": self.hidden_bias, "output_bias": self.output_bias},
        )

    @property
    def num_heads(self) -> int:  # type: ignore[override]
        """Number of heads H, the number of rows of ``output``."""
        return int(self.output.shape[0])

    def _argument(self, q: Array, k: Array) -> tuple[Array, Array]:
        """Return the argument of f (0 for later keys) and its denominator."""
        xp = namespace(q)
        distance = xp.maximum(q - k, xp.zeros_like(q - k))
        norm = xp.log1p(self.c * xp.maximum(q, xp.full_like(q, self.length))) + self.eps
        return xp.log1p(self.c * distance) / norm, norm

    def _of_pairs(self, q: Array, k: Array) -> Array:
        x, _ = self._argument(q, k)
        x = astype(x, working_dtype(x))
        y = self._network(x[..., None])
        return namespace(y).moveaxis(y, -1, -3)

    def _truth(self, q_positions: Any, k_positions: Any) -> Truth:
        """Return the bias with the coefficients A and B of its rounding error."""
        plain = super()._truth(q_positions, k_positions)
        at = (np.asarray(p, np.float64) for p in (q_positions, k_positions))
        q, k = next(at)[:, None], next(at)[None, :]
        x, norm = self._argument(q, k)
        size = np.moveaxis(self._network.size(x[..., None], (x + 1 / norm)[..., None]), -1, 0)
        return Truth(plain.value, size, plain.angle)
