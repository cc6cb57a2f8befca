"""Functions of libraries: how to build each, and its encoding according to the library's source.

Nothing is imported or built before ``LibraryFunction.build`` is called.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib
import importlib.metadata
import importlib.util
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from posenc_ref import Encoding
from posenc_ref.conformance.harness.implementation import Implementation

#: The dtypes in which ``posenc verify`` judges tables and biases, and those for rotations.
TABLES = ("float32",)
VECTORS = ("float32", "bfloat16", "float16")

#: The distribution to install for each library, in the order of the documents.
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
    "speechbrain": "speechbrain",
    "torchscale": "torchscale",
    "positional-encodings": "positional-encodings",
    "local-attention": "local-attention",
    "timesfm": "timesfm",
    "chronos-forecasting": "chronos-forecasting",
    "moshi": "moshi",
    "fla-core": "fla-core packaging triton",
    "performer-pytorch": "performer-pytorch",
    "transformer-lens": "transformer-lens",
    "esm": "esm",
    "torchtitan": "torchtitan flash-linear-attention transformers",
    "megatron-core": "megatron-core",
    "perceiver-pytorch": "perceiver-pytorch",
    "axial-positional-embedding": "axial-positional-embedding",
    "open-clip-torch": "open-clip-torch",
    "vit-pytorch": "vit-pytorch",
    "espnet": "espnet",
    "timm": "timm",
    "keras-hub": "keras-hub keras",
    "equinox": "equinox",
    "mlx-vlm": "mlx-vlm",
    "ggml-python": "ggml-python",
}
#: Libraries that are in no extra, because they install trainers, data sets or servers.
HEAVY = (
    "mlx-lm", "litgpt", "torchtune", "speechbrain", "torchscale", "positional-encodings",
    "local-attention", "timesfm", "chronos-forecasting", "moshi", "fla-core", "performer-pytorch",
    "transformer-lens", "esm", "torchtitan", "megatron-core", "perceiver-pytorch",
    "axial-positional-embedding", "open-clip-torch", "vit-pytorch", "espnet", "timm",
    "keras-hub", "equinox", "mlx-vlm", "ggml-python",
)  # fmt: skip
#: The modules of this package that list the functions of the page of identity cards.
MODULES = (
    "transformers_rotary", "transformers_tables", "x_transformers", "rotary_embedding_torch",
    "litgpt", "torchtune", "diffusers", "onnx", "mlx",
)  # fmt: skip
#: Modules with further functions, which ``posenc verify --library`` judges.
SURVEYED = (
    "diffusers_models.axes", "diffusers_models.pictures", "diffusers_models.sequences",
    "diffusers_models.videos", "equinox", "onnx_attention",
    *(f"surveyed.{name}" for name in (
        "timm", "speechbrain", "torchscale", "positional_encodings", "local_attention", "timesfm",
        "chronos", "moshi", "fla_core", "performer_pytorch", "transformer_lens", "esm",
        "torchtitan", "megatron_core", "perceiver_pytorch", "axial_positional_embedding",
        "open_clip", "vit_pytorch", "espnet", "mlx_lm", "keras_hub", "mlx_vlm",
        "ggml.operators",
    )),
)  # fmt: skip


@dataclass(frozen=True)
class LibraryFunction:
    """One function of a library, described from the library's source code."""

    name: str  #: the unique name: the library, then the function
    library: str  #: the distribution to install
    source: str  #: the file and functions in the library
    build: Callable[[], Implementation]
    #: The encoding according to the source; None if no encoding of posenc_ref describes it.
    expected: Encoding | None
    says: str = ""  #: a remark on the source, if the encoding does not say it
    unknown: str = ""  #: what the identity card must say if ``expected`` is None
    deviations: tuple[str, ...] = ()  #: the codes that the identity card must report
    remark: str = ""  #: a surprising property, for the document
    fast: bool = False  #: whether every run of the tests identifies it
    dtypes: tuple[str, ...] = ()  #: the dtypes in which ``posenc verify`` judges it, if any

    def __post_init__(self) -> None:
        if (self.expected is None) != bool(self.unknown):
            raise ValueError(f"{self.name}: give either `expected` or `unknown`, not both")

    @property
    def own_dtypes(self) -> tuple[str, ...]:
        """Return the dtypes in which ``posenc verify --library`` judges it."""
        rotation = self.expected is not None and self.expected.family == "rotary"
        return self.dtypes or (VECTORS if rotation else TABLES)

    @property
    def label(self) -> str:
        """Return the name without the library."""
        return self.name.removeprefix(f"{self.library} ")

    def make(self) -> Implementation:
        """Build the function; weights that the library draws are the same in every process."""
        random.seed(0)  # Keras takes its seeds from here
        if importlib.util.find_spec("torch") is not None:
            import torch

            torch.manual_seed(0)
        return self.build()

    def wanted(self, patterns: tuple[str, ...]) -> bool:
        """Return whether the name contains one of ``patterns``, or there are no patterns."""
        return not patterns or any(
            fnmatch.fnmatchcase(self.name.lower(), f"*{pattern.lower()}*") for pattern in patterns
        )


def functions_of(library: str, file: str) -> Callable[..., LibraryFunction]:
    """Return a constructor of :class:`LibraryFunction` for a source ``file`` of ``library``."""

    def function(name: str, functions: str, *rest: Any, **more: Any) -> LibraryFunction:
        return LibraryFunction(f"{library} {name}", library, f"{file}{functions}", *rest, **more)

    return function


def functions() -> tuple[LibraryFunction, ...]:
    """Return every function, including those of libraries that are not installed."""
    return (*carded(), *_of(SURVEYED))


def carded() -> tuple[LibraryFunction, ...]:
    """Return the functions of the page of identity cards."""
    return _of(MODULES)


@functools.cache
def _of(modules: tuple[str, ...]) -> tuple[LibraryFunction, ...]:
    parts = (importlib.import_module(f"{__package__}.{name}") for name in modules)
    found = tuple(function for part in parts for function in part.functions())
    assert len({function.name for function in found}) == len(found)
    return found


def version(library: str) -> str | None:
    """Return the installed version of a library, or None."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def missing() -> dict[str, str]:
    """Return the libraries that lack a distribution, each with the distributions to install."""
    return {
        name: pip
        for name, pip in LIBRARIES.items()
        if any(version(re.split(r"[^\w.-]", word)[0]) is None for word in (name, *pip.split()))
    }
