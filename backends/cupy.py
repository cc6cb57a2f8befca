"""The backend of CuPy.  Without a GPU, CuPy can be imported but cannot make arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .backend import Backend, widen


def _unusable() -> str | None:
    import cupy

    try:
        cupy.zeros(1)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no working CUDA device ({error})"
    return None


def _asarray(values: np.ndarray, dtype: str, device: str | None) -> Any:
    import cupy

    if dtype == "bfloat16":
        import ml_dtypes  # CuPy takes bfloat16 from NumPy

        return cupy.asarray(values.astype(ml_dtypes.bfloat16))
    return cupy.asarray(values.astype(dtype))


BACKEND = Backend(
    name="cupy",
    module="cupy",
    distribution="cupy-cuda13x",
    install='pip install "posenc-ref[cupy]"',
    dtypes=("float64", "float32", "float16", "bfloat16"),
    devices=lambda: ("cuda",),
    asarray=_asarray,
    asnumpy=lambda array: widen(array.get()),
    unusable=_unusable,
)
