"""Truth for surfaces that are called with an offset, chunk by chunk, or with queries and keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc_ref import Rotary, XPos
from posenc_ref.accuracy import Truth

from .apply import angle_size, apply_truth


def at_length(encoding: Rotary, x: np.ndarray, positions: np.ndarray, length: int) -> Truth:
    """``apply`` of x (B, H, S, D) with the frequencies of a sequence of ``length`` tokens."""
    return apply_truth(encoding, x, positions, np.array([length]))


def one_table(encoding: Rotary, lengths: Sequence[int]) -> bool:
    """Whether the encoding has the same frequencies and the same m at all of these lengths."""
    if not encoding.depends_on_length:
        return True
    first, *others = sorted(set(lengths))
    return all(
        np.array_equal(encoding.frequencies(first), encoding.frequencies(n))
        and encoding.attention_factor(first) == encoding.attention_factor(n)
        for n in others
    )


def joined(parts: Sequence[Truth], axis: int = -2) -> Truth:
    """Truths of consecutive tokens as one."""
    shapes = [part.value.shape for part in parts]

    def whole(name: str) -> np.ndarray:
        each = zip(parts, shapes, strict=True)
        return np.concatenate([np.broadcast_to(getattr(p, name), s) for p, s in each], axis=axis)

    return Truth(*(whole(name) for name in ("value", "terms", "angle", "amplitude")))


def logits(q: Truth, k: Truth, scale: float = 1.0) -> Truth:
    """``q . k * scale`` of rotated queries and keys: |q k| summed is A, and what moves either B.

    B is ``B_q |k| + |q| B_k`` summed over channels, A the product of the two A (of the values,
    for channels that pass through), both times the scale.
    """
    swapped = np.swapaxes(k.value, -1, -2)
    a_q = np.maximum(q.terms, np.abs(q.value))
    a_k = np.maximum(k.terms, np.abs(k.value))
    value = q.value @ swapped * scale
    terms = a_q @ np.swapaxes(a_k, -1, -2) * abs(scale)
    angle = (
        q.angle @ np.swapaxes(np.abs(k.value), -1, -2)
        + np.abs(q.value) @ np.swapaxes(k.angle, -1, -2)
    ) * abs(scale)
    amplitude = a_q @ np.swapaxes(a_k, -1, -2) * abs(scale)
    return Truth(value, terms, angle, amplitude)


def xpos_truth(encoding: XPos, x: np.ndarray, positions: np.ndarray, *, keys: bool) -> Truth:
    """``apply_queries`` or ``apply_keys``: A and B are those of a rotation, times zeta ** n.

    B has ``|n ln zeta|`` added to the angle: the exponent is rounded as the angle is.
    """
    value = (encoding.apply_keys if keys else encoding.apply_queries)(x, positions)
    cos, sin = encoding.cos_sin(positions)
    angle, _ = angle_size(encoding, positions)
    n = (np.asarray(positions)[..., None] - encoding.centre) / encoding.scale_base
    power = n * np.log(encoding.decays())
    size = np.exp(-power if keys else power)
    if cos.ndim == 3 and x.ndim > 3:
        cos, sin, angle, power, size = (t[:, None] for t in (cos, sin, angle, power, size))
    first, second = encoding.pairs()
    x1, x2 = x[..., first], x[..., second]
    pair = size * np.hypot(x1, x2)
    terms, moved, amplitude = (np.zeros_like(x) for _ in range(3))
    terms[..., first] = size * (np.abs(x1 * cos) + np.abs(x2 * sin))
    terms[..., second] = size * (np.abs(x2 * cos) + np.abs(x1 * sin))
    moved[..., first] = moved[..., second] = (angle + np.abs(power)) * pair
    amplitude[..., first] = amplitude[..., second] = pair
    return Truth(value, terms, moved, amplitude)
