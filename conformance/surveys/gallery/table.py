"""All entries, and the libraries that they are in."""

from __future__ import annotations

import functools
import importlib.metadata

from . import (
    images,
    mlx_kernels,
    onnx_operators,
    text_libraries,
    transformers_rotary,
    transformers_tables,
)
from .entry import Entry

#: Distribution: what to install for it.
LIBRARIES = {
    "transformers": "transformers>=5",
    "x-transformers": "x-transformers",
    "rotary-embedding-torch": "rotary-embedding-torch",
    "diffusers": "diffusers",
    "onnxruntime": "onnxruntime onnx",
    "onnx": "onnx",
    "mlx": "mlx[cpu]",
    "mlx-lm": "mlx-lm",
    "litgpt": "litgpt",
    "torchtune": "torchtune torchao==0.16.0",
}
#: In no extra of ours: they bring trainers, data sets or servers along.
HEAVY = ("mlx-lm", "litgpt", "torchtune")
_PARTS = (
    transformers_rotary,
    transformers_tables,
    text_libraries,
    images,
    onnx_operators,
    mlx_kernels,
)


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Every entry, whether its library is installed or not."""
    found = tuple(entry for part in _PARTS for entry in part.entries())
    assert len({entry.name for entry in found}) == len(found)
    return found


def version(library: str) -> str | None:
    """The installed version."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def missing() -> dict[str, str]:
    """Libraries that are not installed, and what to install."""
    return {name: pip for name, pip in LIBRARIES.items() if version(name) is None}
