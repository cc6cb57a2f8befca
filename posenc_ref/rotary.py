"""The base class of rotary encodings, with the only implementation of the rotation.

Every rotary encoding is a list of channel pairs, with a position axis and a frequency for each,
and an attention factor m::

    angle_k(p)    = (p[axis_k] + offset) * theta_k        p[axis_k] is p if there is one axis
    y[out1_k]     = m * (x[first_k] cos angle_k - sign * x[second_k] sin angle_k)
    y[out2_k]     = m * (x[second_k] cos angle_k + sign * x[first_k] sin angle_k)
    y[c]          = x[c]                                  for every channel c outside all pairs

A subclass supplies the pairs, the axes and the frequencies; :class:`Rotary` does everything else.
(In ``MixedRoPE`` the angle of a pair is a sum over all axes.) The output channels out1 and out2 are
the input channels first and second, unless a subclass defines ``output_pairs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import dot
from ._cached import cached_property
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
    library,
    namespace,
    send,
    working_dtype,
)
from ._positions import (
    Positions,
    as_positions,
    broadcast_axes,
    cut_like,
    first_axis,
    require_tokens,
    target,
)
from .angles import MAX_POSITION, Turns, check_domain, tables, turns
from .encoding import Encoding


def turn(x1: Array, x2: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    """Rotate the pair (x1, x2) by the angle: ``(x1 + i x2) (cos + i sin)``."""
    return x1 * cos - x2 * sin, x2 * cos + x1 * sin


def _times(factor: float, table: Array) -> Array:
    """Return the product; nothing is computed for the factor 1."""
    return table if factor == 1.0 else factor * table


#: If frequencies depend on the length, the frequencies of this many lengths are cached.
_KEPT = 64


class Rotary(Encoding, abstract=True):
    """Base class of rotary encodings; a subclass defines ``pairs`` and ``decimal_frequencies``.

    Shapes: x is (..., S, head_dim); positions are (S,), or (B, S) where B is x's first axis, or
    have exactly the axes ``x.shape[:-1]``.  Encodings with A > 1 axes take (A, S) or (A, B, S), or
    (S,) if every axis has the same positions.  Frequencies are radians per position.

    Length: if ``depends_on_length``, the frequencies and the attention factor m depend on
    ``seq_len``. Its default is the largest position in the call plus one.
    """

    family = "rotary"
    head_dim: int
    sign: int
    offset: float = 0.0

    # -- supplied by each subclass -----------------------------------------------------------

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the two channels of every pair: two arrays of shape (pairs,)."""
        raise NotImplementedError(f"{type(self).__name__} defines no pairs")

    def output_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the output channels of every pair; by default the input channels."""
        return self.pairs()

    def axes(self) -> np.ndarray | None:
        """Return the position axis of every pair, shape (pairs,); None for one axis."""
        return None

    @property
    def num_axes(self) -> int:
        """The number A of position axes."""
        axes = self.axes()
        return 1 if axes is None else int(axes.max()) + 1

    def decimal_frequencies(self, seq_len: int | None = None) -> tuple[Decimal, ...]:
        """Return the frequency of every pair in 50-digit decimal, radians per position."""
        raise NotImplementedError(f"{type(self).__name__} defines no frequencies")

    def attention_factor(self, seq_len: int | None = None) -> float:
        """Return the factor m on cos and sin."""
        return 1.0

    @property
    def depends_on_length(self) -> bool:
        """Whether frequencies or m change with the length of the sequence."""
        return False

    @property
    def properties(self) -> frozenset[str]:
        """The names of the properties that the rotation has, at a fixed length of the sequence.

        ``relative-logits``  ``R(a) q . R(b) k`` depends on a - b alone
        ``scaled-rotation``  ``R(p)^T R(p) = m^2`` on the rotated channels
        ``rotation``         the same with m = 1: norms do not change
        ``composition``      ``R(a) R(b) = R(a + b)``, so that R(-p) is the inverse
        """
        found = {"relative-logits", "scaled-rotation"}
        if self.attention_factor() == 1.0:
            found.add("rotation")
            read, written = np.sort(self.pairs(), axis=0), np.sort(self.output_pairs(), axis=0)
            if self.offset == 0.0 and np.array_equal(read, written):
                found.add("composition")
        return frozenset(found)

    # -- the mathematics ---------------------------------------------------------------------

    def frequencies(self, seq_len: int | None = None) -> np.ndarray:
        """Return the frequencies theta_k, shape (pairs,), NumPy float64, correctly rounded.

        ``seq_len`` is the length of the sequence.  Only schedules that depend on the length use it;
        for them, None means the trained length.
        """
        turns = self._turns(validate.length_of(seq_len))
        check_domain("the encoding", turns.fastest, self.offset)
        return turns.frequencies.copy()

    def cos_sin(
        self,
        positions: Any,
        *,
        seq_len: int | None = None,
        dtype: DType = None,
        device: Any = None,
        xp: Namespace = None,
    ) -> tuple[Array, Array]:
        """Return ``m cos(angle)`` and ``m sin(angle)``, each (..., pairs), for positions (...).

        They have the library and device of ``positions`` unless ``xp=`` or ``device=`` is given,
        and are float64 unless ``dtype=`` is given. They do not include the sign of the rotation.
        """
        p = self._positions(positions)
        xp, device = target(p, xp, device)
        length = self._seq_len(seq_len, p)
        cos, sin = self._tables(p.values, length, self.offset, xp=xp, device=device)
        m = self.attention_factor(length)
        if m != 1.0:
            cos, sin = m * cos, m * sin
        return finish(cos, dtype), finish(sin, dtype)

    def apply(self, x: Array, positions: Any, *, seq_len: int | None = None) -> Array:
        """Rotate ``x`` (..., S, head_dim), queries or keys, to ``positions``.

        The result is computed in float64 (float32 if x's device has no float64), then cast to x's
        dtype by x's library. All libraries cast to bfloat16 through float32, and PyTorch also casts
        to float16 through float32. Channels outside all pairs are copied bit for bit. x is not
        changed.

        Raises
        ------
        TypeError
            x is not a real floating array; positions are float16 or bfloat16, or an array of a
            library that is neither x's nor NumPy.
        ValueError
            Shapes do not match; positions are not finite, beyond 2**40, or on another device than
            x; positions are traced and frequencies depend on the length, but ``seq_len`` is not
            given.
        """
        cos, sin, m = self._tables_for(x, positions, seq_len)
        return self._rotate(x, _times(m, cos), _times(m * self.sign, sin))

    def inverse(self, x: Array, positions: Any, *, seq_len: int | None = None) -> Array:
        """Undo :meth:`apply`: ``R(-p) x / m``."""
        cos, sin, m = self._tables_for(x, positions, seq_len)
        return self._rotate(x, cos / m, -self.sign * sin / m, back=True)

    def adjoint(self, x: Array, positions: Any, *, seq_len: int | None = None) -> Array:
        """Apply the transpose of :meth:`apply`, ``m R(-p) x``, as backpropagation does.

        It is the inverse only where m = 1.
        """
        cos, sin, m = self._tables_for(x, positions, seq_len)
        return self._rotate(x, m * cos, -m * self.sign * sin, back=True)

    def shift(self, x: Array, delta: Any, *, seq_len: int | None = None) -> Array:
        """Rotate keys from positions p to p + delta; do not apply the factor m again.

        ``delta`` is a number, or an array of shifts with the shape rules of positions.  The
        frequencies must be those with which the keys were rotated: if frequencies depend on the
        length, pass the same ``seq_len``.
        """
        if self.depends_on_length and seq_len is None:
            raise ValueError(
                "seq_len must be given to shift keys whose frequencies depend on the length, got "
                "None: pass the length they were rotated with (for another length, rotate the "
                "raw keys again)"
            )
        if isinstance(delta, int | float | np.integer | np.floating) and is_array(x) and x.ndim > 1:
            delta = np.full(x.shape[-2], delta)
        cos, sin, _ = self._tables_for(x, delta, seq_len, offset=0.0)
        # In rotated keys the pairs are on the output channels.
        return self._turn(x, cos, self.sign * sin, self.output_pairs(), self.output_pairs())

    def matrix(self, position: Any, *, seq_len: int | None = None) -> np.ndarray:
        """Return the (head_dim, head_dim) matrix R such that ``apply(x, p) = R x``, NumPy float64.

        ``position`` is a number, or one number for each of several axes.
        """
        if self.num_axes > 1 and isinstance(position, Sequence | np.ndarray):
            each = [validate.real(f"position[{a}]", p) for a, p in enumerate(position)]
            at = np.array(each)[:, None]
        else:
            at = np.array([validate.real("position", position)])
        cos, sin = (t[0] for t in self.cos_sin(at, seq_len=seq_len))
        (first, second), (out1, out2) = self.pairs(), self.output_pairs()
        matrix = np.eye(self.head_dim)
        matrix[out1, out1] = matrix[out2, out2] = 0.0
        matrix[out1, first], matrix[out1, second] = cos, -self.sign * sin
        matrix[out2, second], matrix[out2, first] = cos, self.sign * sin
        return matrix

    def _logits(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, scale: float
    ) -> Array:
        """Return ``apply(q) . apply(k) * scale``.

        If frequencies depend on the length, q and k both use the longer of the two lengths.
        """
        n = self.common_length(q_positions, k_positions)
        rotated = self.apply(q, q_positions, seq_len=n), self.apply(k, k_positions, seq_len=n)
        return dot(*rotated, scale)

    def common_length(self, q_positions: Any, k_positions: Any) -> int | None:
        """Return the longer of the two lengths, or None if frequencies depend on no length."""
        if not self.depends_on_length:
            return None
        lengths = [self._seq_len(None, self._positions(p)) for p in (q_positions, k_positions)]
        return max((length for length in lengths if length is not None), default=None)

    # -- implementation ----------------------------------------------------------------------

    def _positions(self, positions: Any, x: Array | None = None) -> Positions:
        p = as_positions(positions, x=x, largest=MAX_POSITION / max(1.0, self._fastest()))
        count = self.num_axes
        if count == 1:
            return p
        if p.ndim == 1:  # text: all axes have the same positions
            here = namespace(p.values)
            return replace(p, values=here.broadcast_to(p.values[None, ...], (count, *p.shape)))
        if p.shape[0] != count:
            raise ValueError(
                f"positions must have shape ({count}, S) or ({count}, B, S), one row for each of "
                f"the {count} axes, or (S,) where all axes agree; got {p.shape}"
            )
        return p

    def _fastest(self) -> float:
        """Return the largest |frequency| of an axis, in radians per position."""
        return self._turns(None).fastest

    def _turns(self, seq_len: int | None) -> Turns:
        kept = self._kept_turns
        found = kept.get(seq_len)  # read once, because another thread may clear the cache
        if found is None:
            if len(kept) >= _KEPT:
                kept.clear()
            found = kept[seq_len] = turns(self.decimal_frequencies(seq_len))
        return found

    @cached_property
    def _kept_turns(self) -> dict[int | None, Turns]:
        return {}

    def _seq_len(self, seq_len: int | None, positions: Positions) -> int | None:
        """Return the sequence length that length-dependent scaling uses."""
        if seq_len is not None or not self.depends_on_length:
            return validate.length_of(seq_len)
        if is_lazy(positions.values):
            raise ValueError(
                "seq_len must be given where the frequencies depend on the length and positions "
                "are traced or lazy, got None"
            )
        if 0 in positions.shape:
            return None
        largest = float(namespace(positions.values).max(positions.values))
        return max(int(largest) + 1, 1)

    def _tables_for(
        self, x: Array, positions: Any, seq_len: int | None, offset: float | None = None
    ) -> tuple[Array, Array, float]:
        """Return (cos, sin, m); cos and sin broadcast to ``x`` and have its working dtype."""
        validate.check_x(x, self.head_dim, "head_dim")
        require_tokens(positions, x)
        p = self._positions(positions, x)
        index = broadcast_axes(first_axis(p, self.num_axes), x)
        xp, device = namespace(x), device_of(x)
        # Host positions are copied to x's device, so that the work is done there; except on a
        # device without float64 and for lazy arrays, where tables made on the host are exact
        # constants.
        values = cut_like(p, x, self.num_axes).values
        if has_float64(xp, device) and not is_lazy(x):
            values = send(values, xp, device)
        length = self._seq_len(seq_len, p)
        offset = self.offset if offset is None else offset
        dtype = working_dtype(x)
        cos, sin = self._tables(values, length, offset, xp=xp, device=device, dtype=dtype)
        m = self.attention_factor(length)
        return (cos[index], sin[index], m) if index else (cos, sin, m)

    def _tables(
        self, positions: Array, seq_len: int | None, offset: float, **where: Any
    ) -> tuple[Array, Array]:
        """Return cos and sin (..., pairs) of every angle, without m."""
        return tables(positions, self._turns(seq_len), offset=offset, axes=self.axes(), **where)

    def _rotate(self, x: Array, cos: Array, sin: Array, back: bool = False) -> Array:
        """Read every pair from its input channels, rotate it, write it to its output channels.

        With ``back``, read the output channels and write the input channels; the caller passes the
        sign of ``sin``.
        """
        read, written = self.pairs(), self.output_pairs()
        return (
            self._turn(x, cos, sin, written, read)
            if back
            else self._turn(x, cos, sin, read, written)
        )

    def _turn(
        self,
        x: Array,
        cos: Array,
        sin: Array,
        read: tuple[np.ndarray, np.ndarray],
        written: tuple[np.ndarray, np.ndarray],
    ) -> Array:
        xp, device = namespace(x), device_of(x)
        kept = np.setdiff1d(np.arange(self.head_dim), np.concatenate(read))
        order = np.argsort(np.concatenate([*written, kept]))
        first, second = (from_host(i, xp, device) for i in read)
        wide = xp.astype(x, cos.dtype)
        x1, x2 = xp.take(wide, first, axis=-1), xp.take(wide, second, axis=-1)
        y1, y2 = turn(x1, x2, cos, sin)
        parts = [xp.astype(y1, x.dtype), xp.astype(y2, x.dtype)]
        if kept.size:  # channels outside all pairs are never cast, so they are copied bit for bit
            parts.append(xp.take(x, from_host(kept, xp, device), axis=-1))
        y = xp.concat(parts, axis=-1)
        if np.array_equal(order, np.arange(self.head_dim)) and library(y) != "dask":
            return y  # the gather below would also join the chunks of Dask
        return xp.take(y, from_host(order, xp, device), axis=-1)
