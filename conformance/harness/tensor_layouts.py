"""The tensor layouts of vectors (B, H, S, D)."""

from __future__ import annotations

import numpy as np

#: The axes of every tensor layout; T are the tokens of all rows of the batch.
AXES = {
    "bhsd": "(B, H, S, D)",
    "bshd": "(B, S, H, D)",
    "sbhd": "(S, B, H, D)",
    "thd": "(T, H, D)",
    "t(hd)": "(T, H * D)",
    "bs(hd)": "(B, S, H * D)",
}
TENSOR_LAYOUTS = tuple(AXES)
#: The surfaces whose functions may take vectors in any of them; others take (B, H, S, D).
LAID_OUT = ("apply", "apply_qk", "apply_vjp")


def in_layout(x: np.ndarray, layout: str) -> np.ndarray:
    """Return x (B, H, S, D) in a tensor layout."""
    b, h, s, d = x.shape
    if layout == "bhsd":
        return np.ascontiguousarray(x)
    if layout == "sbhd":
        return np.ascontiguousarray(x.transpose(2, 0, 1, 3))
    shapes = {"bshd": (b, s, h, d), "bs(hd)": (b, s, h * d), "thd": (b * s, h, d),
              "t(hd)": (b * s, h * d)}  # fmt: skip
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3).reshape(shapes[layout]))


def restored(y: np.ndarray, layout: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return y in a tensor layout as an array of ``shape`` (B, H, S, D)."""
    b, h, s, d = shape
    if layout == "bhsd":
        return y
    if layout == "sbhd":
        return y.transpose(1, 2, 0, 3)
    return y.reshape(b, s, h, d).transpose(0, 2, 1, 3)
