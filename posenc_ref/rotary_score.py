"""The base class of scores that rotate q and k by positions which differ from pair to pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import product
from ._namespace import (
    Array,
    astype,
    device_of,
    from_host,
    has_float64,
    is_lazy,
    namespace,
    to_host,
)
from ._positions import as_pairs
from ._text import shown
from .accuracy import Truth
from .rope import RoPE
from .score import Score


class RotaryScore(Score, abstract=True):
    """Base class of scores ``R(i') q . R(j') k``, where i' and j' depend on both positions.

    No single rotation of q and of k gives these logits, so they have no ``apply``.  A subclass has
    a field ``rope`` and defines ``_places``, which returns i' and j' for every pair (i, j).

    Formula
        ``scores_ij = m ** 2 sum_k ((q1 k1 + q2 k2) cos(r theta_k) + (q2 k1 - q1 k2)
        sin(r theta_k)) / sqrt(d)``, ``r = j' - i'``, for the channel pairs (q1, q2) and (k1, k2) of
        ``rope``, its frequencies theta_k in radians per position and its factor m; channels outside
        all pairs add their product.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|scale|`` times the sum over channel pairs of ``m ** 2 ((|q1 k1| + |q2 k2|) |cos| +
        (|q2 k1| + |q1 k2|) |sin|)``, plus ``|q k|`` of the other channels; B = ``|scale|`` times
        the sum of ``m ** 2 (|q1| + |q2|) (|k1| + |k2|) (|i'| + |j'|) theta``, because
        implementations rotate q by i' and k by j'.

    Notes
    -----
    The definition is evaluated directly: it stores H Q K d/2 numbers.
    """

    sees_future = False
    relative = False
    rope: RoPE

    @property
    def head_dim(self) -> int:  # type: ignore[override]
        """The number of channels d of a head, ``rope.head_dim``."""
        return self.rope.head_dim

    @property
    def telling_lengths(self) -> tuple[int, ...]:
        """The numbers of tokens with which the last query meets keys under every rule."""
        raise NotImplementedError(f"{type(self).__name__} defines no lengths")

    def farthest(self, length: int) -> float:
        """Return the largest ``i' - j'`` in a sequence of ``length`` tokens.

        RoPE itself would have ``length - 1``.  The model has seen a distance in training if it is
        below the trained length.
        """
        length = validate.integer("length", length, minimum=1)
        return self._farthest(length - 1)

    def _farthest(self, last: int) -> float:
        """Return the largest distance at which a query at ``last`` or before sees a key."""
        raise NotImplementedError(f"{type(self).__name__} defines no distances")

    def _places(self, q_at: Array, k_at: Array) -> tuple[Array, Array]:
        """Return i' and j', each broadcastable to (Q, K), for positions (Q, 1) and (1, K)."""
        raise NotImplementedError(f"{type(self).__name__} defines no positions")

    def _temperature(self, q_at: Array, k_at: Array) -> Any:
        """Return a factor on all logits."""
        return 1.0

    def offsets(self, q_positions: Any, k_positions: Any) -> Array:
        """Return ``j' - i'`` (Q, K), the relative positions by which the logits are rotated.

        Positions are integers (Q,) and (K,).  RoPE itself would have ``j - i``.
        """
        q_at, k_at = as_pairs(q_positions, k_positions, integers=True, x=None)
        if q_at.ndim != 1:
            raise ValueError(f"q_positions must have shape (Q,), got {q_at.shape}")
        q_place, k_place = self._places(q_at.values[:, None], k_at.values[None, :])
        return k_place - q_place

    def _of_pairs(
        self, q: Array, k: Array, q_at: Array, k_at: Array, scale: float
    ) -> dict[str, Array]:
        xp, device = namespace(q), device_of(q)
        if not has_float64(xp, device) and not is_lazy(q_at):
            q_at, k_at = to_host(q_at), to_host(k_at)
        q_place, k_place = self._places(q_at, k_at)
        at = {"xp": xp, "device": device}
        cos, sin = (astype(t, q.dtype) for t in self.rope.cos_sin(k_place - q_place, **at))
        (q1, q2), (k1, k2) = self._pairs_of(q, -2), self._pairs_of(k, -3)
        rotated = (q1 * k1 + q2 * k2) * cos + self.rope.sign * (q2 * k1 - q1 * k2) * sin
        logits = xp.sum(rotated, axis=-1) * self.rope.attention_factor() + self._passed(q, k)
        factor = self._temperature(q_at, k_at)
        # On the host it is a number of NumPy, which other libraries do not multiply.
        factor = float(factor) if isinstance(factor, float) else astype(factor, q.dtype)
        return {"content-content": logits * (factor * scale)}

    def _pairs_of(self, x: Array, axis: int) -> tuple[Array, Array]:
        """Return both channels of all pairs of x (..., S, d), with a new axis before the last."""
        xp, device = namespace(x), device_of(x)
        first, second = (from_host(at, xp, device) for at in self.rope.pairs())
        one, two = (xp.take(x, at, axis=-1) for at in (first, second))
        return xp.expand_dims(one, axis=axis), xp.expand_dims(two, axis=axis)

    def _passed(self, q: Array, k: Array) -> Any:
        """Return the product (..., Q, K) of the channels that are not rotated, or 0."""
        rest = np.setdiff1d(np.arange(self.head_dim), np.concatenate(self.rope.pairs()))
        if not rest.size:
            return 0.0
        xp = namespace(q)
        channels = from_host(rest, xp, device_of(q))
        return product(xp.take(q, channels, axis=-1), xp.take(k, channels, axis=-1))

    def _truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        """Return the logits with A and B of their error unit."""
        ((name, value),) = self._of_pairs(q, k, q_at, k_at, scale).items()
        q_place, k_place = self._places(q_at, k_at)
        cos, sin = (np.abs(t) for t in self.rope.cos_sin(k_place - q_place))
        of_q, of_k = np.abs(q), np.abs(k)
        (q1, q2), (k1, k2) = self._pairs_of(of_q, -2), self._pairs_of(of_k, -3)
        same, crossed = q1 * k1 + q2 * k2, q2 * k1 + q1 * k2
        m, factor = self.rope.attention_factor(), abs(scale * self._temperature(q_at, k_at))
        turned = (np.abs(q_place) + np.abs(k_place))[..., None] * np.abs(self.rope.frequencies())
        terms = np.sum(same * cos + crossed * sin, axis=-1) * m + self._passed(of_q, of_k)
        angle = np.sum((same + crossed) * turned, axis=-1) * m * m
        return {name: Truth(np.asarray(value), terms * factor, angle * factor)}


def check_rope(rope: Any) -> None:
    """Raise unless ``rope`` is a RoPE whose frequencies do not depend on the length."""
    if not isinstance(rope, RoPE):
        raise TypeError(f"rope must be a RoPE such as RoPE(128, layout='half'), got {shown(rope)}")
    if rope.depends_on_length:
        raise ValueError(
            f"rope must have frequencies that do not depend on the length, got {rope!r}: keys "
            "rotated at one length would not fit queries of another"
        )
