"""Read recorded tensors as (B, H, S, D), and recorded positions as (B, S) or (A, B, S)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from . import packed
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
    starts: np.ndarray | None = None  #: the index of the first token of every packed sequence
    end: bool = False  #: whether the positions are the last ones of those of a whole cache
    front: np.ndarray = field(default_factory=lambda: np.zeros((0,) * 4))  #: see ``lacking``

    @property
    def lacking(self) -> int:
        """Return how many tokens in front, those in ``front``, were recorded only after it."""
        return int(self.front.shape[2])

    @property
    def unplaced(self) -> bool:
        """Return whether nothing says where tokens are: one of a row, as in a decoding step."""
        single = self.starts is not None and bool((np.diff(self.starts) == 1).any())
        return self.assumed and (single or self.x.shape[2] == 1)

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
        both = before.values.shape, after.values.shape
        alone = [i for i, (n, m) in enumerate(zip(*both, strict=False)) if n != m]
        if len(both[0]) != len(both[1]) or len(alone) > 1 or both[0] > both[1]:
            raise ValueError(
                f"{where}: {layer.names[f'{name}_before']} and {layer.names[f'{name}_after']} "
                f"must have the same shape, got {both[0]} and {both[1]}; only a cache may have "
                "more tokens after the rotation"
            )
    found, alike, misfit = {}, set(), None
    for layout in LAYOUTS if wanted is None else (wanted,):
        try:
            parts = [p for n in layer.rotated if (p := _part(layer, n, layout, dim, axes, where))]
        except packed.Misfit as error:  # another layout may have as many tokens
            misfit = error
            continue
        if len(parts) < len(layer.rotated) or len({len(p.x) for p in parts}) > 1:
            continue
        tokens = _READ[layout][1]
        same = all((p.positions == p.positions[..., :1, :]).all() for p in parts)
        if same and tokens in alike:
            continue
        alike |= {tokens} if same else set()
        found[layout] = parts
    if misfit and not found:
        raise misfit
    if not found:
        shapes = ", ".join(f"{n} {layer.tensors[r].values.shape}" for r, n in layer.names.items())
        raise ValueError(
            f"{where}: no tensor layout fits the shapes {shapes} and head_dim {dim}; allowed are "
            f"{', '.join(LAYOUTS)} (B batch, H heads, S sequence, T tokens of all sequences, D "
            f"head_dim), with positions {_allowed(axes)}"
            + (f"; --tensor-layout {wanted} was given" if wanted else "")
        )
    return found


def _part(layer: Layer, name: str, layout: str, dim: int, axes: int, where: str) -> Part | None:
    """Return q, k or x in one layout, or None if its shape or its positions do not fit."""
    count, _, read = _READ[layout]
    x, y = (layer.tensors[f"{name}_{when}"].values for when in ("before", "after"))
    flat = layout.endswith("(hd)")
    if x.ndim != count or (x.shape[-1] % dim if flat else x.shape[-1] != dim) or not x.size:
        return None
    x, whole = read(x, dim), read(y, dim)
    if x.shape[:2] + x.shape[3:] != whole.shape[:2] + whole.shape[3:]:
        return None
    batch, length = x.shape[0], x.shape[2]
    front, y = _last(whole, length)
    own = layer.tensors.get(f"{name}_positions")
    positions = own or layer.tensors.get("positions")
    starts = None
    if batch == 1 and axes == 1:
        try:
            starts = packed.starts_of(layer, name, length, where)
        except packed.Misfit:
            if positions is None:  # recorded positions say as much
                raise
    if positions is None:
        shape = (batch, length) if axes == 1 else (axes, batch, length)
        if starts is None:
            return Part(
                name, x, y, np.broadcast_to(np.arange(length), shape), True, None, False, front
            )
        ends = packed.ends_of(layer, starts.size - 1, where)
        counted = packed.positions_of(starts, ends)[None]
        return Part(name, x, y, counted, ends is None, starts, False, front)
    at = _positions(positions, batch, length, axes)
    end = at is None and (front.shape[2] > 0 or own is None)
    if end:  # of the whole cache, of which this is the end
        count = positions.values.shape[-1] if positions.values.ndim else 0
        lengths = {read(t.values, dim).shape[2] for t in _with_axes(layer, layout, dim)}
        if count in lengths and count > length:
            of_all = _positions(positions, batch, count, axes)
            at = None if of_all is None else of_all[..., -length:]
    return None if at is None else Part(name, x, y, at, False, starts, end, front)


def _last(y: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens in front, and the last tokens of a cache before those that are all 0."""
    if y.shape[2] == length:
        return y[:, :, :0], y
    filled = np.flatnonzero((y != 0).any(axis=(0, 1, 3)))
    end = max(int(filled[-1]) + 1 if filled.size else 0, length)
    return y[:, :, : end - length], y[:, :, end - length : end]


def _with_axes(layer: Layer, layout: str, dim: int) -> Iterator[Tensor]:
    """Yield the recorded q, k and x that a tensor layout fits."""
    for name in layer.rotated:
        for when in ("before", "after"):
            tensor = layer.tensors[f"{name}_{when}"]
            n = tensor.values.shape[-1]
            if tensor.values.ndim == _READ[layout][0] and n % dim == 0:
                yield tensor


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
        elif p.ndim == 2 and p.shape == (axes, batch) and length == 1:  # a decoding step
            p = p[..., None]
        for one in (p, p[None]) if p.ndim < 3 else (p,):
            if _broadcasts(one, whole):
                return np.broadcast_to(one, whole)
        return None
    if p.ndim == 1 and p.size == batch and length == 1:  # a decoding step: a number for each row
        p = p[:, None]
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
