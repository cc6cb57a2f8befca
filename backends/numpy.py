"""The backend of NumPy, whose bfloat16 comes from ml_dtypes."""

from __future__ import annotations

import importlib.util

import numpy as np

from .backend import Backend, widen


def _asarray(values: np.ndarray, dtype: str, device: str | None) -> np.ndarray:
    if dtype == "bfloat16":
        import ml_dtypes  # registers the dtype

        return values.astype(ml_dtypes.bfloat16)
    return values.astype(dtype)


def _dtypes() -> tuple[str, ...]:
    narrow = ("bfloat16",) if importlib.util.find_spec("ml_dtypes") else ()
    return ("float64", "float32", "float16", *narrow)


BACKEND = Backend(
    name="numpy",
    module="numpy",
    distribution="numpy",
    install="pip install numpy",
    dtypes=_dtypes(),
    devices=lambda: ("cpu",),
    asarray=_asarray,
    asnumpy=lambda array: widen(np.asarray(array)),
)
