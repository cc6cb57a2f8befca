"""All functions of libraries that are known here, and which of the libraries are installed.

Nothing is imported, downloaded or built before ``build`` of a function is called.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata

from .library import LibraryFunction

#: What to install for each library, in the order of documents.
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
#: In no extra of ours: these bring trainers, data sets or servers along.
HEAVY = ("mlx-lm", "litgpt", "torchtune")
#: The modules of this package that list functions.
MODULES = (
    "transformers_rotary",
    "transformers_tables",
    "x_transformers",
    "rotary_embedding_torch",
    "litgpt",
    "torchtune",
    "diffusers",
    "onnx",
    "mlx",
)


@functools.cache
def functions() -> tuple[LibraryFunction, ...]:
    """Return every function, whether its library is installed or not."""
    parts = (importlib.import_module(f"{__package__}.{name}") for name in MODULES)
    found = tuple(function for part in parts for function in part.functions())
    assert len({function.name for function in found}) == len(found)
    return found


def judged_functions() -> tuple[LibraryFunction, ...]:
    """Return the functions that ``posenc verify`` judges."""
    return tuple(function for function in functions() if function.dtypes)


def version(library: str) -> str | None:
    """Return the installed version, or None."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def missing() -> dict[str, str]:
    """Return the libraries that are not installed, and what to install for each."""
    return {name: pip for name, pip in LIBRARIES.items() if version(name) is None}
