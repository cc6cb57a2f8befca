"""Measure the map of recorded tensors by least squares over heads: pairs, then their angles.

The inputs are dense, so the pairs are found by trying the known layouts: the right one gives one
rotation for all heads of a token, and the same size for all tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.phases.measure import Measured, Pair
from posenc_ref.rope import layout_pairs

from .angles import Angles, Fitted
from .shapes import Part

#: The most tokens and heads that are measured.
_TOKENS, _HEADS = 512, 16
#: The largest relative error of pairs that are rotated together, in any dtype. Tables in half
#: precision stay below it; pairs of a wrong layout have errors near 1.
MISFIT = BUDGET["bfloat16"] * ROUNDOFF["bfloat16"]
#: The tokens for which :class:`Measured` has matrices.
_SHOWN = 8

#: The input channels of every pair, and the output channels.
Channels = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Tokens:
    """Measured tokens: x and y (N, H, D), and positions (A, N)."""

    x: np.ndarray
    y: np.ndarray
    positions: np.ndarray
    dtype: str

    @property
    def moved(self) -> np.ndarray:
        """Return the mask (D,) of the channels that differ before and after."""
        return np.asarray((self.x != self.y).any(axis=(0, 1)))


@dataclass(frozen=True)
class Seen:
    """What was measured: pairs, their angles, and the frequencies fitted to the angles."""

    tokens: Tokens
    measured: Measured
    angles: Angles
    fitted: Fitted

    @property
    def coarse(self) -> bool:
        """Return whether the results are coarser than float32."""
        return ROUNDOFF[self.angles.dtype] > ROUNDOFF["float32"]

    @property
    def certain(self) -> bool:
        """Return whether the recorded positions determine the frequencies."""
        fitted = self.fitted
        whole = bool(fitted.period.size) and float(fitted.period.min()) >= 2 * np.pi
        return fitted.phases.linear and fitted.origin_known and whole


def tokens(part: Part, dtype: str) -> Tokens:
    """Return the tokens to measure.

    Half of the tokens are those with the smallest positions, since neighbours determine
    frequencies without doubt, and half are spread over all positions.
    """
    batch, token = np.nonzero(part.telling)
    at = part.positions[..., batch, token].reshape(-1, batch.size).astype(np.float64)
    order = np.argsort(at[0], kind="stable")
    if order.size > _TOKENS:
        spread = np.linspace(_TOKENS // 2, order.size - 1, _TOKENS // 2).astype(int)
        order = order[np.r_[: _TOKENS // 2, spread]]
    x, y = (t[batch[order], :_HEADS, token[order]] for t in (part.x, part.y))
    return Tokens(x, y, at[:, order], dtype)


def declared_channels(encoding: Rotary) -> Channels:
    """Return the channels of the declared pairs."""
    return (*encoding.pairs(), *encoding.output_pairs())


def rotation(of: Tokens, channels: Channels) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the complex map of every token and pair, its validity, and the misfit of each pair.

    The map minimises ``sum over heads |y - map x|^2``, where a pair of channels is one complex
    number. The misfit is the relative error that is left if every map has the same size, so it
    shows wrong pairs even for a single head.
    """
    first, second, out1, out2 = channels
    z = of.x[..., first] + 1j * of.x[..., second]
    w = of.y[..., out1] + 1j * of.y[..., out2]
    energy = np.sum(np.abs(z) ** 2, axis=1)
    valid = energy > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(valid, np.sum(w * z.conj(), axis=1) / energy, 0.0)
        sizes = np.abs(found)
        size = float(np.median(sizes[valid])) if valid.any() else 1.0
        unit = np.where(sizes > 0, found / sizes, 1.0)
    off = np.sum(np.abs(w - size * unit[:, None] * z) ** 2, axis=(0, 1))
    whole = np.sum(np.abs(w) ** 2, axis=(0, 1)) + np.sum(energy, axis=0) * size**2
    misfit = np.sqrt(2 * off / np.where(whole > 0, whole, 1.0))
    return found, valid, misfit


def general(of: Tokens, channels: Channels) -> tuple[np.ndarray, float]:
    """Return the 2 x 2 map of every token and pair, (N, pairs, 2, 2), and the largest misfit.

    With fewer than two heads it is not determined: the misfit is infinite.
    """
    first, second, out1, out2 = channels
    read = np.stack([of.x[..., first], of.x[..., second]], axis=-1)  # (N, H, pairs, 2)
    written = np.stack([of.y[..., out1], of.y[..., out2]], axis=-1)
    gram = np.einsum("nhki,nhkj->nkij", read, read)
    cross = np.einsum("nhki,nhkj->nkij", written, read)
    scale = gram[..., 0, 0] * gram[..., 1, 1]
    det = scale - gram[..., 0, 1] ** 2
    if not (det > MISFIT * scale).any():
        return np.zeros(gram.shape), np.inf
    known = det > MISFIT * scale
    safe = np.where(known[..., None, None], gram, np.eye(2))
    found = np.where(known[..., None, None], cross @ np.linalg.inv(safe), np.eye(2))
    off = written - np.einsum("nkij,nhkj->nhki", found, read)
    off = np.where(known[:, None, :, None], off, 0.0)
    whole = np.sum(written**2, axis=(0, 1, 3))
    misfit = np.sqrt(np.sum(off**2, axis=(0, 1, 3)) / np.where(whole > 0, whole, 1.0))
    return found, float(misfit.max(initial=0.0))


def candidates(of: Tokens, declared: Channels) -> Iterator[Channels]:
    """Yield the channels of known layouts, the declared one first, then those of its slice.

    All other channels are unchanged, or multiplied by a factor.
    """
    dim, turned = of.x.shape[2], {c for c in range(of.x.shape[2]) if not _scaled(of, c)[1]}
    if turned <= {int(c) for c in np.concatenate(declared)}:
        yield declared
    used = np.sort(np.concatenate(declared[:2]))
    slices = []
    if np.array_equal(used, np.arange(used[0], used[0] + used.size)):
        slices.append((int(used[0]), used.size // 2))
    for start in (0, int(used[0])):
        slices += [(start, n) for n in range((dim - start) // 2, 0, -1)]
    slices += [(dim - 2 * n, n) for n in range(dim // 2 - 1, 0, -1)]
    for start, count in dict.fromkeys(slices):
        if turned <= set(range(start, start + 2 * count)):
            read = {name: layout_pairs(name, count, start) for name in ("half", "interleaved")}
            yield from ((*pairs, *pairs) for pairs in read.values())
            yield (*read["interleaved"], *read["half"])
            yield (*read["half"], *read["interleaved"])


def structure(of: Tokens, declared: Channels, frequencies: np.ndarray) -> tuple[Measured, Angles]:
    """Return the measured pairs and the angles of their tokens.

    ``frequencies`` are the declared ones: pairs that they turn by less than the rounding cannot be
    seen to rotate, and count as pairs. If no known layout fits, no channels are paired.
    """
    for channels in candidates(of, declared):
        found, valid, misfit = rotation(of, channels)
        if misfit.max(initial=0.0) <= MISFIT:
            matrices = _blocks(found)
            break
    else:
        return _unrotated(of, declared)
    turning = _turning(of, channels, frequencies, found)
    channels = tuple(c[turning] for c in channels)
    measured = _measured(of, channels, matrices[:, turning])
    at = np.broadcast_to(of.positions[0][:, None], found[:, turning].shape)
    return measured, Angles(found[:, turning], valid[:, turning], at, of.dtype)


def _unrotated(of: Tokens, declared: Channels) -> tuple[Measured, Angles]:
    """Return the declared, or half-split or interleaved, pairs with a general map, or no pairs."""
    nothing = np.zeros((len(of.x), 0))
    for channels in candidates(of, declared):
        matrices, misfit = general(of, channels)
        if misfit <= MISFIT:
            return _measured(of, channels, matrices), Angles(
                nothing + 0j, nothing > 0, nothing, of.dtype
            )
    none = (np.zeros(0, int),) * 4
    return _measured(of, none, np.zeros((len(of.x), 0, 2, 2))), Angles(
        nothing + 0j, nothing > 0, nothing, of.dtype
    )


def _turning(
    of: Tokens, channels: Channels, frequencies: np.ndarray, found: np.ndarray
) -> np.ndarray:
    """Return the mask of the pairs that move, or that turn too little to be seen moving.

    Pairs whose input is 0 in every token say nothing, and count as moving.
    The declared frequencies say which pairs are that slow, or the angle of the last pair that
    moves, if the next pairs are slower as declared.
    """
    first, second, out1, out2 = channels
    still = (of.x[..., first] == of.y[..., out1]) & (of.x[..., second] == of.y[..., out2])
    declared = frequencies[frequencies != 0]
    count = first.size
    if count == frequencies.size:
        expected = np.abs(frequencies)
    elif declared.size:  # another number of pairs, with about the same range of frequencies
        known = np.log(np.abs(declared))
        expected = np.exp(np.interp(np.linspace(0, 1, count), np.linspace(0, 1, known.size), known))
    else:
        expected = np.zeros(count)
    farthest = float(np.abs(of.positions).max(initial=0.0))
    unseen = farthest * expected <= 2 * ROUNDOFF[of.dtype]
    empty = ~((of.x[..., first] != 0) | (of.x[..., second] != 0)).any(axis=(0, 1))
    moves = ~still.all(axis=(0, 1)) | (empty & (expected != 0))
    last = int(np.flatnonzero(moves).max(initial=-1))
    if 0 <= last < count - 1 and moves[: last + 1].all() and expected[last]:
        angle = np.abs(np.angle(found[:, last])).max()
        slower = (expected[last + 1] / expected[last]) ** 2
        unseen |= (np.arange(count) > last) & (angle * slower <= 2 * ROUNDOFF[of.dtype])
    return np.asarray(moves | (unseen & (expected != 0)))


def _scaled(of: Tokens, channel: int) -> tuple[float, bool]:
    """Return the factor of a channel by least squares, and whether only the factor changes it."""
    x, y = of.x[..., channel], of.y[..., channel]
    energy = float(np.sum(x * x))
    factor = float(np.sum(x * y)) / energy if energy else 1.0
    off = float(np.sum((y - factor * x) ** 2))
    return factor, off <= MISFIT**2 * factor**2 * energy


def _blocks(found: np.ndarray) -> np.ndarray:
    """Return complex maps (N, pairs) as real matrices (N, pairs, 2, 2)."""
    rows = [np.stack([found.real, -found.imag], -1), np.stack([found.imag, found.real], -1)]
    return np.stack(rows, axis=-2)


def _measured(of: Tokens, channels: Channels, blocks: np.ndarray) -> Measured:
    """Return the measured structure, with the matrices of a few tokens."""
    dim, position = of.x.shape[2], of.positions[0]
    order = np.argsort(position, kind="stable")
    after = int(np.searchsorted(position[order], position[order[0]], side="right"))
    spread = np.linspace(0, order.size - 1, _SHOWN).astype(int)
    shown = order[np.r_[0, np.unique(np.r_[min(after, order.size - 1), spread[1:]])]]
    used = {int(c) for c in np.concatenate(channels)} if channels[0].size else set()
    matrices = np.zeros((shown.size, dim, dim))
    first, second, out1, out2 = channels
    for n, token in enumerate(shown):
        for k, block in enumerate(blocks[token]):
            rows, columns = [out1[k], out2[k]], [first[k], second[k]]
            matrices[n][np.ix_(rows, columns)] = block
    passed, scaled, odd = [], [], []
    for c in sorted(set(range(dim)) - used):
        matrices[:, c, c], fits = _scaled(of, c)
        if np.array_equal(of.x[..., c], of.y[..., c]):
            matrices[:, c, c] = 1.0
            passed.append(c)
        elif fits:
            scaled.append(c)
        else:
            odd.append(c)
    pairs = [Pair(*(int(c[k]) for c in channels)) for k in range(first.size)]
    return Measured(position[shown], matrices, pairs, passed, scaled, odd)
