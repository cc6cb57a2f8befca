"""RoPE whose angles are sums over the tokens: Selective RoPE, CARoPE, Mamba-3."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers, like, lookup, product
from ._cached import cached_property
from ._namespace import (
    Array,
    astype,
    cumulative_sum,
    namespace,
    to_host,
    widen,
    working_dtype,
)
from ._positions import as_positions
from .accuracy import Truth
from .rope import LAYOUT_ALIASES, LAYOUTS
from .rotary import turn
from .score import Score


@dataclass(frozen=True, eq=False, repr=False)
class SelectiveRoPE(Score):
    """Rotary position embedding whose angle grows by a number that each token computes.

    Formula
        ``angle_h,i,k = sum of phi_h,t,k for t = 0 .. i``, in radians. Pair k of head h of q_i and
        k_i is rotated by this angle, as in :class:`RoPE`, and ``A_ij = q'_i . k'_j / sqrt(d)``.
        So ``A_ij`` depends on the sum of phi for ``t = j + 1 .. i``.  ``increments`` holds phi.
        Selective RoPE: ``phi_h,t,k = temperature_k`` times a short convolution of a linear map of
        the hidden states; half-split pairs.  CARoPE: ``phi_h,t,k = f_h(x_t) ** k`` for k = 1 ..
        d/2, ``f_h(x) = 1 / (1 + softplus(w_h . x))``.  Mamba-3: ``phi_h,t,k = pi tanh(a_t,k)
        dt_h,t`` (:meth:`mamba3`).
    Source
        Movahedi et al. 2025, *Selective Rotary Position Embedding*, arXiv:2511.17388, and its
        code, timurcarstensen/selective-rope, ``modules/rotary.py``.
        Veisi et al. 2025, *Context-aware Rotary Position Embedding*, arXiv:2507.23083.
        Mamba-3, arXiv:2603.15569, proposition 3; state-spaces/mamba, ``angle_dt.py`` and
        ``mamba3_mimo_rotary_step.py``.
    Traps
        The sum includes the token's own increment.  A cache holds the running sum, to which each
        decoding step adds one increment.  Sums in float32 lose accuracy with the length: sum in
        float64, or take the sum modulo 2 pi after each chunk, as Mamba-3's prefill does.  Mamba-3's
        SISO kernels pair channels (2k, 2k + 1); its MIMO kernels pair (k, k + d/2), also where
        fewer than d/2 pairs turn (pad the increments with zeros).  If every token has the increment
        theta_k, this is RoPE with the frequency theta_k.
    Error unit (see :mod:`posenc_ref.accuracy`)
        For channels x1, x2 of pair k: ``A_x = |x1 cos| + |x2 sin|``, ``B_x = (|x1| + |x2|)`` times
        the sum of ``|phi_t|`` up to the token; an unrotated channel has ``A_x = |x|, B_x = 0``.
        A = ``|scale|`` times the sum of ``A_q A_k`` over channels, B = ``|scale|`` times the sum of
        ``B_q A_k + A_q B_k``.

    Parameters
    ----------
    head_dim : int
        d.
    increments : array (H, S, P), real floating
        phi of the tokens at positions 0 .. S - 1, in radians, with 2 P <= d.  Channels from 2 P on
        are not rotated.  Stored without a copy.  The numbers are not checked: every sequence has
        new ones, and a check would copy them from the device.
    layout : {"interleaved", "half"}
        Which channels form pair k: (2k, 2k + 1) or (k, k + P); there is no default.
    """

    head_dim: int
    increments: Array
    _: KW_ONLY
    layout: str

    relative = False
    holds_tokens = True

    def __post_init__(self) -> None:
        d = validate.size("head_dim", self.head_dim, minimum=2)
        pairs = int(check_numbers("increments", self.increments, "H", "S", "P").shape[2])
        if 2 * pairs > d:
            raise ValueError(
                f"increments must have shape (H, S, P) with P <= head_dim / 2 = {d // 2}, "
                f"got P = {pairs}"
            )
        layout = validate.choice("layout", self.layout, LAYOUTS, LAYOUT_ALIASES)
        self._set(head_dim=d, layout=layout)

    @classmethod
    def mamba3(cls, head_dim: int, angles: Array, steps: Array, *, layout: str) -> Self:
        """Return the rotation of Mamba-3 for ``angles`` a (S, P) and ``steps`` dt (H, S).

        The increments are ``pi tanh(a_t,k) dt_t,h``.  All heads share a; dt is after softplus.
        """
        tokens = check_numbers("angles", angles, "S", "P").shape[0]
        check_numbers("steps", steps, "H", tokens)
        a = widen(angles)
        dt = like("steps", steps, a)
        return cls(head_dim, namespace(a).tanh(a) * dt[..., None] * math.pi, layout=layout)

    @property
    def heads(self) -> int | None:
        """The number of heads H of the increments."""
        return int(self.increments.shape[0])

    @property
    def rows(self) -> int | None:
        """The number of tokens S of the sequence."""
        return int(self.increments.shape[1])

    @property
    def pairs(self) -> int:
        """The number P of rotated channel pairs."""
        return int(self.increments.shape[2])

    @cached_property
    def _sums(self) -> Array:
        """The angles (S, H P) at each position."""
        wide = astype(self.increments, working_dtype(self.increments))
        xp: Any = namespace(wide)
        h, s, p = (int(n) for n in wide.shape)
        return xp.reshape(xp.moveaxis(cumulative_sum(wide, axis=1), 0, 1), (s, h * p))

    def angles(self, positions: Any) -> Array:
        """Return the angles (H, N, P) at ``positions`` (N,), in radians.

        The angles at the last position are the state that decoding continues from.
        """
        return self._angles(as_positions(positions, integers=True).values)

    def _angles(self, positions: Array) -> Array:
        rows = lookup("positions", self._sums, positions, of="the tokens of increments")
        xp: Any = namespace(rows)
        shape = (int(positions.shape[0]), self.heads, self.pairs)
        return xp.moveaxis(xp.reshape(rows, shape), 0, 1)

    def apply(self, x: Array, positions: Any) -> Array:
        """Return queries or keys x (..., H, N, d) rotated to ``positions`` (N,), in x's dtype."""
        self._check(x, x)
        p = as_positions(positions, integers=True, x=x)
        if p.shape != (int(x.shape[-2]),):
            raise ValueError(
                f"positions must have shape (N,) with N = {x.shape[-2]} tokens, got {p.shape}"
            )
        return astype(self._rotated(widen(x), p.values), x.dtype)

    def _split(self, x: Array) -> tuple[Array, Array, Array]:
        """Return the first and second channels of the pairs (..., P), and the other channels."""
        n = self.pairs
        if self.layout == "half":
            return x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]
        return x[..., : 2 * n : 2], x[..., 1 : 2 * n : 2], x[..., 2 * n :]

    def _rotated(self, x: Array, positions: Array) -> Array:
        angle = like("increments", self._angles(positions), x)
        xp: Any = namespace(x)
        x1, x2, rest = self._split(x)
        y1, y2 = turn(x1, x2, xp.cos(angle), xp.sin(angle))
        if self.layout == "interleaved":
            both = xp.stack([y1, y2], axis=-1)
            y1, y2 = xp.reshape(both, (*y1.shape[:-1], 2 * self.pairs)), y2[..., :0]
        return xp.concat([y1, y2, rest], axis=-1)

    def _of_pairs(
        self, q: Array, k: Array, q_at: Array, k_at: Array, scale: float
    ) -> dict[str, Array]:
        rotated = self._rotated(q, q_at[:, 0]), self._rotated(k, k_at[0, :])
        return {"content-content": product(*rotated) * scale}

    def _truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        """Return the logits with A and B of their error unit."""
        ((name, value),) = self._of_pairs(q, k, q_at, k_at, scale).items()
        (a_q, b_q), (a_k, b_k) = self._size(q, q_at[:, 0]), self._size(k, k_at[0, :])
        a, b = product(a_q, a_k), product(b_q, a_k) + product(a_q, b_k)
        return {name: Truth(np.asarray(value), a * abs(scale), b * abs(scale))}

    def _size(self, x: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return A_x and B_x of the rotated channels, pairs first."""
        angle = np.asarray(to_host(self._angles(positions)), np.float64)
        phi = np.abs(np.asarray(to_host(self.increments), np.float64))
        moved = np.cumsum(phi, axis=1)[:, positions]
        x1, x2, rest = (np.abs(part) for part in self._split(x))
        c, s = np.abs(np.cos(angle)), np.abs(np.sin(angle))
        swing = (x1 + x2) * moved
        a = np.concatenate([x1 * c + x2 * s, x2 * c + x1 * s, rest], axis=-1)
        return a, np.concatenate([swing, swing, np.zeros_like(rest)], axis=-1)
