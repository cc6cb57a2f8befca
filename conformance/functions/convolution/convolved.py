"""The convolution of one layer, whose kernel, ends and groups may be other than declared."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import ConvPositions
from posenc_ref.conformance.diagnosis.steps import Steps

#: Sizes of tiles of tokens.
_TILES = (4, 8, 16, 32, 64, 128)


def convolved(e: ConvPositions, kernel: np.ndarray, y: np.ndarray, s: Steps) -> np.ndarray:
    """Return the convolution of y (B, h, w, C), in steps."""
    k = kernel if kernel.ndim == 4 else kernel[..., None]
    square = e.num_axes == 2 and k.shape[2] == k.shape[3]
    code, c = "conv-kernel", e.dim // e.groups
    in_groups = k.reshape(e.groups, c, c, *k.shape[2:])
    k = s.pick(
        "the kernel", k,
        (code, "is flipped: a convolution, not a cross-correlation", k[:, :, ::-1, ::-1]),
        *([(code, "has inputs and outputs of a group exchanged",
            in_groups.swapaxes(1, 2).reshape(k.shape))] if c > 1 else []),
        *([(code, "has height and width exchanged", k.swapaxes(2, 3))] if square else []),
        (code, "is dilated: its taps are 2 tokens apart, not 1", _dilated(k)),
        right="Use the weight as PyTorch stores it: (outputs, inputs of the group, taps), tap 0 "
        "for the earliest token.",
    )  # fmt: skip
    lengths = ((1, k.shape[2]), (2, k.shape[3]))

    def middle(n: int) -> tuple[int, int]:
        return n // 2, n - 1 - n // 2

    def padded(
        ends: Callable[[int], tuple[int, int]], one: np.ndarray = y, only: int = 0, **how: Any
    ) -> list[np.ndarray]:
        """Return the padded tokens; on axis ``only`` alone by ``ends``, if it is given."""
        pads = {
            axis: (ends if only in (0, axis) else middle)(n) if n > 1 else (0, 0)
            for axis, n in lengths
        }
        return [np.pad(one, ((0, 0), pads[1], pads[2], (0, 0)), **how)]

    def in_tiles(size: int) -> list[np.ndarray]:
        cuts = range(size, y.shape[1], size)
        return [part for one in np.split(y, cuts, axis=1) for part in padded(middle, one)]

    def half_open(size: int, before: bool) -> list[np.ndarray]:
        """Return tiles that see the tokens of the tile before, or after, but not both."""
        left, right = middle(k.shape[2])
        whole = np.pad(y, ((0, 0), (left, right), (0, 0), (0, 0)))
        found = []
        for start in range(0, y.shape[1], size):
            stop = min(start + size, y.shape[1])
            part = whole[:, start : stop + left + right].copy()
            if before:
                part[:, left + stop - start :] = 0
            else:
                part[:, :left] = 0
            found.append(part)
        return found

    def shorter() -> list[np.ndarray]:
        """Return zeros as ``np.convolve(x, kernel, "same")`` has them for short sequences."""
        start = (min(y.shape[1], k.shape[2]) - 1) // 2
        return padded(lambda n: (n - 1 - start, start))

    def in_line() -> list[np.ndarray]:
        """Return patches of the rows above and below beyond the ends of a row."""
        h, w = y.shape[1:3]
        (up, down), (left, right) = middle(k.shape[2]), middle(k.shape[3])
        at = np.arange(-up, h + down)[:, None] * w + np.arange(-left, w + right)
        line = y.reshape(len(y), h * w, -1)[:, np.clip(at, 0, h * w - 1)]
        return [np.where(((at >= 0) & (at < h * w))[..., None], line, 0.0)]

    def joined() -> list[np.ndarray]:
        """Return rows of a batch with the neighbouring rows' tokens around them."""
        before, after = middle(k.shape[2])
        line = np.pad(y.reshape(-1, *y.shape[2:]), ((before, after), (0, 0), (0, 0)))
        starts = range(0, len(y) * y.shape[1], y.shape[1])
        return [np.stack([line[n : n + y.shape[1] + before + after] for n in starts])]

    right = "Pad K // 2 zeros at both ends; if K is even, drop the last token of the result."
    if e.stride > 1:
        right += f" Then keep tokens 0, {e.stride}, {2 * e.stride}, ..."
    options: list[tuple[str, Any]] = [
        ("are all before the first token: the convolution is causal",
         partial(padded, lambda n: (n - 1, 0))),
        ("are all after the last token", partial(padded, lambda n: (0, n - 1))),
        ("repeat the first and the last token, and are not zero",
         partial(padded, middle, mode="edge")),
        ("wrap round to the other end, and are not zero", partial(padded, middle, mode="wrap")),
        ("mirror the tokens next to the ends, and are not zero",
         partial(padded, middle, mode="reflect")),
    ]  # fmt: skip
    if e.num_axes == 2:
        words = "are patches of the rows above and below, and are not zero: patches are shifted in "
        options.append((f"{words}one line, without a mask at the ends of rows", in_line))
        options += [
            (f"are all before the first {name} of patches, and at both ends of the other axis",
             partial(padded, lambda n: (n - 1, 0), only=axis))
            for axis, name in ((1, "row"), (2, "column"))
        ]  # fmt: skip
    else:
        options.append(("are tokens of the neighbouring rows of the batch, and are not zero: the "
                        "rows are joined", joined))  # fmt: skip
        options += [
            (f"are zeros around every tile of {n} tokens too: tiles are convolved separately",
             partial(in_tiles, n)) for n in _TILES
        ]  # fmt: skip
        options += [
            (f"are zeros {which} every tile of {n} tokens too: tiles see the tokens "
             f"{'before' if before else 'after'} them only", partial(half_open, n, before))
            for n in _TILES for which, before in (("after", True), ("before", False))
        ]  # fmt: skip
        words = 'are centred by np.convolve(x, kernel, "same"), which takes the middle of the '
        words += "longer of both: sequences shorter than the kernel are moved"
        options.append((words, shorter))
    if k.shape[2] % 2 == 0:
        words = "are one fewer at the start: the first token of the result is dropped, not the last"
        if e.stride > 1:
            n = e.stride
            words += (
                f"; or of every {n} tokens of the convolution the second is kept, not the first"
            )
        options.insert(0, (words, partial(padded, lambda n: middle(n)[::-1])))
    every = [("conv-padding", words, make()) for words, make in options]
    rows = s.pick("the values beyond the ends", padded(middle), *every, right=right)
    of_group = np.arange(e.dim).reshape(e.groups, c)
    mixed = np.arange(e.dim).reshape(c, e.groups).T
    alike = e.groups in (1, e.dim)
    members = of_group if alike else s.pick(
        "the input channels of a group", of_group,
        ("conv-groups", "are every groups-th channel, not consecutive ones", mixed),
        right=f"Group g has the channels from g * {c} to g * {c} + {c - 1}.",
    )  # fmt: skip
    return np.concatenate([_correlate(e, k, one, members) for one in rows], axis=1)


def _dilated(k: np.ndarray) -> np.ndarray:
    """Return a kernel (outputs, inputs, taps, taps) with zeros between its taps."""
    sizes = [2 * n - 1 for n in k.shape[2:]]
    wide = np.zeros((*k.shape[:2], *sizes))
    wide[:, :, ::2, ::2] = k
    return wide


def _correlate(e: ConvPositions, k: np.ndarray, rows: np.ndarray, members: Any) -> np.ndarray:
    high, wide = (rows.shape[n + 1] - k.shape[n + 2] + 1 for n in (0, 1))
    found = np.zeros((rows.shape[0], high, wide, e.dim))
    for g, own in enumerate(of for of in np.arange(e.dim).reshape(e.groups, -1)):
        seen = rows[..., members[g]]
        for a in range(k.shape[2]):
            for b in range(k.shape[3]):
                found[..., own] += seen[:, a : a + high, b : b + wide] @ k[own, :, a, b].T
    found = found[:, :: e.stride]
    # An even kernel makes one token more before the stride; the last one kept is dropped.
    return found[:, : rows_kept(high, e.stride, k.shape[2])]


def rows_kept(count: int, stride: int, kernel: int) -> int:
    """Return the number of tokens of the result for ``count`` tokens."""
    return count // stride if kernel % 2 == 0 else (count - 1) // stride + 1
