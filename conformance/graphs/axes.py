"""The axes of x in ONNX models."""

from __future__ import annotations

import numpy as np

from posenc_ref.conformance.harness import tensor_layouts

#: The tensor layouts of x that are tried, by rank.  The rows of a batch are joined in "thd" and
#: "t(hd)"; "hsd" has one row.
LAYOUTS = {4: ("bhsd", "bshd", "sbhd"), 3: ("bs(hd)", "thd", "hsd"), 2: ("t(hd)",)}
AXES = {**tensor_layouts.AXES, "hsd": "(H, S, D)"}


def to_native(x: np.ndarray, layout: str) -> np.ndarray:
    """Return x (B, H, S, D) with the axes of ``layout``."""
    if layout == "hsd":
        return np.ascontiguousarray(x.reshape(-1, *x.shape[2:]))
    return tensor_layouts.in_layout(x, layout)


def from_native(y: np.ndarray, layout: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return y with the axes (B, H, S, D) of ``shape``."""
    return y.reshape(shape) if layout == "hsd" else tensor_layouts.restored(y, layout, shape)
