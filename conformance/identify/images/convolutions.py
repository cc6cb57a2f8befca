"""Identify convolutional positions from the responses to single values: PEG, CPVT, Twins."""

from __future__ import annotations

import numpy as np

from posenc_ref import ConvPositions
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.identify.card import Card, Unidentified, require_finite, require_same
from posenc_ref.conformance.identify.hints import WIDTHS

#: The sides of images, and the lengths of sequences, to try: kernels reach half of them.
_SIDES = (9, 17, 33, 65, 257)


def identify(run: Run, card: Card) -> None:
    """Fill in the identity card of ``fn(x)``, or of ``fn(x, height, width)`` for patches."""
    axes = 2 if run.report.surface == "convolve_grid" else 1
    dim = _width(run, axes)
    nothing = np.zeros((1, 1, dim))
    for side in _SIDES[: 3 if axes == 2 else None]:
        grid = (side,) * axes
        empty = _call(run, nothing, grid)
        require_finite(empty)
        require_same(empty, _call(run, nothing, grid))
        middle = side // 2 * (side + 1 if axes == 2 else 1)
        seen = np.stack([_call(run, _one(dim, c, middle, side**axes), grid) for c in range(dim)])
        kernel = _kernel(seen - empty, grid)
        if kernel is not None:
            break
    else:
        raise Unidentified("a token changes the result of all others: this is no convolution")
    if kernel[0, 0].size == 1:
        raise Unidentified("each token changes its own result alone: there are no positions")
    _require_linear(run, dim, grid, empty, np.abs(kernel).sum(axis=(1, *range(2, 2 + axes))).max())
    bias = empty[(0,) * axes]
    if (empty != bias).any():
        raise Unidentified("the result for zeros differs between tokens")
    shown = " x ".join(map(str, kernel.shape[2:]))
    card.facts["kernel"] = f"{shown} tokens, {dim} channels"
    card.encoding = found = _encoding(kernel, bias, run.dtype)  # type: ignore[assignment]
    card.facts["groups"] = f"{found.groups} of {dim // found.groups} channels"
    card.relations += (
        "residual=True with a middle tap that is 1 less for the own channel gives the same results",
    )


def _width(run: Run, axes: int) -> int:
    for dim in WIDTHS:
        try:
            _call(run, np.zeros((1, 1, dim)), (5,) * axes)
            return dim
        except (Refused, Malformed) as error:
            last = error
    raise last


def _call(run: Run, x: np.ndarray, grid: tuple[int, ...]) -> np.ndarray:
    """Return the result (*grid, dim) for x (1, S, dim), which a single token is repeated to."""
    tokens, dim = int(np.prod(grid)), x.shape[2]
    x = np.ascontiguousarray(np.broadcast_to(x, (1, tokens, dim)))
    y = run.driver.array(run.driver.call(x, *(grid if len(grid) == 2 else ())))
    if y.shape != x.shape:
        raise Malformed(f"expected shape {x.shape}, got {y.shape}")
    return y.reshape(*grid, dim)


def _one(dim: int, channel: int, token: int, tokens: int) -> np.ndarray:
    x = np.zeros((1, tokens, dim))
    x[0, token, channel] = 1.0
    return x


def _kernel(seen: np.ndarray, grid: tuple[int, ...]) -> np.ndarray | None:
    """Return the kernel (outputs, inputs, taps ...), or None if it may reach past the ends.

    ``seen`` (inputs, *grid, outputs) are the responses to a 1 in the middle.
    """
    reach, least = [], 64 * ROUNDOFF["float32"] * np.abs(seen).max()
    for axis, side in enumerate(grid, start=1):
        others = tuple(a for a in range(seen.ndim) if a != axis)
        hit = np.abs(np.flatnonzero((np.abs(seen) > least).any(axis=others)) - side // 2)
        reach.append(int(hit.max(initial=0)))
        if reach[-1] == side // 2:
            return None
    # Token t has tap k of token t + k - K // 2, so the taps are in the reverse order.
    taps = tuple(slice(s // 2 + r, s // 2 - r - 1, -1) for s, r in zip(grid, reach, strict=True))
    return np.moveaxis(seen[(slice(None), *taps)], -1, 0)


def _require_linear(
    run: Run, dim: int, grid: tuple[int, ...], empty: np.ndarray, size: float
) -> None:
    x = run.random((1, int(np.prod(grid)), dim))
    one, two = (_call(run, n * x, grid) - empty for n in (1, 2))
    slack = 64 * ROUNDOFF[run.coarse] * (size * np.abs(x).max() + np.abs(empty).max())
    if (np.abs(two - 2 * one) > slack).any():
        raise Unidentified("the result is not linear in x: an activation or a norm follows")


def _encoding(kernel: np.ndarray, bias: np.ndarray, dtype: str) -> ConvPositions:
    """Return the layer with the most groups that the kernel has."""
    dim = len(kernel)
    joined = np.asarray(kernel.reshape(dim, dim, -1).any(axis=2))
    places = np.arange(dim)
    for groups in (n for n in range(dim, 0, -1) if dim % n == 0):
        size = dim // groups
        if not joined[places[:, None] // size != places // size].any():
            break
    # The result holds x itself if the middle tap of the own channel is nearer to 1 than to 0.
    middle = tuple(n // 2 for n in kernel.shape[2:])
    own = kernel[(places, places, *middle)]
    residual = bool(np.median(own) > 1 / 2)
    kernel = kernel.copy()
    kernel[(places, places, *middle)] -= residual
    inside = np.stack([kernel[o, o // size * size : (o // size + 1) * size] for o in places])
    kind = np.float64 if dtype == "float64" else np.float32
    return ConvPositions(
        (inside.astype(kind),), (bias.astype(kind),), groups=groups, activation="none",
        residual=residual,
    )  # fmt: skip
