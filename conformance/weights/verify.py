"""Verify a conversion: the bytes that must stay, and the logits of queries with keys.

Nothing here uses the permutations of :mod:`posenc_ref`: rows are counted and pairs rotated anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .heads import Heads
from .plan import Move
from .tensor import Tensor

_BLOCK = 1 << 24
_POSITIONS = np.array([0.0, 1.0, 7.0, 1000.0])
#: Logits in float64 differ by less than this, relative to the norms of q and k.
TOLERANCE = 1e-11


@dataclass
class Logits:
    """The comparison of the logits before and after a conversion.

    Parameters
    ----------
    layers : int
        The layers compared.
    error : float
        The largest difference, relative to ``|q| |k|``.
    control : float
        The smallest difference, over the layers, if nothing had been converted.
    skipped : int
        The layers that show nothing: without keys of their own, or with weights of zero.
    """

    layers: int = 0
    error: float = 0.0
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
                now = _moved(move.tensor, after).rows(count)
                if (was[~rows] != now[~rows]).any():
                    wrong.append(f"{move.tensor.name}: rows that do not rotate")
    return wrong


def compare_logits(
    moves: Iterable[Move], written: Mapping[Path, Path], source: str, target: str
) -> Logits:
    """Compare q . k of every layer before the conversion, in the source layout, and after it.

    ``written`` maps each file to the converted one.  Inputs are random; rotation and products are
    in float64.
    """
    layers: dict[tuple[int | None, str], dict[tuple[str, str], Move]] = defaultdict(dict)
    for move in moves:
        part = move.name.part.replace("base_layer.", "")
        part = "scale" if "scale" in part else part
        if "magnitude" not in part:
            adapter = part.removesuffix("weight") if "lora" in part else ""
            layers[move.name.layer, adapter][move.name.role, part.removeprefix(adapter)] = move
    result = Logits()
    for parts in layers.values():
        if ("qkv", "weight") not in parts and not {"q", "k"} <= {
            {"latent": "k"}.get(role, role) for role, part in parts if part == "weight"
        }:
            result.skipped += 1
            continue
        layer = _Layer(parts)
        before = layer.logits(source, {})
        after = layer.logits(target, written)
        unconverted = layer.logits(target, {})
        size = np.abs(before).max()
        control = np.abs(unconverted - before).max()
        if not control > 1e-3 * size:
            result.skipped += 1
            continue
        result.layers += 1
        result.error = max(result.error, float(np.abs(after - before).max()))
        result.control = min(result.control, float(control))
    return result


class _Layer:
    """The queries and keys of one layer, as functions of random inputs."""

    def __init__(self, parts: Mapping[tuple[str, str], Move]):
        self._parts = parts

    def logits(self, layout: str, written: Mapping[Path, Path]) -> np.ndarray:
        """Return q . k / (|q| |k|) for all heads, queries and keys."""
        q, k = self._vectors(layout, written)
        k = np.repeat(k, q.shape[0] // k.shape[0], axis=0)
        norms = [np.linalg.norm(x, axis=-1).max() or 1.0 for x in (q, k)]
        return np.asarray(q @ k.swapaxes(-1, -2) / (norms[0] * norms[1]))

    def _vectors(self, layout: str, written: Mapping[Path, Path]) -> tuple[np.ndarray, np.ndarray]:
        found = []
        for role in ("q", "k"):
            names = [("qkv", role), (role, role)] + [("latent", role)] * (role == "k")
            own = next(name for name, _ in names if (name, "weight") in self._parts)
            move = self._parts[own, "weight"]
            x = self._project(move, role, written)
            scale, bias = (self._parts.get((own, part)) for part in ("scale", "bias"))
            if scale is not None:
                x = x * _values(scale, written)[:, 0]
            if bias is not None:
                x = x + _values(bias, written)[:, 0]
            heads = self._split(x, move, role)
            heads = self._norm(heads, role, written)
            if own == "latent" or ("latent", "weight") in self._parts:
                first = move.heads.rotary_start if own != "latent" else 0
                heads = heads[..., first : first + move.heads.rotary_dim]
                rotated = Heads(heads.shape[-1], heads.shape[-1], 0)
            else:
                rotated = move.heads
            found.append(_rotate(heads, rotated, layout))
        return found[0], found[1]

    def _project(self, move: Move, role: str, written: Mapping[Path, Path]) -> np.ndarray:
        """Return the products of random inputs (4, hidden) with all rows."""
        width = move.tensor.elements // len(move.index)
        x = np.random.default_rng(ord(role)).standard_normal((_POSITIONS.size, width))
        tensor = _moved(move.tensor, written.get(move.tensor.file))
        return np.concatenate([x @ rows.T for rows in tensor.values(len(move.index))], axis=1)

    def _split(self, x: np.ndarray, move: Move, role: str) -> np.ndarray:
        """Return the heads (n, 4, d) of the queries or the keys."""
        if move.name.role == "latent":
            return x[None, :, -move.heads.rotary_dim :]
        n_q, n_k = move.n_q // move.groups, move.n_k // move.groups
        heads = x.reshape(len(x), move.groups, -1, move.stride)
        if move.name.role == "qkv":
            heads = heads[:, :, :n_q] if role == "q" else heads[:, :, n_q : n_q + n_k]
        heads = heads.reshape(len(x), -1, move.stride)[..., : move.heads.dim]
        return heads.swapaxes(0, 1)

    def _norm(self, heads: np.ndarray, role: str, written: Mapping[Path, Path]) -> np.ndarray:
        """Return heads divided by their root mean square and multiplied by the norm's weight."""
        weight = self._parts.get((f"{role}_norm", "weight"))
        if weight is None:
            return heads
        w = _values(weight, written).reshape(-1, 1, weight.heads.dim)
        axes = -1 if len(w) == 1 else (0, -1)
        heads = heads / np.sqrt(np.mean(heads**2, axis=axes, keepdims=True) + 1e-12) * w
        bias = self._parts.get((f"{role}_norm", "bias"))
        return heads if bias is None else heads + _values(bias, written).reshape(w.shape)


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


def _values(move: Move, written: Mapping[Path, Path]) -> np.ndarray:
    tensor = _moved(move.tensor, written.get(move.tensor.file))
    return np.concatenate(list(tensor.values(len(move.index))))


def _moved(tensor: Tensor, file: Path | None) -> Tensor:
    """Return the tensor at the same place in another file."""
    if file is None:
        return tensor
    return Tensor(tensor.name, tensor.dtype, tensor.shape, file, tensor.offset, tensor.size)
