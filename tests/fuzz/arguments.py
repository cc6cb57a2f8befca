"""Arguments of constructors, methods and functions as JSON, so that JSON mutations change them.

``{"array": {"shape": [2, 3], "dtype": "float32", "fill": "eighths", "as": "numpy"}}`` is an array,
``{"class": "YaRN", "arguments": {...}}`` an encoding or schedule, ``{"range": [0, 8, 1]}`` a
range, ``{"tuple": [...]}`` a tuple and ``{"dtype": "int8"}`` a dtype; anything else is itself.  A
form that a mutation broke is passed as the dictionary that it is.
"""

import dataclasses
import inspect
import math
import sys

import numpy as np

from posenc_ref._namespace import is_array
from posenc_ref._registry import CLASSES, classes

#: The most elements of an array that has memory; larger ones repeat one element.
MOST = 2**14
DTYPES = (
    "float64", "float32", "float16", "int64", "int32", "int8", "uint64", "uint8", "bool",
    "complex64", "longdouble", "object", "<U3", "datetime64[s]", ">f4", ">i8", "bfloat16",
)  # fmt: skip
FILLS = ("eighths", "range", "zeros", "ones", "nan", "inf", "huge", "tiny", "negative", "sparse")
KINDS = (
    "numpy", "list", "tuple", "matrix", "masked", "fortran", "reversed", "strided", "readonly",
    "broadcast", "strict", "torch", "memoryview", "subclass",
)  # fmt: skip
CLASSES_BY_NAME = {name: cls for kind in CLASSES for name, cls in classes(kind).items()}


class Plain(np.ndarray):
    """A subclass of NumPy's array without behaviour of its own."""


def filled(shape, dtype, fill):
    """Return an array of deterministic numbers."""
    count = math.prod(shape)
    eighths = ((np.arange(count) * 7919 + 13) % 127 - 63.5) / 8
    made = {
        "eighths": eighths,
        "range": np.arange(count, dtype=np.int64),
        "zeros": np.zeros(count),
        "ones": np.ones(count, np.int64),
        "nan": np.where(np.arange(count) == count - 1, np.nan, eighths),
        "inf": np.where(np.arange(count) == 0, -np.inf, eighths),
        "huge": eighths * 1e300,
        "tiny": eighths * 1e-310,
        "negative": -np.arange(count, dtype=np.int64),
        "sparse": (np.arange(count) % 3 == 0).astype(np.int64),
    }[fill]
    with np.errstate(all="ignore"):
        return made.astype(dtype).reshape(shape)


def as_dtype(name):
    """Return a dtype by name, or raise KeyError for a name that is not of the list."""
    if name not in DTYPES:
        raise KeyError(name)
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _integers(values):
    return isinstance(values, list) and all(
        isinstance(n, int) and not isinstance(n, bool) for n in values
    )


def array(spec):
    """Return the array that a form describes; raise KeyError for a form that describes none."""
    shape, kind = spec["shape"], spec.get("as", "numpy")
    if not _integers(shape) or len(shape) > 8 or min(shape, default=0) < 0 or kind not in KINDS:
        raise KeyError(kind)
    fill = spec.get("fill", "eighths")
    if fill not in FILLS:
        raise KeyError(fill)
    dtype, count = as_dtype(spec.get("dtype", "float32")), math.prod(shape)
    if kind == "broadcast" or count > MOST:
        if count >= 2**58:
            raise KeyError(count)
        return np.broadcast_to(filled((), dtype, fill), shape)
    values = filled(shape, dtype, fill)
    if kind == "torch" and "torch" in sys.modules and values.dtype.kind in "fiub":
        torch = sys.modules["torch"]
        if values.dtype.name == "bfloat16":
            return torch.from_numpy(values.astype(np.float32)).to(torch.bfloat16)
        native = values.dtype.newbyteorder("=").newbyteorder("native")
        return torch.from_numpy(np.array(values.astype(native)))
    if kind == "strict" and values.dtype.name in ("float64", "float32", "int64", "int32", "bool"):
        import array_api_strict

        return array_api_strict.asarray(values)
    if kind in ("reversed", "strided") and values.ndim:
        step = -1 if kind == "reversed" else 2
        spread = np.repeat(values, 2, axis=0) if kind == "strided" else values[::-1].copy()
        return spread[::step]
    if kind == "readonly":
        values.setflags(write=False)
    if kind == "memoryview" and values.dtype.kind in "fiu" and values.dtype.name != "bfloat16":
        return memoryview(values)
    changes = {
        "list": np.ndarray.tolist, "tuple": lambda a: tuple(a.tolist()) if a.ndim else (a.item(),),
        "matrix": lambda a: a.view(np.matrix) if a.ndim == 2 else a,
        "masked": lambda a: np.ma.MaskedArray(a, np.zeros(a.shape, bool)),
        "fortran": np.asfortranarray, "subclass": lambda a: a.view(Plain),
    }  # fmt: skip
    return changes.get(kind, lambda a: a)(values)


def form(value):
    """Return the form of an argument."""
    if isinstance(value, tuple(CLASSES_BY_NAME.values())):
        fields = {f.name: form(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"class": type(value).__name__, "arguments": fields}
    if is_array(value):
        value = np.asarray(value)
        fill = "range" if value.dtype.kind in "iu" else "eighths"
        return {
            "array": {"shape": list(value.shape), "dtype": value.dtype.name, "fill": fill,
                      "as": "numpy"}
        }  # fmt: skip
    if isinstance(value, tuple | list):
        return {"tuple": [form(v) for v in value]}
    if hasattr(value, "items"):
        return {key: form(v) for key, v in value.items()}
    return value


def argument(value):
    """Return the argument that a form describes."""
    if isinstance(value, list):
        return [argument(v) if isinstance(v, dict) else v for v in value]
    if not isinstance(value, dict):
        return value
    try:
        if "array" in value:
            return array(value["array"])
        if "range" in value:
            return range(*value["range"])
        if "tuple" in value:
            return tuple(argument(v) for v in value["tuple"])
        if "dtype" in value:
            return as_dtype(value["dtype"])
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        return value
    if "class" in value and isinstance(value.get("arguments"), dict):
        return made(value)
    return {key: argument(v) for key, v in value.items()}


def made(value):
    """Return the instance that a form describes; its constructor may raise."""
    name = value["class"]
    cls = CLASSES_BY_NAME.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ValueError("no class has this name")
    return called(cls, {k: argument(v) for k, v in value["arguments"].items()})


def known(function, arguments):
    """Return the arguments that a function has; raise ValueError if it requires others."""
    parameters = inspect.signature(function).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        arguments = {k: v for k, v in arguments.items() if k in parameters}
    if not isinstance(function, type):  # a class names a missing argument itself
        try:
            inspect.signature(function).bind(**arguments)
        except TypeError:
            raise ValueError("a mutation removed a required argument") from None
    return arguments


def called(function, arguments):
    """Call a function with the arguments that it has, and leave the others out."""
    return function(**known(function, arguments))
