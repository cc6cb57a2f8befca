"""The backend of array-api-strict, which has only the functions of the Array API standard.

Its devices are simulated; the device ``no_float64`` has no float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .backend import Backend, widen


def _asarray(values: np.ndarray, dtype: str, device: str | None) -> Any:
    import array_api_strict as xp

    place = None if device is None else xp.Device(device)
    return xp.asarray(values.astype(dtype), dtype=getattr(xp, dtype), device=place)


def _asnumpy(array: Any) -> np.ndarray:
    import array_api_strict as xp

    return widen(np.asarray(array.to_device(xp.Device("CPU_DEVICE"))))


BACKEND = Backend(
    name="array_api_strict",
    module="array_api_strict",
    distribution="array-api-strict",
    install='pip install "posenc-ref[strict]"',
    dtypes=("float64", "float32"),
    devices=lambda: ("CPU_DEVICE", "device1", "no_float64"),
    asarray=_asarray,
    asnumpy=_asnumpy,
)
