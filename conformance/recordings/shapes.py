"""Read recorded tensors as (B, H, S, D), and recorded positions as (B, S) or (A, B, S)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .files import Tensor
from .roles import Layer

#: For each tensor layout, the number of its axes, the axis of the tokens, and a function that
#: returns x as (B, H, S, D).
_READ: dict[str, tuple[int, int, Callable[[np.ndarray, int], np.ndarray]]] = {
    "bhsd": (4, 2, lambda x, dim: x),
    "bshd": (4, 1, lambda x, dim: x.transpose(0, 2, 1, 3)),
    "sbhd": (4, 0, lambda x, dim: x.transpose(1, 2, 0, 3)),
    "thd": (3, 0, lambda x, dim: x.transpose(1, 0, 2)[None]),
    "hsd": (3, 1, lambda x, dim: x[None]),
    "bs(hd)": (3, 1, lambda x, dim: x.reshape(*x.shape[:2], -1, dim).transpose(0, 2, 1, 3)),
    "t(hd)": (2, 0, lambda x, dim: x.reshape(len(x), -1, dim).transpose(1, 0, 2)[None]),
}
LAYOUTS = tuple(_READ)


@dataclass(frozen=True)
class Part:
    """One rotated tensor: x and y (B, H, S, D), and positions (B, S) or (A, B, S).

    ``positions`` are the recorded ones, or 0, 1, 2, ... where none were recorded.
    """

    name: str  #: q, k or x
    x: np.ndarray
    y: np.ndarray
    positions: np.ndarray
    assumed: bool = False  #: whether no positions were recorded

    @property
    def unplaced(self) -> bool:
        """Return whether nothing says where the tokens are: one a row, as in a decoding step."""
        return self.assumed and self.x.shape[2] == 1

    @property
    def finite(self) -> np.ndarray:
        """Return the mask (B, S) of the tokens whose recorded input is finite."""
        return np.asarray(np.isfinite(self.x).all(axis=(1, 3)))

    @property
    def telling(self) -> np.ndarray:
        """Return the mask (B, S) of the tokens with a finite input that is not 0."""
        return np.asarray(self.finite & (self.x != 0).any(axis=(1, 3)))

    @property
    def length(self) -> int:
        """Return the largest position plus one."""
        return max(int(self.positions.max(initial=0)) + 1, 1)


def readings(
    layer: Layer, dim: int, axes: int, wanted: str | None, where: str
) -> dict[str, list[Part]]:
    """Return the rotated tensors of a layer in every tensor layout that their shapes allow.

    Layouts that only exchange batch and heads are listed once if all rows have the same positions.

    Raises
    ------
    ValueError
        The shapes before and after differ, or no tensor layout fits the shapes.
    """
    if wanted is not None and wanted not in LAYOUTS:
        raise ValueError(f"tensor_layout must be one of {', '.join(LAYOUTS)}, got {wanted!r}")
    for name in layer.rotated:
        before, after = (layer.tensors[f"{name}_{when}"] for when in ("before", "after"))
        for when, tensor in (("before", before), ("after", after)):
            if not tensor.floating:
                raise ValueError(
                    f"{where}: {layer.names[f'{name}_{when}']} must have a floating dtype, got "
                    f"{tensor.dtype}"
                )
        if before.values.shape != after.values.shape:
            raise ValueError(
                f"{where}: {layer.names[f'{name}_before']} and {layer.names[f'{name}_after']} "
                f"must have the same shape, got {before.values.shape} and {after.values.shape}"
            )
    found, alike = {}, set()
    for layout in LAYOUTS if wanted is None else (wanted,):
        parts = [p for name in layer.rotated if (p := _part(layer, name, layout, dim, axes))]
        if len(parts) < len(layer.rotated) or len({len(p.x) for p in parts}) > 1:
            continue
        tokens = _READ[layout][1]
        same = all((p.positions == p.positions[..., :1, :]).all() for p in parts)
        if same and tokens in alike:
            continue
        alike |= {tokens} if same else set()
        found[layout] = parts
    if not found:
        shapes = ", ".join(f"{n} {layer.tensors[r].values.shape}" for r, n in layer.names.items())
        raise ValueError(
            f"{where}: no tensor layout fits the shapes {shapes} and head_dim {dim}; allowed are "
            f"{', '.join(LAYOUTS)} (B batch, H heads, S sequence, T tokens of all sequences, D "
            f"head_dim), with positions {_allowed(axes)}"
            + (f"; --tensor-layout {wanted} was given" if wanted else "")
        )
    return found


def _part(layer: Layer, name: str, layout: str, dim: int, axes: int) -> Part | None:
    """Return q, k or x in one layout, or None if its shape or its positions do not fit."""
    count, _, read = _READ[layout]
    x, y = (layer.tensors[f"{name}_{when}"].values for when in ("before", "after"))
    flat = layout.endswith("(hd)")
    if x.ndim != count or (x.shape[-1] % dim if flat else x.shape[-1] != dim) or not x.size:
        return None
    x, y = read(x, dim), read(y, dim)
    positions = layer.tensors.get(f"{name}_positions") or layer.tensors.get("positions")
    batch, length = x.shape[0], x.shape[2]
    if positions is None:
        shape = (batch, length) if axes == 1 else (axes, batch, length)
        return Part(name, x, y, np.broadcast_to(np.arange(length), shape), assumed=True)
    at = _positions(positions, batch, length, axes)
    return None if at is None else Part(name, x, y, at)


def _positions(tensor: Tensor, batch: int, length: int, axes: int) -> np.ndarray | None:
    """Return positions (B, S), or (A, B, S) for several axes, or None if the shape does not fit.

    A single number is the position of the first token.
    """
    p = tensor.values
    if p.ndim == 0:
        p = p + np.arange(length)
    if axes > 1:
        whole = (axes, batch, length)
        if p.ndim == 2 and p.shape == (axes, length):
            p = p[:, None]
        elif p.ndim == 2 and p.shape == (length, axes):  # as diffusers' img_ids
            p = p.T[:, None]
        for one in (p, p[None]) if p.ndim < 3 else (p,):
            if _broadcasts(one, whole):
                return np.broadcast_to(one, whole)
        return None
    if p.ndim == 2 and batch == 1 and p.size == length:  # all sequences, one after another
        p = p.reshape(1, length)
    if p.ndim == 3 and p.shape[-1] == 1:
        p = p[..., 0]
    return np.broadcast_to(p, (batch, length)) if _broadcasts(p, (batch, length)) else None


def _broadcasts(p: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Return whether positions have a shape, up to axes of size 1 before the last one."""
    if p.ndim > len(shape) or not p.ndim or p.shape[-1] != shape[-1]:
        return False
    pairs = zip(p.shape[::-1], shape[::-1], strict=False)
    full = p.ndim < 3 or p.shape[0] == shape[0]
    return full and all(n in (1, m) for n, m in pairs)


def _allowed(axes: int) -> str:
    if axes == 1:
        return "(S,), (B, S) or one number"
    return f"({axes}, S), ({axes}, B, S), (S,) or one number"


def blocks(part: Part, elements: int) -> Iterator[slice]:
    """Yield slices of the tokens with at most about ``elements`` elements of x each."""
    batch, heads, length, dim = part.x.shape
    step = max(1, elements // (batch * heads * dim))
    yield from (slice(i, i + step) for i in range(0, length, step))
