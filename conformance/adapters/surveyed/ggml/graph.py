"""One operator of ggml on a CPU, computed from arrays: through the bindings of ggml-python.

A wrong argument makes ggml abort the process, so types are checked before a call.  Shapes are the
caller's business.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

#: ggml's number of each type.
_TYPES = {"float32": 0, "float16": 1, "int32": 26}
#: Bytes for the graph and the headers of its tensors.
_HEADERS = 1 << 20
#: How many tensors of the size of all inputs together the results of a graph may need.
_COPIES = 16


def compute(build: Callable[..., Any], *inputs: Any) -> np.ndarray:
    """Return the result of a graph, with the axes of NumPy: ggml counts them from the last.

    ``build(context, *tensors)`` gets the inputs as tensors and returns the last node. All four axes
    of the result are returned.
    """
    import ggml

    arrays = [np.ascontiguousarray(one) for one in inputs]
    size = _HEADERS + _COPIES * sum(one.nbytes + 64 for one in arrays)
    context = ggml.ggml_init(ggml.ggml_init_params(mem_size=size, mem_buffer=None, no_alloc=False))
    if context is None:
        raise MemoryError(f"ggml has no memory for {size} bytes")
    try:
        result = build(context, *(_tensor(context, one) for one in arrays))
        graph = ggml.ggml_new_graph(context)
        ggml.ggml_build_forward_expand(graph, result)
        if status := ggml.ggml_graph_compute_with_ctx(context, graph, 1):
            raise RuntimeError(f"ggml_graph_compute_with_ctx returned {status}")
        return _array(result)
    finally:
        ggml.ggml_free(context)


def _tensor(context: Any, array: np.ndarray) -> Any:
    import ggml

    if array.dtype.name not in _TYPES:
        raise TypeError(f"ggml takes {', '.join(_TYPES)} here, got {array.dtype}")
    sizes = (ctypes.c_int64 * array.ndim)(*array.shape[::-1])
    tensor = ggml.ggml_new_tensor(context, _TYPES[array.dtype.name], array.ndim, sizes)
    ctypes.memmove(ggml.ggml_get_data(tensor), array.ctypes.data, array.nbytes)
    return tensor


def _array(tensor: Any) -> np.ndarray:
    import ggml

    names = {number: name for name, number in _TYPES.items()}
    shape = tuple(tensor.contents.ne[:4])[::-1]
    found = np.empty(shape, names[tensor.contents.type])
    ctypes.memmove(found.ctypes.data, ggml.ggml_get_data(tensor), found.nbytes)
    return found


def int32(positions: Any) -> np.ndarray:
    """Return positions as the int32 that ggml takes; raise ValueError for any that are none."""
    given = np.asarray(positions)
    if given.dtype.kind not in "iu":
        raise ValueError("positions must be integers: ggml takes int32")
    limits = np.iinfo(np.int32)
    if given.size and (given.min() < limits.min or given.max() > limits.max):
        raise ValueError("positions must fit int32, which ggml takes")
    return given.astype(np.int32)
