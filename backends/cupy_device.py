"""What the CuPy path does with a device: compile, launch, allocate; all that needs a GPU to run."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from posenc_ref._namespace import Array, to_host

from .rotary_launch import SIZE, Launch

_ARGUMENTS = np.dtype((np.void, SIZE))
SOURCE = Path(__file__).parent / "rotary.cu"
#: What CuPy is asked to compile with; it adds -ftz=true and the architecture.
OPTIONS = ("-std=c++17", "-fmad=false")


def on_device_of(x: Array) -> Any:
    """The device of ``x`` as the current one."""
    import cupy

    here = cupy.cuda.runtime.getDevice() == x.device.id
    return contextlib.nullcontext() if here else x.device


def empty_like(x: Array) -> Array:
    """An array for the result of ``x``, on its device."""
    import cupy

    with on_device_of(x):
        return cupy.empty_like(x)


def not_captured(reason: str) -> None:
    """Refuse what a graph must not hold: its memory would belong to others when it is replayed."""
    import cupy

    if cupy.cuda.get_current_stream().is_capturing():
        raise ValueError(f"{reason}, while a graph is captured")


def _once(make: Callable[[Any], Any]) -> Any:
    """``functools.cache`` of which no two threads get different values.

    One that is thrown away is freed, while what was launched with it may still run.
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
    """One variant of the kernel, compiled when it is first launched, for each device."""
    import cupy

    code = SOURCE.read_text(encoding="utf-8")
    module = cupy.RawModule(code=code, options=OPTIONS, name_expressions=(name,))
    return module.get_function(name)


@_once
def flag_of(device: int) -> Any:
    """One int32 on ``device``, 1 after a position was out of its bounds."""
    import cupy

    with cupy.cuda.Device(device):
        flag = cupy.zeros(1, np.int32)
        cupy.cuda.get_current_stream().synchronize()  # other streams write to it
    return flag


def start(launch: Launch, block: bytes, x: Array) -> None:
    """Launch on the current stream of x's device; ``block`` is passed by value."""
    with on_device_of(x):
        kernel(launch.kernel)(launch.grid, launch.block, (np.frombuffer(block, _ARGUMENTS),))


def out_of_bounds(device: int = 0) -> bool:
    """Whether a position was beyond the domain, and its row NaN, since this was last asked.

    Waits for the current stream of ``device``.
    """
    flag = flag_of(device)
    found = bool(to_host(flag)[0])
    flag[...] = 0
    return found
