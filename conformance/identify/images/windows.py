"""Identify biases in a window of image patches: Swin, BEiT and LeViT."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posenc_ref import BEiTBias, LeViTBias, SwinBias
from posenc_ref.conformance.bias.cases import Ruler
from posenc_ref.relative import relative_index

WindowBias = SwinBias | BEiTBias | LeViTBias

#: Numbers of tokens to try where a function takes one window only: squares, with [CLS] or without,
#: the sides of usual models first; then every small number.
TOKENS = tuple(
    dict.fromkeys(
        [n * n + cls for n in (7, 8, 14, 16, 12, 24, 10, 6) for cls in (0, 1)]
        + [n * n + cls for n in range(2, 33) for cls in (0, 1)]
        + [128, 512, 2048]
        + list(range(2, 65))
    )
)


def window(values: np.ndarray, dtype: str, ruler: Ruler) -> WindowBias | None:
    """Return the bias (H, N, N) as the entries of a table by row and column offset, or None."""
    tokens = values.shape[1]
    kind = np.float64 if dtype == "float64" else np.float32
    for h, w in sides(tokens):
        table = entries(values, np.asarray(relative_index((h, w))), ruler)
        if table is None:
            continue
        near = entries(values, _absolute(h, w), ruler)
        if near is not None:
            return LeViTBias(near.astype(kind), window=(h, w))
        return SwinBias(table.astype(kind), window=(h, w))
    for h, w in sides(tokens - 1):
        table = entries(values, relative_index((h, w), cls_token=True), ruler)
        if table is not None:
            return BEiTBias(table.astype(kind), window=(h, w))
    return None


def sides(tokens: int) -> Iterator[tuple[int, int]]:
    """Yield height and width of the windows with this number of tokens, square ones first."""
    every = [(h, tokens // h) for h in range(2, tokens // 2 + 1) if tokens % h == 0]
    yield from sorted(every, key=lambda side: abs(side[0] - side[1]))


def entries(values: np.ndarray, index: np.ndarray, ruler: Ruler) -> np.ndarray | None:
    """Return the table (rows, H) whose entries are the values, or None if they contradict."""
    table = np.zeros((int(index.max()) + 1, values.shape[0]))
    table[index] = np.moveaxis(values, 0, -1)
    expected = np.moveaxis(table[index], -1, 0)
    return None if ruler.differ(values, expected, np.abs(expected)).any() else table


def _absolute(h: int, w: int) -> np.ndarray:
    y, x = np.divmod(np.arange(h * w), w)
    return np.asarray(np.abs(y[:, None] - y) * w + np.abs(x[:, None] - x))
