"""Attention biases as a ``score_mod`` of torch's ``flex_attention``, with no array of Q times K.

The attention kernel computes the bias of each score from the indices of its query and key.  It
reads small tables.  For ALiBi these are the slopes; for T5, the learned table and the bucket of
each offset before the last bucket; for biases of image windows, the learned table, whose row
follows from (dy, dx).  Learned tensors are used directly, so gradients reach them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref import FIRE, ALiBi, BEiTBias, Bias, Kerple, LeViTBias, LogCPB, SwinBias, T5Bias
from posenc_ref import _validate as validate
from posenc_ref._namespace import library

Tensor = Any
#: A function (head, query position, key position) -> bias; all are tensors without axes.
Element = Callable[[Tensor, Tensor, Tensor], Tensor]


class ScoreMod:
    """A bias for ``flex_attention(q, k, v, score_mod=mod, scale=mod.scale)``.

    ``scale`` is the factor of q . k.  ``offset``, an integer tensor without axes, is the position
    of the first query; it may be written to between calls.
    """

    def __init__(
        self, encoding: Bias, element: Element, offset: Tensor, scale: float, factor: Tensor | None
    ) -> None:
        self.encoding, self.offset, self.scale = encoding, offset, scale
        self._element, self._factor = element, factor

    def __repr__(self) -> str:
        return f"score_mod({self.encoding!r}, offset={int(self.offset)}, scale={self.scale!r})"

    def __call__(
        self, score: Tensor, batch: Tensor, head: Tensor, q_index: Tensor, k_index: Tensor
    ) -> Tensor:
        """Return ``score`` plus the bias of one head, query and key."""
        bias = self._element(head, q_index + self.offset, k_index).to(score.dtype)
        return score + (bias if self._factor is None else bias * self._factor)


def score_mod(
    encoding: Bias,
    *,
    like: Tensor,
    offset: int | Tensor = 0,
    scale: float | None = None,
    k_len: int | None = None,
) -> ScoreMod:
    """Return a bias for ``torch.nn.attention.flex_attention``, which never materialises it.

    Query i is at position ``offset + i`` and key j at position j: with queries at the end of the
    keys, as in decoding, ``offset = k_len - q_len``.  The caller supplies the mask.

    Parameters
    ----------
    encoding : Bias
        ``ALiBi``, ``T5Bias``, ``Kerple``, ``FIRE``, or a window bias.  The positions of a window
        bias are token numbers, and the bias is NaN outside the window.  Other relative biases need
        ``k_len``.
    like : torch.Tensor, shape (..., H, Q, d)
        Queries; only their number of heads, d, device and dtype are used, not their values.
    offset : int or integer tensor without axes
        The position of the first query.  A tensor is not copied: update it in place at each step of
        a decoding loop.
    scale : float, optional
        The factor of q . k; the encoding's own by default.  Pass ``.scale`` of the result to
        ``flex_attention``, whose own default is wrong for T5.
    k_len : int, optional
        The largest number of keys.  Required for a relative bias without a short formula, such as
        ``Sandwich``: the kernel looks it up in a table of H (2 k_len - 1) numbers.

    Returns
    -------
    ScoreMod
        The function for ``flex_attention``, with the ``.scale`` that belongs to it.

    Raises
    ------
    TypeError, ValueError
        The encoding is not a bias, or its bias depends on more than one query and one key; ``like``
        has another shape or number of heads; ``k_len`` is missing.

    Notes
    -----
    For ``LogCPB``, whose bias is a network of (dy, dx), this call evaluates the network for all
    offsets of the window: call it again after each training step.

    Examples
    --------
    >>> import torch, posenc_ref as pr
    >>> from torch.nn.attention.flex_attention import flex_attention
    >>> from posenc_ref.backends import score_mod
    >>> q, k, v = torch.ones(1, 8, 3, 64), torch.ones(1, 8, 9, 64), torch.ones(1, 8, 9, 64)
    >>> mod = score_mod(pr.ALiBi(8), like=q, offset=9 - 3)
    >>> mod.scale
    0.125
    >>> flex_attention(q, k, v, score_mod=mod, scale=mod.scale)  # doctest: +SKIP
    """
    if not isinstance(encoding, Bias):
        raise TypeError(f"encoding must be a bias, got {type(encoding).__name__}")
    if library(like) != "torch":
        raise TypeError(f"like must be a torch tensor (..., H, Q, d), got {type(like).__name__}")
    if like.ndim < 3 or like.shape[-3] != encoding.num_heads:
        raise ValueError(
            f"like must have shape (..., H, Q, d) with H = {encoding.num_heads} heads, got "
            f"{tuple(like.shape)}"
        )
    own = encoding.own_scale(int(like.shape[-1]))
    scale = own if scale is None else validate.real("scale", scale)
    element = _element(encoding, like, k_len)
    factor = _numbers(np.array(scale), like) if encoding.bias_inside_scale else None
    return ScoreMod(encoding, element, _offset(offset, like), scale, factor)


def _offset(offset: Any, like: Tensor) -> Tensor:
    import torch

    if library(offset) != "torch":
        value = validate.integer("offset", offset)
        return torch.tensor(value, dtype=torch.int32, device=like.device)
    if offset.ndim or offset.is_floating_point() or offset.device != like.device:
        raise ValueError(
            f"offset must be an int or an integer tensor without axes on {like.device}, got "
            f"{offset.dtype} of shape {tuple(offset.shape)} on {offset.device}"
        )
    return offset


def _element(encoding: Bias, like: Tensor, k_len: int | None) -> Element:
    """Return the function that computes the bias of one head, query and key."""
    match encoding:
        case ALiBi():
            return _alibi(encoding, like)
        case Kerple():
            return _kerple(encoding, like)
        case T5Bias():
            return _t5(encoding, like)
        case FIRE():
            return _fire(encoding, like)
        case SwinBias() | BEiTBias() | LeViTBias() | LogCPB():
            return _window(encoding, like)
    if not encoding.relative:
        raise TypeError(
            f"{type(encoding).__name__} has no score_mod: it must depend on key - query alone, or "
            "be FIRE, SwinBias, BEiTBias, LeViTBias or LogCPB"
        )
    if k_len is None:
        raise ValueError(
            f"k_len must be given for {type(encoding).__name__}: its bias is looked up by distance"
        )
    return _by_distance(encoding, like, validate.integer("k_len", k_len, minimum=1))


def _numbers(values: Any, like: Tensor) -> Tensor:
    """Return ``values`` as a tensor on the device of ``like``; a tensor is returned unchanged."""
    import torch

    if library(values) == "torch":
        if values.device != like.device:
            raise ValueError(
                f"like is on {like.device}, but a tensor of the encoding is on {values.device}: "
                "move one of them"
            )
        return values
    if library(values) != "numpy":
        raise TypeError(
            "the arrays of the encoding must be torch tensors or NumPy arrays, got arrays of "
            f"{library(values)}"
        )
    wide = torch.float64 if like.dtype == torch.float64 else torch.float32
    return torch.tensor(values.astype(np.float64), dtype=wide, device=like.device)


def _alibi(encoding: ALiBi, like: Tensor) -> Element:
    slopes = _numbers(-encoding.slopes(), like)

    def element(head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return slopes[head] * (k - q).abs().to(slopes.dtype)

    return element


def _kerple(encoding: Kerple, like: Tensor) -> Element:
    r1, r2 = (_numbers(np.array(r), like) for r in (encoding.r1, encoding.r2))
    log = encoding.form == "log"

    def element(head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        distance = (k - q).abs().to(r1.dtype)
        return -r1[head] * ((r2[head] * distance).log1p() if log else distance ** r2[head])

    return element


def _t5(encoding: T5Bias, like: Tensor) -> Element:
    import torch

    table, last = _numbers(encoding.table, like), encoding.thresholds[-1]
    # All distances beyond the last threshold have the same bucket.
    near = encoding.bucket(np.arange(-last, last + 1)).astype(np.int32)
    bucket = torch.tensor(near, device=like.device)

    def element(head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return table[bucket[(k - q).clamp(-last, last) + last], head]

    return element


def _fire(encoding: FIRE, like: Tensor) -> Element:
    w1, b1, w2 = (_numbers(n, like) for n in (encoding.hidden, encoding.hidden_bias,
                                              encoding.output))  # fmt: skip
    b2 = None if encoding.output_bias is None else _numbers(encoding.output_bias, like)
    width = int(w1.shape[0])
    # Tensors, because Python numbers that differ between layers compile once for each.
    constants = _numbers(np.array([encoding.c, encoding.length, encoding.eps]), like)

    def element(head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        c, length, eps = constants[0], constants[1], constants[2]
        norm = (c * q.to(c.dtype).maximum(length)).log1p() + eps
        x = (c * (q - k).clamp(min=0).to(c.dtype)).log1p() / norm
        # A loop, because flex_attention compiles only elementwise operations.
        total = w2[head, 0] * (w1[0, 0] * x + b1[0]).relu()
        for n in range(1, width):
            total = total + w2[head, n] * (w1[n, 0] * x + b1[n]).relu()
        return total if b2 is None else total + b2[head]

    return element


def _window(encoding: SwinBias | BEiTBias | LeViTBias | LogCPB, like: Tensor) -> Element:
    import torch

    h, w = encoding.window
    levit, first = isinstance(encoding, LeViTBias), int(isinstance(encoding, BEiTBias))
    if isinstance(encoding, LogCPB):
        dy, dx = np.arange(1 - h, h)[:, None], np.arange(1 - w, w)[None, :]
        table = _numbers(encoding._of_axes(dy, dx), like).flatten(1).T
    else:
        table = _numbers(encoding.table, like)
    tokens, rows = encoding.tokens, int(table.shape[0])

    def element(head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        i, j = q - first, k - first
        dy, dx = i // w - j // w, i % w - j % w
        if levit:
            row = dy.abs() * w + dx.abs()
        else:
            row = (dy + h - 1) * (2 * w - 1) + dx + w - 1
        if first:  # [CLS] to all, all to [CLS], [CLS] to itself
            row = torch.where(k == 0, rows - 2, row)
            row = torch.where(q == 0, torch.where(k == 0, rows - 1, rows - 3), row)
        inside = (q >= 0) & (q < tokens) & (k >= 0) & (k < tokens)
        return torch.where(inside, table[torch.where(inside, row, 0), head], torch.nan)

    return element


def _by_distance(encoding: Bias, like: Tensor, k_len: int) -> Element:
    import torch

    vector = _numbers(encoding.toeplitz(k_len, k_len), like)

    def element(head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        at = k - q + k_len - 1
        inside = (at >= 0) & (at < 2 * k_len - 1)
        return torch.where(inside, vector[head, torch.where(inside, at, 0)], torch.nan)

    return element
