"""What ``verify`` asks of libraries where every call costs a graph, or every shape a compilation.

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
    """Meanwhile Dask computes in this thread: its arrays here are smaller than handing them on."""
    if backend.name != "dask":
        yield
        return
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield
