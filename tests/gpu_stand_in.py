"""The rest of a GPU that ``benchmarks/gpu_rope.py`` asks for, in place of one: for dry runs."""

import contextlib
import types

import ml_dtypes
import numpy as np
import torch

from tests.backends.kernels import rotary_model


class Array(rotary_model.Array):
    """An array with the operators that the script uses."""

    def _with(self, other, what):
        return Array(np.asarray(getattr(self.host, what)(getattr(other, "host", other))))

    def __eq__(self, other):
        return self._with(other, "__eq__")

    __hash__ = None

    def __mul__(self, other):
        return self._with(other, "__mul__")

    __rmul__ = __mul__

    def __add__(self, other):
        return self._with(other, "__add__")

    def __imul__(self, other):
        self.host *= other
        return self

    def __neg__(self):
        return Array(-self.host)

    def __getitem__(self, index):
        return Array(self.host[index])

    def astype(self, dtype, copy=True):
        return Array(self.host.astype(dtype, copy=copy))

    def all(self):
        return self.host.all()


Array.__module__ = "cupy"


class Device(rotary_model.Device):
    def synchronize(self):
        pass


class Event:
    def __init__(self):
        self.recorded = False

    def record(self):
        self.recorded = True

    def synchronize(self):
        assert self.recorded


class Graph:
    def __init__(self, calls):
        self.calls = calls

    def launch(self, stream=None):
        for call in self.calls:
            call()


class Stream(rotary_model.Stream):
    """Captured work is not done, but kept."""

    def __init__(self, library):
        super().__init__()
        self.library, self.ptr, self.kept = library, id(self), []

    def __enter__(self):
        self.before, self.library.stream = self.library.stream, self
        return self

    def __exit__(self, *error):
        self.library.stream = self.before

    def begin_capture(self):
        self.capturing = True

    def end_capture(self):
        self.capturing = False
        return Graph(self.kept)


class Library(rotary_model.Library):
    def __init__(self, path):
        super().__init__(path)
        self.cuda.get_current_stream = lambda: self.stream
        self.cuda.Device, self.cuda.Event = Device, Event
        self.cuda.Stream = lambda non_blocking: Stream(self)
        self.cuda.get_elapsed_time = lambda first, last: 0.5
        self.cuda.nvrtc = types.SimpleNamespace(getVersion=lambda: (13, 0))
        runtime = self.cuda.runtime
        runtime.getDeviceProperties = lambda number: {"name": b"a stand-in"}
        runtime.driverGetVersion = runtime.runtimeGetVersion = lambda: 13000
        runtime.memGetInfo = lambda: (2**40, 2**40)

    def _launch(self, *given):
        if not self.stream.capturing:
            return super()._launch(*given)
        return self.stream.kept.append(lambda: rotary_model.Library._launch(self, *given))

    asarray = staticmethod(lambda values: Array(np.array(values)))
    asnumpy = staticmethod(lambda x: x.get())
    empty = staticmethod(lambda shape, dtype: Array(np.empty(shape, dtype)))
    empty_like = staticmethod(lambda x: Array(rotary_model.poisoned(x.host)))

    @staticmethod
    def concatenate(parts, axis):
        return Array(np.concatenate([part.host for part in parts], axis=axis))

    @staticmethod
    def from_dlpack(tensor):
        return Array(tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16))


class Quiet:
    """torch.cuda's streams, whose work is done at once, and graphs, which do nothing again."""

    def wait_stream(self, other):
        pass

    def replay(self):
        pass


#: ``torch.cuda`` on a CPU.
CUDA_OF_TORCH = {
    "Stream": Quiet, "current_stream": Quiet, "CUDAGraph": Quiet,
    "stream": contextlib.nullcontext, "graph": contextlib.nullcontext,
    "synchronize": lambda: None,
}  # fmt: skip
