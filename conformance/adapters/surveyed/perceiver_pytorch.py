"""The Fourier features of perceiver-pytorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import FourierFeatures
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.harness.implementation import Implementation


def functions() -> list[LibraryFunction]:
    """Return the features of one coordinate."""
    function = functions_of("perceiver-pytorch", "perceiver_pytorch.py: ")
    features = FourierFeatures(
        np.linspace(1.0, 5.0, 6)[:, None], unit="half-turn", include_input=True
    )
    return [
        function("fourier_encode", "fourier_encode", _features, features, dtypes=("float32",),
                 says="max_freq=10; the coordinate is the last column, here put first"),
    ]  # fmt: skip


def _features() -> Implementation:
    import torch
    from perceiver_pytorch.perceiver_pytorch import fourier_encode

    def table(positions: Any) -> Any:
        found = fourier_encode(positions.to(torch.float32), max_freq=10.0, num_bands=6)
        return found.roll(1, -1)

    return Implementation(table, "table", "perceiver-pytorch", backend="torch")
