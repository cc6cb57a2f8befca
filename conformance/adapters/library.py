"""Functions of libraries: how each is built, and what the library's source says it is.

Nothing is imported, downloaded or built before ``build`` of a function is called.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Encoding
from posenc_ref.conformance.harness.implementation import Implementation

#: The dtypes in which ``posenc verify`` judges a table or bias, and a rotation.
TABLES = ("float32",)
VECTORS = ("float32", "bfloat16", "float16")

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
    "transformers_rotary", "transformers_tables", "x_transformers", "rotary_embedding_torch",
    "litgpt", "torchtune", "diffusers", "onnx", "mlx",
)  # fmt: skip


@dataclass(frozen=True)
class LibraryFunction:
    """One function. Everything but ``build`` is read in the source, nothing is measured."""

    name: str  #: unique: the library, then the function
    library: str  #: the distribution to install
    source: str  #: file and functions, inside the library
    build: Callable[[], Implementation]
    #: What the source says it is; None if no encoding of ours describes it.
    expected: Encoding | None
    says: str = ""  #: what the source does, where the encoding does not show it
    unknown: str = ""  #: what the identity card must say if ``expected`` is None
    deviations: tuple[str, ...] = ()  #: the codes that the identity card must report
    remark: str = ""  #: what is surprising about it, for the document
    fast: bool = False  #: identified in every run of the tests
    dtypes: tuple[str, ...] = ()  #: the dtypes in which ``posenc verify`` judges it; often none

    def __post_init__(self) -> None:
        if (self.expected is None) != bool(self.unknown):
            raise ValueError(f"{self.name}: one of expected and unknown must be given, not both")

    @property
    def label(self) -> str:
        """The name without the library."""
        return self.name.removeprefix(f"{self.library} ")

    def wanted(self, patterns: tuple[str, ...]) -> bool:
        """Return whether one of ``patterns`` is in the name, or there are none."""
        return not patterns or any(
            fnmatch.fnmatchcase(self.name.lower(), f"*{pattern.lower()}*") for pattern in patterns
        )


def functions_of(library: str, file: str) -> Callable[..., LibraryFunction]:
    """Return a constructor of functions of ``library`` whose source is in ``file``."""

    def function(
        name: str, functions: str, build: Callable[[], Implementation],
        expected: Encoding | None, **more: Any,
    ) -> LibraryFunction:  # fmt: skip
        source = f"{file}{functions}"
        return LibraryFunction(f"{library} {name}", library, source, build, expected, **more)

    return function


def refuse_all_but(rows: str, positions: Any) -> None:
    """Raise ValueError, naming the ``rows``, unless ``positions`` are integers from 0."""
    values = np.asarray(positions)
    if values.dtype.kind == "f" or (values < 0).any():
        raise ValueError(f"{rows} only")


def window_start(positions: Any) -> int:
    """Return where a contiguous window of positions starts, or raise ValueError.

    Rows of positions are one window if they are all the same.
    """
    rows = positions.tolist()
    if rows and isinstance(rows[0], list):
        if any(row != rows[0] for row in rows):
            raise ValueError("takes an offset: the rows of a batch share their positions")
        rows = rows[0]
    start = rows[0] if rows else 0
    if start != int(start) or start < 0 or rows != list(range(int(start), int(start) + len(rows))):
        raise ValueError("takes an offset: positions are contiguous integers, not below 0")
    return int(start)


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
