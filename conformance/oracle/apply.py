"""Reference values of rotations, tables and biases, with the coefficients of their rounding errors.

The error unit is ``u_out A + u_angle B`` (:mod:`posenc_ref.accuracy`). The float64 values come from
``posenc_ref``, whose error is at most 2 * 2**-53 per cos and sin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_ref import Bias, Rotary, XPos
from posenc_ref.accuracy import Truth

from .rings import on_rings

#: The length of the longest sequence in the judges of biases.
FAR = 4099


def apply_truth(
    encoding: Rotary, x: np.ndarray, positions: np.ndarray, lengths: np.ndarray | None = None
) -> Truth:
    """Return the reference of ``encoding.apply``; channels passed through have a unit of 0.

    ``lengths`` (S,) are the lengths of the calls that compute the rows; by default all rows are
    computed in one call.
    """
    if lengths is not None and encoding.depends_on_length and np.ptp(lengths):
        each = range(positions.size)
        return joined([apply_truth(encoding, x[..., [i], :], positions[[i]]) for i in each])
    if getattr(encoding, "heads", None) is not None:  # every head has angles of its own
        one: Any = encoding
        heads = (apply_truth(one.head(h), x[:, [h]], positions, lengths) for h in range(one.heads))
        return joined(list(heads), axis=1)
    if encoding.num_axes > 1 and positions.ndim < 3:
        positions = np.broadcast_to(positions, (encoding.num_axes, *positions.shape))
    # The call may contain larger positions than these rows have.
    length = int(lengths[0]) if lengths is not None and encoding.depends_on_length else None
    # Cosines and sines are dear: where the rotation is the plain one, they are computed once.
    known = type(encoding).apply is Rotary.apply and np.asarray(x).dtype == np.float64
    value = None if known else encoding.apply(x, positions, seq_len=length)
    cos, sin = encoding.cos_sin(positions, seq_len=length)
    angle, m = angle_size(encoding, positions, length)
    return _rotation(encoding, x, value, (cos, sin), angle, np.asarray(np.abs(m)))


def xpos_truth(encoding: XPos, x: np.ndarray, positions: np.ndarray, *, keys: bool) -> Truth:
    """Return the reference of ``apply_queries`` or ``apply_keys``: a rotation times zeta ** n.

    B contains ``|n ln zeta|`` as well as the angle, because the exponent is rounded like the
    angle.
    """
    value = (encoding.apply_keys if keys else encoding.apply_queries)(x, positions)
    angle, _ = angle_size(encoding, positions)
    n = (np.asarray(positions)[..., None] - encoding.centre) / encoding.scale_base
    power = n * np.log(encoding.decays())
    size = np.exp(-power if keys else power)
    cos, sin = (size * t for t in encoding.cos_sin(positions))
    return _rotation(encoding, x, value, (cos, sin), angle + np.abs(power), size)


def _rotation(
    encoding: Rotary,
    x: np.ndarray,
    value: np.ndarray | None,
    tables: tuple[np.ndarray, np.ndarray],
    angle: np.ndarray,
    size: np.ndarray,
) -> Truth:
    """Return ``value``, by default x rotated by the tables, with the error unit of a rotation.

    ``tables`` are cos and sin, both multiplied by the amplitude ``size``. ``A = |x1 cos| + |x2
    sin|`` and ``B = |angle| size hypot(x1, x2)``; both are 0 for channels passed through.
    """
    if tables[0].ndim == 3 and x.ndim > 3:  # positions (B, S) are the same for all heads
        tables, angle = (tables[0][:, None], tables[1][:, None]), angle[:, None]
        size = size[:, None] if size.ndim else size
    pairs = *encoding.pairs(), *encoding.output_pairs()
    first, second, out1, out2 = map(_evenly, pairs)
    (cos, sin), x1, x2 = tables, x[..., first], x[..., second]
    pair = x1 * x1
    pair += x2 * x2
    np.sqrt(pair, out=pair)  # np.hypot takes 8 times as long
    pair *= size
    cos1, sin2, sin1, cos2 = x1 * cos, x2 * sin, x1 * sin, x2 * cos
    if value is None:
        value = np.array(x)
        value[..., out1] = cos1 - encoding.sign * sin2
        value[..., out2] = encoding.sign * sin1 + cos2
    # Channels that pass through keep the unit 0.
    new = np.empty_like if 2 * pairs[0].size == x.shape[-1] else np.zeros_like
    terms, moved, amplitude = (new(x) for _ in range(3))
    for part in (cos1, sin2, sin1, cos2):
        np.abs(part, out=part)
    terms[..., out1] = np.add(cos1, sin2, out=cos1)
    terms[..., out2] = np.add(cos2, sin1, out=cos2)
    moved[..., out1] = moved[..., out2] = angle * pair
    amplitude[..., out1] = amplitude[..., out2] = pair
    return Truth(value, terms, moved, amplitude)


def _evenly(channels: np.ndarray) -> Any:
    """Return evenly spaced channels as a slice, which selects them without a copy."""
    step = int(channels[1] - channels[0]) if channels.size > 1 else 1
    even = step > 0 and (np.diff(channels) == step).all()
    return slice(int(channels[0]), int(channels[-1]) + 1, step) if even else channels


def joined(parts: Sequence[Truth], axis: int = -2) -> Truth:
    """Return the references of consecutive tokens, concatenated."""
    shapes = [part.value.shape for part in parts]

    def whole(name: str) -> np.ndarray:
        each = zip(parts, shapes, strict=True)
        return np.concatenate([np.broadcast_to(getattr(p, name), s) for p, s in each], axis=axis)

    return Truth(*(whole(name) for name in ("value", "terms", "angle", "amplitude")))


def angle_size(
    encoding: Rotary, positions: np.ndarray, seq_len: int | None = None
) -> tuple[np.ndarray, float]:
    """Return the sizes of the angles ``|p theta|`` (..., pairs), and the attention factor m.

    Both are for a call of length ``seq_len``, by default the largest position plus one.
    """
    if seq_len is None and encoding.depends_on_length and positions.size:
        seq_len = max(int(np.max(positions)) + 1, 1)
    weight = getattr(encoding, "weight", None)  # in RoPE-Mixed the angle is a sum over axes
    if weight is not None and encoding.num_axes > 1:
        return np.tensordot(np.abs(positions), np.abs(weight), axes=(0, 0)), 1.0
    axes = encoding.axes()
    at = positions[..., None] if axes is None else np.moveaxis(positions[axes], 0, -1)
    angle = np.abs((at + encoding.offset) * encoding.frequencies(seq_len))
    return angle, encoding.attention_factor(seq_len)


def cos_sin_truth(encoding: Rotary, positions: np.ndarray) -> tuple[Truth, Truth]:
    """Return the references of both results of ``encoding.cos_sin``.

    ``A = |value|`` and ``B = |p theta| m``.
    """
    if encoding.num_axes > 1 and positions.ndim < 2:
        positions = np.broadcast_to(positions, (encoding.num_axes, *positions.shape))
    angle, m = angle_size(encoding, positions)
    size = np.asarray(abs(m))
    moved = angle * size
    cos, sin = encoding.cos_sin(positions)
    return Truth(cos, np.abs(cos), moved, size), Truth(sin, np.abs(sin), moved, size)


def exactly(value: np.ndarray) -> Truth:
    """Return the reference of a computed number that involves no angle: ``A = |value|``, B = 0."""
    value = np.asarray(value, dtype=np.float64)
    return Truth(value, np.abs(value), np.zeros_like(value))


def identical(value: np.ndarray) -> Truth:
    """Return a reference with a unit of 0, so that only equal values pass."""
    value = np.asarray(value, dtype=np.float64)
    return Truth(value, np.zeros_like(value), np.zeros_like(value))


def bias_truth(
    encoding: Bias, q_len: int, k_len: int, actual: np.ndarray
) -> tuple[Truth, np.ndarray, np.ndarray]:
    """Return the reference of a bias, the actual bias, and the mask of judged elements.

    If the encoding is causal, only keys up to the query are judged. If the bias is defined up to
    a constant per row, which softmax ignores, the value at the query's own key is subtracted
    from the reference and from ``actual``; A then includes the size of the actual constant.  At
    half the period of a ring, the nearer one of the two offsets is the reference.
    """
    rows = np.arange(k_len - q_len, k_len)
    truth = encoding.truth(rows, range(k_len))
    actual = np.broadcast_to(actual, truth.value.shape)
    judged = np.ones(truth.value.shape, dtype=bool)
    if not encoding.sees_future:
        judged = np.broadcast_to(np.arange(k_len) <= rows[:, None], truth.value.shape)
    if (ring := on_rings(encoding, rows, np.arange(k_len))) is not None:
        defined, either = ring
        judged = judged & defined
        other = np.swapaxes(encoding.truth(range(k_len), rows).value, 1, 2)
        with np.errstate(invalid="ignore"):
            nearer = either & (np.abs(actual - other) < np.abs(actual - truth.value))
        value = np.where(nearer, other, truth.value)
        truth = Truth(value, np.maximum(truth.terms, np.abs(value)), truth.angle)
    if not encoding.up_to_constant:
        return truth, actual, judged
    own = np.arange(q_len), rows
    constant = actual[:, own[0], own[1]][..., None]
    with np.errstate(invalid="ignore"):
        moved = actual - constant
    zero = truth.value[:, own[0], own[1]][..., None]
    terms = truth.terms + constant_size(encoding, k_len, constant)
    return Truth(truth.value - zero, terms, truth.angle), moved, judged


def constant_size(encoding: Bias, k_len: int, constant: np.ndarray) -> np.ndarray:
    """Return the amount by which row constants (..., H, Q, 1) increase A.

    The amount is the size of the constant, but at most the largest bias of a long sequence. A
    correct function may have such constants: ``m j`` is ``m (j - i)`` plus ``m i``. Larger ones,
    such as millions, leave no correct digit of the bias in float32.
    """
    last = (getattr(encoding, "tokens", None) or max(k_len, FAR)) - 1
    most = encoding.truth(np.array([last]), np.array([0, last])).terms.max(axis=(1, 2))
    size = np.where(np.isfinite(constant), np.abs(constant), 0.0)
    return np.asarray(np.minimum(size, most[:, None, None]))
