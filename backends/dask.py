"""The backend of Dask, whose arrays are lazy.

Applying an encoding to a Dask array computes nothing and gathers no chunks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .backend import Backend, widen


def _asarray(values: np.ndarray, dtype: str, device: str | None) -> Any:
    import dask.array as da

    # Two chunks along every axis reveal operations that need a whole axis.
    chunks = tuple(max(1, -(-n // 2)) for n in values.shape)
    return da.from_array(values.astype(dtype), chunks=chunks)


BACKEND = Backend(
    name="dask",
    module="dask.array",
    distribution="dask",
    install='pip install "posenc-ref[dask]"',
    dtypes=("float64", "float32", "float16"),
    devices=lambda: ("cpu",),
    asarray=_asarray,
    asnumpy=lambda array: widen(np.asarray(array)),
    lazy=True,
)
