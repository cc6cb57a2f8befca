"""RMSNorm before the rotation of queries and keys."""

from __future__ import annotations

from typing import Any

from . import _validate as validate
from ._arrays import check_place, like
from ._namespace import FLOATING, Array, astype, dtype_name, is_array, namespace, widen
from .rotary import Rotary


def normed_apply(
    encoding: Rotary, x: Array, weight: Array, positions: Any, *, eps: float = 1e-6
) -> Array:
    """Return ``x`` after RMSNorm over the channels of the head and then the rotation.

    Formula
        ``R(p) (w * x / sqrt(mean(x ** 2) + eps))``, the mean over the head's channels.
    Source
        q/k-norm of Qwen3, OLMo 2 and Gemma 3; RMSNorm: Zhang and Sennrich 2019, arXiv:1910.07467.

    Parameters
    ----------
    encoding : Rotary
    x : array (..., S, head_dim)
    weight : array (head_dim,)
        The factor itself; Gemma's checkpoints store ``weight - 1``.
    positions
        As for :meth:`Rotary.apply`.
    eps : float
        1e-6 in Qwen3 and Gemma 3, 1e-5 in others.

    Returns
    -------
    array (..., S, head_dim)
        In x's library, device and dtype; computed in float64 (float32 if the device has no float64)
        and rounded once.

    Raises
    ------
    TypeError, ValueError
        ``encoding`` is not rotary, x or weight has the wrong shape, or ``apply`` does not accept
        the positions.

    Traps
        Norm and rotation do not commute: the rotation mixes channels that ``weight`` scales
        differently (meta-pytorch/torchtune#2809).  With equal weights the order makes no
        difference.
    """
    if not isinstance(encoding, Rotary):
        raise TypeError(f"encoding must be a rotary encoding, got {type(encoding).__name__}")
    validate.check_x(x, encoding.head_dim, "head_dim")
    if not is_array(weight) or dtype_name(weight) not in FLOATING:
        raise TypeError(f"weight must be a real floating array, got {type(weight).__name__}")
    if tuple(weight.shape) != (encoding.head_dim,):
        raise ValueError(
            f"weight must have shape (head_dim,) = ({encoding.head_dim},), got "
            f"{tuple(weight.shape)}"
        )
    check_place("weight", weight, "x", x)
    eps = validate.real("eps", eps, minimum=0.0)
    xp, wide = namespace(x), widen(x)
    size = xp.sqrt(xp.mean(wide * wide, axis=-1, keepdims=True) + eps)
    return astype(encoding.apply(like("weight", weight, wide) * (wide / size), positions), x.dtype)
