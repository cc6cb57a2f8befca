"""Compile, launch and allocate with CuPy: everything of the CuPy path that needs a GPU."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from posenc_ref._namespace import Array, to_host

from .kernels.rotary_launch import SIZE, Launch

_ARGUMENTS = np.dtype((np.void, SIZE))
SOURCE = Path(__file__).parent / "kernels" / "rotary.cu"
#: Compiler options, to which CuPy adds -ftz=true and the architecture.
OPTIONS = ("-std=c++17", "-fmad=false")


def on_device_of(x: Array) -> Any:
    """Return a context in which the device of ``x`` is the current one."""
    import cupy

    here = cupy.cuda.runtime.getDevice() == x.device.id
    return contextlib.nullcontext() if here else x.device


def empty_like(x: Array) -> Array:
    """Return an uninitialised array like ``x``, on its device."""
    import cupy

    with on_device_of(x):
        return cupy.empty_like(x)


def not_captured(reason: str) -> None:
    """Refuse to allocate in a captured graph: a replay would use memory that others own by then."""
    import cupy

    if cupy.cuda.get_current_stream().is_capturing():
        raise ValueError(f"{reason}, while a graph is captured")


def _once(make: Callable[[Any], Any]) -> Any:
    """Return ``make`` with a cache that gives all threads the same value.

    A second value would be dropped and freed while a launch may still use it.
    """
    kept, lock = functools.cache(make), threading.Lock()

    @functools.wraps(make)
    def found(key: Any) -> Any:
        with lock:
            return kept(key)

    found.forget = kept.cache_clear  # type: ignore[attr-defined]
    return found


@_once
def kernel(name: str) -> Any:
    """Return one variant of the kernel, which CuPy compiles at the first launch on each device."""
    import cupy

    code = SOURCE.read_text(encoding="utf-8")
    module = cupy.RawModule(code=code, options=OPTIONS, name_expressions=(name,))
    return module.get_function(name)


@_once
def flag_of(device: int) -> Any:
    """Return an array of one int32 on ``device``, which is 1 after a position was out of bounds."""
    import cupy

    with cupy.cuda.Device(device):
        flag = cupy.zeros(1, np.int32)
        cupy.cuda.get_current_stream().synchronize()  # other streams will write to it
    return flag


def start(launch: Launch, block: bytes, x: Array) -> None:
    """Launch on the current stream of x's device, with the bytes of ``block`` as the argument."""
    with on_device_of(x):
        kernel(launch.kernel)(launch.grid, launch.block, (np.frombuffer(block, _ARGUMENTS),))


def out_of_bounds(device: int = 0) -> bool:
    """Return whether a position was out of bounds, and its row NaN, since the last call.

    Waits for the current stream of ``device``.
    """
    flag = flag_of(device)
    found = bool(to_host(flag)[0])
    flag[...] = 0
    return found
