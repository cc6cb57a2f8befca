"""Array libraries: namespaces, devices, dtypes, and transfers between host and device.

Code for the differences between array libraries belongs here.  Its rules:

* NumPy is used directly; any other library goes through ``array_api_compat``, which is imported
  with the first array of another library.
* Never rely on dtype promotion: casts are explicit (libraries disagree about
  ``float64 * bfloat16``).
* Never call ``isdtype`` or ``finfo`` on a user's dtype (they refuse NumPy's bfloat16): compare
  dtypes by name (:func:`dtype_name`).
* Ask the library each time whether a device has float64 (:func:`has_float64`), and never cache
  the answer, because a flag of JAX changes it.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np

from ._text import one_line, shown
from .limits import SHOWN

Array: TypeAlias = Any  # an array of any Array API library
Namespace: TypeAlias = Any
DType: TypeAlias = Any

_LIBRARIES = ("torch", "cupy", "jax", "dask", "array_api_strict")
FLOATING = ("float64", "float32", "float16", "bfloat16")
INTEGER = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


#: Subclasses of NumPy's array that give ``*`` or missing elements another meaning, and how to
#: convert them.
_UNLIKE = {np.matrix: "np.asarray(it)", np.ma.MaskedArray: "its filled(value)"}


def is_array(value: object) -> bool:
    """Return whether ``value`` is an array of NumPy or of a library in ``array_api_compat``.

    A ``np.matrix`` and a masked array are none: the encodings would multiply the one as a matrix,
    and lose the mask of the other.
    """
    if isinstance(value, np.ndarray | np.generic):
        return not isinstance(value, tuple(_UNLIKE))
    if isinstance(value, type) or not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return False  # the class of an array has these attributes, too
    import array_api_compat

    return bool(array_api_compat.is_array_api_obj(value))


def class_of(value: object) -> str:
    """Return the class of a value that is no array, for a message; say how to convert it."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    how = next((how for kind, how in _UNLIKE.items() if isinstance(value, kind)), "")
    return f"{type(value).__name__}: pass {how}" if how else type(value).__name__


def namespace(array: Array) -> Namespace:
    """Return the Array API namespace of ``array``; ``numpy`` itself for NumPy arrays."""
    if isinstance(array, np.ndarray | np.generic):
        return np
    import array_api_compat

    return array_api_compat.array_namespace(array)


def as_namespace(xp: Namespace) -> Namespace:
    """Return the Array API namespace of a library module (``torch``, ``cupy``, ``numpy``)."""
    if xp is np or getattr(xp, "__name__", "") == "array_api_compat.numpy":
        return np
    probe = xp.empty(0) if hasattr(xp, "empty") else None
    if probe is None or not is_array(probe):
        raise TypeError(f"xp must be an array library such as numpy or torch, got {shown(xp)}")
    return namespace(probe)


def library(array: Array) -> str:
    """Return the name of the library of ``array``: ``numpy``, ``torch``, ``cupy``, ``jax``..."""
    if isinstance(array, np.ndarray | np.generic):
        return "numpy"
    # A subclass (torch.nn.Parameter, a model's own tensor type) belongs to its base's library.
    for cls in type(array).__mro__:
        name = cls.__module__.partition(".")[0]
        name = {"jaxlib": "jax"}.get(name, name)
        if name in _LIBRARIES:
            return name
    return type(array).__module__.partition(".")[0]


def device_of(array: Array) -> Any:
    """Return the device of ``array``, or None for host, traced and lazy arrays."""
    if isinstance(array, np.ndarray | np.generic):
        return None
    if library(array) != "torch" and is_lazy(array):
        return None
    import array_api_compat

    return array_api_compat.device(array)


def dtype_name(array_or_dtype: Any) -> str:
    """Return the name of a dtype of any library: ``float32``, ``bfloat16``, ``int64``..."""
    if isinstance(array_or_dtype, type):  # np.float32 itself, or Python's float
        return {"float": "float64", "int": "int64"}.get(
            array_or_dtype.__name__, array_or_dtype.__name__
        )
    dtype = getattr(array_or_dtype, "dtype", array_or_dtype)
    name = getattr(dtype, "name", None) or one_line(dtype)
    return str(name).rpartition(".")[2].strip("'>")


def dtype_like(xp: Namespace, name: str) -> DType:
    """Return the dtype called ``name`` in ``xp``; raise TypeError if there is none."""
    if name in FLOATING and (xp is np or xp.__name__.endswith((".cupy", "dask.array"))):
        # The namespaces of CuPy and Dask lack float16 or bfloat16, their arrays do not.
        if name == "bfloat16" and "ml_dtypes" not in sys.modules:
            raise TypeError("NumPy has bfloat16 only through the package ml_dtypes: import it")
        return np.dtype(name)
    try:
        return getattr(xp, name)
    except AttributeError:
        raise TypeError(f"{getattr(xp, '__name__', xp)} has no dtype {name}") from None


def is_lazy(array: Array) -> bool:
    """Return whether the values of ``array`` are not known yet (Dask, jax.jit, torch.compile)."""
    if isinstance(array, np.ndarray | np.generic):
        return False
    name = library(array)
    if name == "dask":
        return True
    if name == "jax":
        return isinstance(array, sys.modules["jax"].core.Tracer)
    if name == "torch":
        torch = sys.modules["torch"]
        return bool(array.is_meta or torch.compiler.is_compiling())
    return False


def wide_integer(xp: Namespace) -> DType:
    """Return the widest signed integer of ``xp``: int64, or int32 in JAX without 64-bit types."""
    if xp is not np and xp.__name__.endswith("jax.numpy") and not has_float64(xp):
        return xp.int32
    return xp.int64


def has_float64(xp: Namespace, device: Any = None) -> bool:
    """Return whether ``device`` (None: the default one) of the library ``xp`` has float64."""
    if xp is np:
        return True
    if xp.__name__.endswith("jax.numpy"):
        # JAX lists float64 even where it silently returns float32; only its flag is reliable.
        return bool(sys.modules["jax"].config.jax_enable_x64)
    if xp.__name__.endswith("torch") and getattr(device, "type", None) == "mps":
        return False
    info = xp.__array_namespace_info__()
    return "float64" in info.dtypes(device=device, kind="real floating")


def to_host(array: Array) -> np.ndarray:
    """Return a NumPy copy of a concrete array; no other function here copies to the host.

    PyTorch's bfloat16 becomes float32, because NumPy has no bfloat16.
    """
    if isinstance(array, np.ndarray | np.generic):
        return np.asarray(array)
    name = library(array)
    if name == "torch":
        array = array.detach().cpu()
        return np.asarray(array.float() if dtype_name(array) == "bfloat16" else array)
    if name == "cupy":
        return np.asarray(array.get())
    if name == "array_api_strict":
        array = array.to_device(sys.modules["array_api_strict"].Device("CPU_DEVICE"))
    return np.asarray(array)


def from_host(values: np.ndarray, xp: Namespace, device: Any = None) -> Array:
    """Return ``values`` as an array of ``xp`` on ``device``: a copy, except for NumPy itself."""
    if xp is np:
        return values
    if values.dtype.kind == "V" and xp.__name__.endswith(".torch"):  # a dtype of ml_dtypes
        if values.dtype.name != "bfloat16":
            raise TypeError(
                f"arrays of PyTorch cannot be made of NumPy's dtype {values.dtype}: pass float32"
            )
        return astype(from_host(values.astype(np.float32), xp, device), "bfloat16")
    if device is None:
        return xp.asarray(values.copy())
    # The function asarray of JAX with a device would compile for every shape.
    if xp.__name__ == "jax.numpy" and hasattr(device, "platform"):  # not the sharding of an array
        return sys.modules["jax"].device_put(values.copy(), device)
    return xp.asarray(values.copy(), device=device)


def extremes(array: Array) -> tuple[Any, Any]:
    """Return the smallest and the largest element of a concrete array that is not empty.

    NumPy reads arrays of JAX in the memory of the CPU: JAX would compile for every shape.
    """
    if library(array) == "jax" and getattr(device_of(array), "platform", "") == "cpu":
        array = to_host(array)
    xp = namespace(array)
    return xp.min(array), xp.max(array)


def astype(array: Array, dtype: DType) -> Array:
    """Return ``array`` cast to ``dtype``: a dtype of its library, or a dtype's name."""
    xp = namespace(array)
    dtype = dtype_like(xp, dtype) if isinstance(dtype, str) else dtype
    # The function np.astype of NumPy 2.0 refuses scalars.
    return array.astype(dtype) if xp is np else xp.astype(array, dtype)


def cumulative_sum(array: Array, axis: int) -> Array:
    """Return the sums of ``array`` along ``axis`` up to each element."""
    xp = namespace(array)
    # The function np.cumulative_sum is missing in NumPy 2.0.
    return np.cumsum(array, axis=axis) if xp is np else xp.cumulative_sum(array, axis=axis)


def working_dtype(array: Array) -> DType:
    """Return float64 where the device of ``array`` has it, else float32."""
    xp = namespace(array)
    return xp.float64 if has_float64(xp, device_of(array)) else xp.float32


def widen(x: Array) -> Array:
    """Return ``x`` in float64, or in float32 where its device has no float64."""
    return astype(x, working_dtype(x))


def send(values: Array, xp: Namespace, device: Any = None) -> Array:
    """Copy host ``values`` to ``device`` of ``xp`` (as float32 where it has no float64).

    Return ``values`` unchanged if they are not a NumPy array.
    """
    if not isinstance(values, np.ndarray) or xp is np:
        return values
    if dtype_name(values) == "float64" and not has_float64(xp, device):
        values = values.astype(np.float32)
    return from_host(values, xp, device)


def finish(values: Array, dtype: DType) -> Array:
    """Return ``values`` cast to the floating ``dtype``, or unchanged for None."""
    if dtype is None:
        return values
    name = dtype_name(dtype)
    if name not in FLOATING:
        what = one_line(name, SHOWN)
        raise TypeError(f"dtype must be one of {', '.join(FLOATING)}, got {what}")
    return astype(values, name)
