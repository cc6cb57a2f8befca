"""Compile, launch and allocate with CuPy: the part of the CuPy path that needs a GPU."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from posenc_ref._namespace import Array, to_host

from .kernels.guard import Guard
from .kernels.rotary_launch import SIZE, Launch

_ARGUMENTS = np.dtype((np.void, SIZE))
SOURCE = Path(__file__).parent / "kernels" / "rotary.cu"
#: Compiler options; CuPy adds -ftz=true and the architecture.
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
    """Raise ValueError while a CUDA graph is captured.

    Each replay of the graph would use memory that is freed after the capture.
    """
    import cupy

    if cupy.cuda.get_current_stream().is_capturing():
        raise ValueError(f"while a graph is captured, {reason}")


def _once(make: Callable[[Any], Any]) -> Any:
    """Return ``make`` with a cache, shared by all threads.

    Without the lock, two threads could each make a value for the same key.  The cache would then
    keep one of the two and free the other, perhaps while a launch uses it.
    """
    kept, guard = functools.cache(make), Guard()

    @functools.wraps(make)
    def found(key: Any) -> Any:
        with guard.lock:
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
    """Return the flag of ``device``, one int32: 1 after a position was out of bounds."""
    import cupy

    with cupy.cuda.Device(device):
        flag = cupy.zeros(1, np.int32)
        cupy.cuda.get_current_stream().synchronize()  # other streams will write to it
    return flag


def start(launch: Launch, argument: bytes, x: Array) -> None:
    """Launch the kernel, with the bytes of its argument, on the current stream of x's device."""
    with on_device_of(x):
        given = np.frombuffer(argument, _ARGUMENTS)
        kernel(launch.kernel)(launch.grid, launch.block, (given,))


def out_of_bounds(device: int = 0) -> bool:
    """Return whether a position was out of bounds since the last call of this function.

    The result has NaN in the row of such a position.  This function waits for the current stream of
    ``device``.
    """
    flag = flag_of(device)
    found = bool(to_host(flag)[0])
    flag[...] = 0
    return found
