"""ConViT's gated positional self-attention, with a separate softmax over positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ._arrays import check_numbers, check_queries_and_keys, check_scale, dot, like
from ._namespace import Array, astype, device_of, namespace, send, widen, working_dtype
from ._network import sigmoid
from .accuracy import Truth
from .decomposed import validate_grid
from .window_bias import WindowBias


@dataclass(frozen=True, eq=False, repr=False)
class ConViTBias(WindowBias):
    """Positional logits of ConViT, and the gate that blends them with the content attention.

    Formula
        ``b_h(i, j) = weight_h . (dx, dy, dx^2 + dy^2) + proj_bias_h`` with ``dx = x_j - x_i`` and
        ``dy = y_j - y_i``; attention is ``(1 - s) softmax_j(q_i . k_j / sqrt(d)) + s softmax_j(b)``
        with ``s = sigmoid(gate_h)`` (:meth:`weights`).
    Source
        d'Ascoli et al. 2021, *ConViT*, arXiv:2103.10697, section 3, and its code (``GPSA``),
        also in timm.
    Traps
        The positional logits are *not* added to ``q . k``: there are two softmaxes, so ``scores``
        raises.  Offsets are key minus query, x first, and not normalised.  The paper has three
        weights per head; the code's linear layer adds a bias.  The softmax ignores this bias, so an
        implementation may differ from this class by a constant per query and head.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|weight| . (|dx|, |dy|, dx^2 + dy^2) + |proj_bias|``, B = 0.

    Parameters
    ----------
    weight : array (H, 3), real floating
        ``pos_proj.weight``: the weights of dx, dy and the squared distance.
    proj_bias : array (H,), real floating
        ``pos_proj.bias``.
    gate : array (H,), real floating
        ``gating_param``, before the sigmoid.
    window : (int, int)
        Height and width of the image in patches, without a [CLS].
    """

    weight: Array
    proj_bias: Array
    gate: Array
    _: KW_ONLY
    window: Sequence[int]

    up_to_constant = True

    def __post_init__(self) -> None:
        heads = int(check_numbers("weight", self.weight, "H", 3).shape[0])
        check_numbers("proj_bias", self.proj_bias, heads)
        check_numbers("gate", self.gate, heads)
        self._set(window=validate_grid("window", self.window))

    @property
    def num_heads(self) -> int:  # type: ignore[override]
        """Number of heads H, the number of rows of ``weight``."""
        return int(self.weight.shape[0])

    def weights(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, *, scale: float | None = None
    ) -> Array:
        """Return unmasked attention weights (..., H, Q, K) of q (..., H, Q, d), k (..., H, K, d).

        Both softmaxes run over all keys in k. The result has q's dtype; it is computed in float64
        and rounded once.
        """
        check_queries_and_keys(q, k)
        if k.shape[-2] == 0:
            raise ValueError(f"k must hold at least one key, got shape {tuple(k.shape)}")
        scale = self.own_scale(int(q.shape[-1])) if scale is None else check_scale(scale)
        wide = widen(q)
        bias = self._like_logits(wide, k, q_positions, k_positions)
        s = sigmoid(like("gate", self.gate, wide))[:, None, None]
        mixed = (1.0 - s) * _softmax(dot(wide, widen(k), scale)) + s * _softmax(bias)
        return astype(mixed, q.dtype)

    def scores(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, *, scale: float | None = None
    ) -> Array:
        """Raise ValueError: the attention blends two softmaxes, so no single logits exist."""
        raise ValueError(
            "ConViTBias has no scores: its attention blends two softmaxes, of q . k and of the "
            "bias; use weights() for the attention, or bias() for the positional logits"
        )

    def _of_axes(self, dy: Array, dx: Array) -> Array:
        dy, dx = (astype(d, working_dtype(d)) for d in (dy, dx))
        here, device = namespace(self.weight), device_of(self.weight)
        dy, dx = (send(d, here, device) for d in (dy, dx))
        xp = namespace(dx)
        w, c = (like(n, getattr(self, n), dx) for n in ("weight", "proj_bias"))
        by_x, by_y, by_d, c = (v[:, None, None] for v in (w[:, 0], w[:, 1], w[:, 2], c))
        dy, dx = (xp.expand_dims(d, axis=-3) for d in (dy, dx))
        return -by_x * dx - by_y * dy + by_d * (dx * dx + dy * dy) + c

    def _truth(self, q_positions: Any, k_positions: Any) -> Truth:
        """Return the bias with the coefficients A and B of its rounding error."""
        plain = super()._truth(q_positions, k_positions)
        (q, k), (_, w) = (np.asarray(p) for p in (q_positions, k_positions)), self.window
        q, k = q[:, None], k[None, :]
        dy, dx = np.abs(q // w - k // w), np.abs(q % w - k % w)
        size, c = (np.abs(np.asarray(widen(a), np.float64)) for a in (self.weight, self.proj_bias))
        parts = np.stack(np.broadcast_arrays(dx, dy, dx * dx + dy * dy))
        terms = np.tensordot(size, parts, axes=1) + c[:, None, None]
        return Truth(plain.value, terms, plain.angle)


def _softmax(x: Array) -> Array:
    xp = namespace(x)
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)
