"""Verify a conversion: the bytes that must stay, and the logits of queries with keys.

Nothing here uses the permutations of :mod:`posenc_ref`: rows are counted and pairs rotated anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .heads import Heads
from .names import Name, parse
from .plan import Move
from .tensor import Tensor

_BLOCK = 1 << 24
_POSITIONS = np.array([0.0, 1.0, 7.0, 1000.0])


@dataclass
class Logits:
    """The comparison of the logits before and after a conversion.

    Parameters
    ----------
    layers : int
        The layers compared.
    error : float
        The largest difference, relative to ``|q| |k|``.
    excess : float
        The largest difference in units of the rounding of its sums: 1 or less is a rounding.
    control : float
        The smallest difference, over the layers, if nothing had been converted.
    skipped : int
        The layers that show nothing: without keys of their own, or with weights of zero.
    """

    layers: int = 0
    error: float = 0.0
    excess: float = 0.0
    control: float = np.inf
    skipped: int = 0


def rotated_rows(move: Move) -> np.ndarray:
    """Return for each row whether it holds a rotated channel of a query or key."""
    rows = np.zeros(len(move.index), bool)
    first, count = move.heads.rotary_start, move.heads.rotary_dim
    if move.name.role == "latent":
        rows[-count:] = True
        return rows
    per_group = len(rows) // move.groups
    heads = (move.n_q + move.n_k) // move.groups
    for group in range(move.groups):
        for head in range(heads):
            at = group * per_group + head * move.stride + first
            rows[at : at + count] = True
    return rows


def differing_bytes(before: Path, after: Path, moves: Iterable[Move]) -> list[str]:
    """Return what differs between two files although the conversion must not change it."""
    if before.stat().st_size != after.stat().st_size:
        return [f"{after.name}: the size"]
    wrong, at = [], 0
    ordered = sorted(moves, key=lambda move: move.tensor.offset)
    with before.open("rb") as old, after.open("rb") as new:
        for move in [*ordered, None]:
            end = before.stat().st_size if move is None else move.tensor.offset
            old.seek(at)
            new.seek(at)
            while at < end:
                size = min(_BLOCK, end - at)
                if old.read(size) != new.read(size):
                    wrong.append(f"{after.name}: bytes between {at} and {at + size}")
                at += size
            if move is not None:
                at = move.tensor.offset + move.tensor.size
                rows, count = rotated_rows(move), len(move.index)
                was = move.tensor.rows(count)
                now = replace(move.tensor, file=after).rows(count)
                if (was[~rows] != now[~rows]).any():
                    wrong.append(f"{move.tensor.name}: rows that do not rotate")
    return wrong


def compare_logits(
    tensors: Iterable[Tensor],
    moves: Iterable[Move],
    written: Mapping[Path, Path],
    source: str,
    target: str,
) -> Logits:
    """Compare q . k of every layer before the conversion, in the source layout, and after it.

    ``tensors`` are all tensors of the checkpoint: biases and norms count although no move names
    them.  ``written`` maps each file to the converted one.  Inputs are random; rotation and
    products are in float64.
    """
    weights: dict[tuple[Any, ...], dict[str, Move]] = defaultdict(dict)
    for move in moves:
        key, role, part = _place(move.name)
        if part == "weight":
            weights[key][role] = move
    parts: dict[tuple[Any, ...], dict[tuple[str, str], Tensor]] = defaultdict(dict)
    for tensor in tensors:
        name = parse(tensor.name)
        if name is not None:
            key, role, part = _place(name)
            parts[key][role, part] = tensor
    result = Logits()
    for key, found in weights.items():
        if "qkv" not in found and not ("q" in found and {"k", "latent"} & set(found)):
            result.skipped += 1
            continue
        layer = _Layer(found, parts[key])
        old, new = layer.heads({}), layer.heads(written)
        before, unconverted = (layer.logits(old, layout) for layout in (source, target))
        after = layer.logits(new, target)
        size = np.abs(before).max()
        control = np.abs(unconverted - before).max()
        if not control > 1e-3 * size:
            result.skipped += 1
            continue
        result.layers += 1
        error = float(np.abs(after - before).max())
        result.error = max(result.error, error)
        result.excess = max(result.excess, error / layer.rounding)
        result.control = min(result.control, float(control))
    return result


def _place(name: Name) -> tuple[tuple[Any, ...], str, str]:
    """Return the layer (with the adapter, for LoRA), the role and the part of a tensor."""
    part = name.part.replace("base_layer.", "").replace("linear.", "")
    adapter = part.removesuffix("weight") if "lora" in part else ""
    part = "scale" if part.startswith("weight_scale") else part.removeprefix(adapter)
    return (name.prefix, name.layer, adapter), name.role, part


class _Layer:
    """The queries and keys of one layer, as functions of random inputs."""

    def __init__(self, weights: Mapping[str, Move], parts: Mapping[tuple[str, str], Tensor]):
        self._weights, self._parts = weights, parts

    @property
    def rounding(self) -> float:
        """The rounding of a sum over the inputs, then over a head, relative to its terms."""
        widths = [move.tensor.elements // len(move.index) for move in self._weights.values()]
        dims = [move.heads.dim for move in self._weights.values()]
        return float(np.finfo(np.float64).eps) * (max(widths) + max(dims))

    def heads(self, written: Mapping[Path, Path]) -> tuple[np.ndarray, np.ndarray]:
        """Return queries and keys (heads, 4, d) before rotation; in latent attention the slices."""
        return self._project("q", written), self._project("k", written)

    def logits(self, heads: tuple[np.ndarray, np.ndarray], layout: str) -> np.ndarray:
        """Return q . k / (|q| |k|) for all heads, queries and keys."""
        of = next(iter(self._weights.values())).heads
        if "latent" in self._weights:
            of = Heads(of.rotary_dim, of.rotary_dim, 0)
        q, k = (_rotate(x, of, layout) for x in heads)
        k = np.repeat(k, q.shape[0] // k.shape[0], axis=0)
        norms = [np.linalg.norm(x, axis=-1).max() or 1.0 for x in (q, k)]
        return np.asarray(q @ k.swapaxes(-1, -2) / (norms[0] * norms[1]))

    def _project(self, role: str, written: Mapping[Path, Path]) -> np.ndarray:
        own = next(r for r in (role, "qkv", "latent") if r in self._weights)
        move = self._weights[own]
        rows = len(move.index)
        width = move.tensor.elements // rows
        x = np.random.default_rng(ord(role)).standard_normal((_POSITIONS.size, width))
        weight = _written(move.tensor, written)
        x = np.concatenate([x @ part.T for part in weight.values(rows)], axis=1)
        for part in ("scale", "bias"):
            tensor = self._parts.get((own, part))
            if tensor is not None and tensor.elements == rows:
                values = _values(_written(tensor, written))
                x = x * values if part == "scale" else x + values
        heads = self._norm(_split(x, move, role), move.heads.dim, role, written)
        if "latent" in self._weights and own != "latent":
            # The other channels of the query meet keys that are not here.
            first = move.heads.rotary_start
            heads = heads[..., first : first + move.heads.rotary_dim]
        return heads

    def _norm(
        self, heads: np.ndarray, dim: int, role: str, written: Mapping[Path, Path]
    ) -> np.ndarray:
        """Return heads over their root mean square, times the norm's weight, plus its bias."""
        weight = self._parts.get((f"{role}_norm", "weight"))
        if weight is None or weight.elements not in (dim, dim * len(heads)):
            return heads
        w = _values(_written(weight, written)).reshape(-1, 1, dim)
        axes = -1 if len(w) == 1 else (0, -1)
        heads = heads / np.sqrt(np.mean(heads**2, axis=axes, keepdims=True) + 1e-12) * w
        bias = self._parts.get((f"{role}_norm", "bias"))
        return heads if bias is None else heads + _values(_written(bias, written)).reshape(w.shape)


def _split(x: np.ndarray, move: Move, role: str) -> np.ndarray:
    """Return the queries or the keys (heads, 4, d) in the products with all rows."""
    if move.name.role == "latent":
        return x[None, :, -move.heads.rotary_dim :]
    heads = x.reshape(len(x), move.groups, -1, move.stride)
    if move.name.role == "qkv":
        n_q, n_k = move.n_q // move.groups, move.n_k // move.groups
        heads = heads[:, :, :n_q] if role == "q" else heads[:, :, n_q : n_q + n_k]
    return heads.reshape(len(x), -1, move.stride)[..., : move.heads.dim].swapaxes(0, 1)


def _rotate(x: np.ndarray, heads: Heads, layout: str) -> np.ndarray:
    """Rotate the channels of heads (n, 4, d); base 10000, for which any layout must agree."""
    first, last = heads.rotary_start, heads.rotary_start + heads.rotary_dim
    part, half = x[..., first:last], heads.rotary_dim // 2
    angles = _POSITIONS[:, None] * 10000.0 ** (-np.arange(half) / half)
    turn = np.exp(1j * angles)
    if layout == "half":
        z = (part[..., :half] + 1j * part[..., half:]) * turn
        turned = np.concatenate([z.real, z.imag], axis=-1)
    else:
        z = (part[..., ::2] + 1j * part[..., 1::2]) * turn
        turned = np.stack([z.real, z.imag], axis=-1).reshape(part.shape)
    return np.concatenate([x[..., :first], turned, x[..., last:]], axis=-1)


def _values(tensor: Tensor) -> np.ndarray:
    return np.concatenate(list(tensor.values(tensor.elements)))[:, 0]


def _written(tensor: Tensor, written: Mapping[Path, Path]) -> Tensor:
    """Return the tensor at the same place in the converted file."""
    return replace(tensor, file=written.get(tensor.file, tensor.file))
