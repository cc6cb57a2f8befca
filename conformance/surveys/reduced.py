"""A reduced workload for Dask (a graph per call) and JAX (a compilation per shape).

Their encodings are the code that NumPy and torch run as well, and these are asked for everything.
``--full`` asks every library for everything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from posenc_ref.backends import Backend

#: These dtypes, unless asked otherwise; small heads, and fewer shapes and calls.
QUICK = {"dask": ("float32",), "jax": ("float32", "bfloat16")}


@contextlib.contextmanager
def scheduled(backend: Backend) -> Iterator[None]:
    """Let Dask compute in this thread: its arrays are too small here to pass them to others."""
    if backend.name != "dask":
        yield
        return
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield
