"""The backend of JAX, which has float64 only if jax_enable_x64 is set."""

from __future__ import annotations

from typing import Any

import numpy as np

from .backend import Backend, widen


def _devices() -> tuple[str, ...]:
    import jax

    return tuple(dict.fromkeys(device.platform for device in jax.devices()))


def _asarray(values: np.ndarray, dtype: str, device: str | None) -> Any:
    import jax
    import jax.numpy as jnp

    if not jax.config.jax_enable_x64:
        dtype = {"int64": "int32"}.get(dtype, dtype)
        if dtype == "float64":
            raise TypeError("JAX has no float64 here: set jax_enable_x64")
    place = None if device is None else jax.devices(device)[0]
    # NumPy converts the dtype (ml_dtypes rounds once), because JAX would compile for every shape.
    return jax.device_put(np.array(values, dtype=jnp.dtype(dtype)), place)


BACKEND = Backend(
    name="jax",
    module="jax",
    distribution="jax",
    install='pip install "posenc-ref[jax]"',
    dtypes=("float32", "float16", "bfloat16"),
    devices=_devices,
    asarray=_asarray,
    asnumpy=lambda array: widen(np.asarray(array)),
)
