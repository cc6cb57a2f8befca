"""A stand-in for CuPy on the CPU: NumPy memory, and ``rotary.cu`` as g++ compiles it.

It has only what the fused path uses.  Its arrays are not NumPy arrays, so code that needs one fails
as with CuPy; addresses, strides and the bytes of a launch are real.
"""

import ctypes
import struct
import subprocess
import sys
import types
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[2] / "backends" / "kernels" / "rotary.cu"
FLAGS = ("-std=c++17", "-ffp-contract=off", "-Wno-unknown-pragmas", "-shared", "-fPIC")


def build(folder, *, source=None, flags=("-O1",)):
    """Compile ``source``, by default that of the repository, in ``folder``; return the library."""
    target = Path(folder) / "rotary.so"
    if source is not None:
        (Path(folder) / "rotary.cu").write_text(source, encoding="utf-8")
    where = SOURCE.parent if source is None else folder
    command = ["g++", *FLAGS, *flags, "-I", where, "-I", HERE, "-o", target]
    subprocess.run([*map(str, command), str(HERE / "rotary_host.cpp")], check=True)
    return target


class Memory:
    def __init__(self, ptr):
        self.ptr = ptr


class Device:
    """The only device, number 0."""

    def __init__(self, number=0):
        assert number == 0
        self.id = number

    def __eq__(self, other):
        return isinstance(other, Device)

    __hash__ = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class Stream:
    """A stream that executes everything at once."""

    ptr = 7

    def __init__(self):
        self.capturing, self.waits = False, 0

    def is_capturing(self):
        return self.capturing

    def synchronize(self):
        assert not self.capturing
        self.waits += 1


class Array:
    """The stand-in for ``cupy.ndarray``; ``host`` is its memory."""

    def __init__(self, host):
        self.host = host

    shape = property(lambda self: self.host.shape)
    strides = property(lambda self: self.host.strides)
    dtype = property(lambda self: self.host.dtype)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    itemsize = property(lambda self: self.host.itemsize)
    device = property(lambda self: Device())
    data = property(lambda self: Memory(self.host.ctypes.data))

    def get(self):
        return self.host.copy()

    def astype(self, dtype, copy=True):
        return Array(self.host.astype(dtype, copy=copy))

    def reshape(self, *shape):
        return Array(self.host.reshape(*shape))

    def __getitem__(self, index):
        return Array(self.host[index])

    def __setitem__(self, index, value):
        self.host[index] = getattr(value, "host", value)

    def __array_namespace__(self, api_version=None):
        return Namespace


Array.__module__ = "cupy"  # by which the specification recognises the library


class Namespace:
    """The functions of ``array_api_compat.cupy`` that read positions and move axes."""

    __name__ = "stand_in.cupy"
    float64 = np.float64

    moveaxis = staticmethod(lambda x, a, b: Array(np.moveaxis(x.host, a, b)))
    reshape = staticmethod(lambda x, shape: Array(x.host.reshape(shape)))
    astype = staticmethod(lambda x, dtype: x.astype(dtype))
    min = staticmethod(lambda x: x.host.min())
    max = staticmethod(lambda x: x.host.max())

    @staticmethod
    def __array_namespace_info__():
        return types.SimpleNamespace(dtypes=lambda **_: {"float64": np.float64})


class Library:
    """The stand-in for the module ``cupy``, with the kernel in the library at ``path``."""

    def __init__(self, path):
        self.run = ctypes.CDLL(str(path)).run
        self.launched = []
        self.stream = stream = Stream()
        runtime = types.SimpleNamespace(getDevice=lambda: 0)
        self.cuda = types.SimpleNamespace(
            runtime=runtime, Device=Device, get_current_stream=lambda: stream
        )

    class ndarray:
        """Not the class of the arrays, so that array_api_compat does not take them for CuPy's."""

    class generic:
        """Likewise."""

    asarray = staticmethod(lambda values: Array(np.array(values)))
    zeros = staticmethod(lambda n, dtype: Array(np.zeros(n, dtype)))
    empty_like = staticmethod(lambda x: Array(poisoned(x.host)))

    def RawModule(self, *, code, options, name_expressions):
        assert code == SOURCE.read_text(encoding="utf-8")
        assert "-fmad=false" in options

        def function(name):
            assert (name,) == name_expressions
            return lambda grid, block, values: self._launch(name, grid, block, *values)

        return types.SimpleNamespace(get_function=function)

    def _launch(self, name, grid, block, values):
        """Launch with the argument by value, as CuPy passes arrays of one element."""
        assert not self.stream.capturing or self.launched
        assert values.shape == (1,)
        held = bytearray(values.tobytes())
        given = (ctypes.c_char * len(held)).from_buffer(held)
        if ", 1, " not in name:  # a GPU stops at misaligned packs
            assert not any(address % 16 for address in struct.unpack_from("<4Q", held))
        sizes = [(ctypes.c_uint * 2)(*pair) for pair in (grid, block)]
        assert grid[0] >= 1 <= grid[1] <= 65535
        assert block[0] * block[1] <= 1024
        assert self.run(name.encode(), *sizes, given) == 0, name
        self.launched.append(name)


def poisoned(like):
    """Return an array like ``like``, full of NaN to reveal elements that are not written."""
    made = np.empty_like(like)
    made[...] = np.nan
    return made


def forget():
    """Drop compiled kernels, which belong to the ``cupy`` that compiled them."""
    from posenc_ref.backends import cupy_device

    for kept in (cupy_device.kernel, cupy_device.flag_of):
        kept.forget()


def install(path):
    """Install the stand-in as the module ``cupy``; the caller restores the old one."""
    forget()
    sys.modules["cupy"] = library = Library(path)
    return library
