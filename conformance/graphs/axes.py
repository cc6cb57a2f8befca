"""The axes of x in ONNX models."""

from __future__ import annotations

import numpy as np

#: The axes of x that are tried, by rank: b batch, h heads, s tokens, d channels.
LAYOUTS = {4: ("bhsd", "bshd", "sbhd"), 3: ("bs(hd)", "shd", "hsd"), 2: ("s(hd)",)}
SPELLED = {
    "bhsd": "(batch, heads, tokens, channels)", "bshd": "(batch, tokens, heads, channels)",
    "sbhd": "(tokens, batch, heads, channels)", "bs(hd)": "(batch, tokens, heads * channels)",
    "shd": "(tokens, heads, channels)", "hsd": "(heads, tokens, channels)",
    "s(hd)": "(tokens, heads * channels)",
}  # fmt: skip


def to_native(x: np.ndarray, layout: str) -> np.ndarray:
    """Return x (B, H, S, D) with the axes of ``layout``."""
    b, h, s, d = x.shape
    if layout == "bhsd":
        return np.ascontiguousarray(x)
    if layout == "sbhd":
        return np.ascontiguousarray(x.transpose(2, 0, 1, 3))
    if layout == "hsd":
        return np.ascontiguousarray(x.reshape(b * h, s, d))
    tokens = np.ascontiguousarray(x.transpose(0, 2, 1, 3))
    shapes = {"bshd": (b, s, h, d), "bs(hd)": (b, s, h * d), "shd": (b * s, h, d),
              "s(hd)": (b * s, h * d)}  # fmt: skip
    return tokens.reshape(shapes[layout])


def from_native(y: np.ndarray, layout: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return y with the axes (B, H, S, D) of ``shape``."""
    b, h, s, d = shape
    if layout == "sbhd":
        return y.transpose(1, 2, 0, 3)
    if layout in ("bhsd", "hsd"):
        return y.reshape(shape)
    return y.reshape(b, s, h, d).transpose(0, 2, 1, 3)
