"""Rotary encodings: the one place that rotates.

Normal form: every rotary encoding is a list of channel pairs, a frequency for each, and a factor::

    angle_k(p)    = p * theta_k
    y[first_k]    = m * (x[first_k] cos angle_k - sign * x[second_k] sin angle_k)
    y[second_k]   = m * (x[second_k] cos angle_k + sign * x[first_k] sin angle_k)
    y[c]          = x[c]                                  for every channel c in no pair

A form supplies the pairs and the frequencies; :class:`Rotary` owns everything else.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np

from . import _validate as validate
from ._namespace import (
    Array,
    DType,
    Namespace,
    device_of,
    finish,
    from_host,
    has_float64,
    is_array,
    is_lazy,
    namespace,
    send,
    working_dtype,
)
from ._positions import Positions, as_positions, broadcast_axes, target
from .angles import MAX_POSITION, Turns, tables, turns
from .encoding import Encoding
from .scoring import dot


class Rotary(Encoding, abstract=True):
    """What every rotary encoding can do.  A form supplies ``pairs`` and ``decimal_frequencies``.

    Shapes: x is (..., S, head_dim); positions are (S,), or (B, S) where B is x's first axis, or
    have exactly the axes ``x.shape[:-1]``.  Frequencies are radians per position.
    """

    family = "rotary"
    head_dim: int
    sign: int

    # -- supplied by each form ---------------------------------------------------------------

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The two channels of every pair: arrays ``first`` and ``second``, shape (pairs,)."""
        raise NotImplementedError(f"{type(self).__name__} defines no pairs")

    def decimal_frequencies(self, seq_len: int | None = None) -> tuple[Decimal, ...]:
        """The frequency of every pair in 50-digit decimal, radians per position."""
        raise NotImplementedError(f"{type(self).__name__} defines no frequencies")

    def attention_factor(self, seq_len: int | None = None) -> float:
        """The factor m on cos and sin."""
        return 1.0

    # -- the mathematics ---------------------------------------------------------------------

    def frequencies(self, seq_len: int | None = None) -> np.ndarray:
        """Frequencies theta_k, shape (pairs,), NumPy float64, correctly rounded.

        ``seq_len`` matters to length-dependent scaling only; None is the original length.
        """
        return np.array([float(w) for w in self.decimal_frequencies(_length(seq_len))])

    def cos_sin(
        self,
        positions: Any,
        *,
        seq_len: int | None = None,
        dtype: DType = None,
        device: Any = None,
        xp: Namespace = None,
    ) -> tuple[Array, Array]:
        """``m cos(p theta_k)`` and ``m sin(p theta_k)``: positions (...) to two (..., pairs).

        They follow the library and device of ``positions`` unless ``xp=`` or ``device=`` say
        otherwise, in float64 unless ``dtype=``.  The sign of the rotation is not in the table.
        """
        p = self._positions(positions)
        xp, device = target(p, xp, device)
        cos, sin = tables(p.values, self._turns(seq_len, p), xp=xp, device=device)
        return self._scaled(cos, sin, seq_len, p, dtype)

    def apply(self, x: Array, positions: Any, *, seq_len: int | None = None) -> Array:
        """Rotate ``x`` (..., S, head_dim) to ``positions``; queries and keys alike.

        Computed in float64 (float32 where x's device has none) and rounded to x's dtype at the
        end, as x's library casts: PyTorch to half precision, and every library to bfloat16, by way
        of float32.  Channels in no pair are passed through bit for bit.  x is not changed.

        Raises
        ------
        TypeError
            x is not a real floating array; positions are float16, bfloat16 or another library's.
        ValueError
            Shapes do not match; positions are not finite, beyond 2**40, or on another device.
        """
        cos, sin = self._tables_for(x, positions, seq_len)
        return self._rotate(x, cos, self.sign * sin)

    def inverse(self, x: Array, positions: Any, *, seq_len: int | None = None) -> Array:
        """Undo :meth:`apply`: rotate back and divide by m (the adjoint would multiply by m)."""
        cos, sin = self._tables_for(x, positions, seq_len)
        m = self.attention_factor(_length(seq_len))
        return self._rotate(x, cos / (m * m), -self.sign * sin / (m * m))

    def shift(self, x: Array, delta: Any) -> Array:
        """Move keys that were rotated to positions p on to p + delta (the factor m stays once).

        ``delta`` is a number, or an array of shifts with the shape rules of positions.
        """
        if isinstance(delta, int | float | np.integer | np.floating) and is_array(x) and x.ndim > 1:
            delta = np.full(x.shape[-2], delta)
        cos, sin = self._tables_for(x, delta, None)
        m = self.attention_factor(None)
        return self._rotate(x, cos / m, self.sign * sin / m)

    def matrix(self, position: float, *, seq_len: int | None = None) -> np.ndarray:
        """The (head_dim, head_dim) matrix R with ``apply(x, p) = R x``, NumPy float64."""
        cos, sin = self.cos_sin(validate.real("position", position), seq_len=seq_len)
        first, second = self.pairs()
        matrix = np.eye(self.head_dim)
        matrix[first, first] = matrix[second, second] = cos[0]
        matrix[first, second], matrix[second, first] = -self.sign * sin[0], self.sign * sin[0]
        return matrix

    def scores(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, scale: float | None = None
    ) -> Array:
        """``apply(q) . apply(k) * scale``; the scale of its own is 1/sqrt(head_dim)."""
        scale = self.head_dim**-0.5 if scale is None else scale
        return dot(self.apply(q, q_positions), self.apply(k, k_positions), scale)

    # -- how it is done ----------------------------------------------------------------------

    def _positions(self, positions: Any, x: Array | None = None) -> Positions:
        fastest = self._turns(None, None).fastest
        return as_positions(positions, x=x, largest=MAX_POSITION / max(1.0, fastest))

    def _turns(self, seq_len: int | None, positions: Positions | None) -> Turns:
        return turns(self.decimal_frequencies(self._seq_len(seq_len, positions)))

    def _seq_len(self, seq_len: int | None, positions: Positions | None) -> int | None:
        """The length that length-dependent scaling sees; forms without one need none."""
        return _length(seq_len)

    def _scaled(
        self, cos: Array, sin: Array, seq_len: int | None, p: Positions, dtype: DType
    ) -> tuple[Array, Array]:
        m = self.attention_factor(self._seq_len(seq_len, p))
        if m != 1.0:
            cos, sin = m * cos, m * sin
        return finish(cos, dtype), finish(sin, dtype)

    def _tables_for(self, x: Array, positions: Any, seq_len: int | None) -> tuple[Array, Array]:
        """cos and sin in the working dtype of ``x``, with axes lined up to broadcast with it."""
        validate.check_x(x, self.head_dim, "head_dim")
        p = self._positions(positions, x)
        index = broadcast_axes(p, x)
        xp, device = namespace(x), device_of(x)
        # Host positions are sent over first, so that the work is done on x's device.  Not where
        # it has no float64, and not for lazy arrays: tables made now are exact constants there.
        values = p.values
        if has_float64(xp, device) and not is_lazy(x):
            values = send(values, xp, device)
        turned = self._turns(seq_len, p)
        cos, sin = tables(values, turned, xp=xp, device=device, dtype=working_dtype(x))
        cos, sin = self._scaled(cos, sin, seq_len, p, None)
        return (cos[index], sin[index]) if index else (cos, sin)

    def _rotate(self, x: Array, cos: Array, sin: Array) -> Array:
        xp, device = namespace(x), device_of(x)
        gather, first, second, passed = (from_host(i, xp, device) for i in self._channels)
        wide = xp.astype(x, cos.dtype)
        x1, x2 = xp.take(wide, first, axis=-1), xp.take(wide, second, axis=-1)
        y1, y2 = x1 * cos - x2 * sin, x2 * cos + x1 * sin
        # Passed channels never leave their dtype: they come out bit for bit.
        parts = [xp.astype(y1, x.dtype), xp.astype(y2, x.dtype), xp.take(x, passed, axis=-1)]
        return xp.take(xp.concat(parts, axis=-1), gather, axis=-1)

    @cached_property
    def _channels(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Where each output channel is found in [first | second | passed], and those three."""
        first, second = self.pairs()
        passed = np.setdiff1d(np.arange(self.head_dim), np.concatenate([first, second]))
        order = np.concatenate([first, second, passed])
        return np.argsort(order), first, second, passed


def _length(seq_len: int | None) -> int | None:
    return None if seq_len is None else validate.integer("seq_len", seq_len, minimum=1)
