"""The backend of PyTorch, on the CPU and on CUDA devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .backend import Backend, widen


def _devices() -> tuple[str, ...]:
    import torch

    return ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


def _asarray(values: np.ndarray, dtype: str, device: str | None) -> Any:
    import torch

    if str(values.dtype) == "bfloat16":  # NumPy's bfloat16 is unknown to torch
        values = values.astype(np.float32)
    return torch.tensor(values, dtype=getattr(torch, dtype), device=device)


def _asnumpy(array: Any) -> np.ndarray:
    array = array.detach().cpu()
    return widen((array.double() if array.is_floating_point() else array).numpy())


BACKEND = Backend(
    name="torch",
    module="torch",
    distribution="torch",
    install='pip install "posenc-ref[torch]"',
    dtypes=("float64", "float32", "float16", "bfloat16"),
    devices=_devices,
    asarray=_asarray,
    asnumpy=_asnumpy,
)
