"""The JSON form of encodings, scalings, query scales and model encodings.

Arrays are stored without loss, as dtype, shape and hexadecimal bits.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._namespace import FLOATING, INTEGER, dtype_like, dtype_name, is_array, to_host
from ._registry import CLASSES, classes, find
from ._required import allowed_values, lacking
from ._text import one_line, shown
from .limits import AXES, HEAD_DIM, HEADS, TEXT, WIDTH

#: The dtypes of arrays; NumPy would find others by name.
_DTYPES = (*FLOATING, *INTEGER, "bool")
#: The largest sizes; the constructor of a rotation computes all its frequencies.
_SIZES = {"head_dim": HEAD_DIM, "rotary_dim": HEAD_DIM, "dim": WIDTH, "num_heads": HEADS}
#: The annotations of fields that hold one array, and several.
_ARRAY, _ARRAYS = ("Array", "np.ndarray"), ("tuple[Array, ...]", "Sequence[Array]")
_HEX = re.compile("[0-9a-fA-F]*")


def from_dict(data: Mapping[str, Any]) -> Any:
    """Return the encoding, scaling, query scale or model encoding that ``to_dict`` wrote.

    Parameters
    ----------
    data : mapping
        Parsed JSON: ``{"encoding": "RoPE", ...}``, ``{"scaling": ...}``,
        ``{"query_scale": ...}`` or ``{"model": ...}``, with the fields of the class.  A missing
        field has its default.

    Returns
    -------
    Encoding, Scaling, QueryScale or ModelEncoding

    Raises
    ------
    TypeError, ValueError
        ``data`` is not a mapping, its class or a field is unknown, or a required field is missing.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"data must be a mapping, such as parsed JSON, got {shown(data)}")
    from ._documents import check_document  # a constructor needs no documents

    check_document(data, "data", arrays=True)
    kinds = [kind for kind in CLASSES if kind in data and isinstance(data[kind], str)]
    # A nested scaling has the key "scaling" with a mapping, so only a string names a class.
    if not kinds:
        raise ValueError(
            'data must name its class: {"encoding": "RoPE", ...} or {"scaling": "YaRN", ...}, '
            f"got keys {shown(sorted(map(str, data)))}{_of_a_configuration(data)}"
        )
    name = data[kinds[0]]
    cls = find(kinds[0], name)
    if cls is None:
        known = ", ".join(sorted(classes(kinds[0])))
        raise ValueError(f"{kinds[0]} must be one of {known}, got {shown(name)}")
    allowed = [f.name for f in dataclasses.fields(cls)]
    body = {key: value for key, value in data.items() if key != kinds[0]}
    unknown = sorted(set(map(str, body)) - set(allowed))
    if unknown:
        raise ValueError(
            f"{name} has no field {shown(unknown[0])}; its fields are {', '.join(allowed)}"
        )
    required = lacking(cls, [*body])
    if required:
        what = allowed_values(cls, required[0], body)
        raise ValueError(f"{name} needs the field {required[0]!r}{what}")
    for field, most in _SIZES.items():
        if isinstance(body.get(field), int) and body[field] > most:
            raise ValueError(f"{name}: {field} must be at most {most}, got {body[field]}")
    try:
        return cls.read(body)
    except (TypeError, ValueError) as error:
        if len(str(error)) <= TEXT:
            raise
        raise type(error)(one_line(error)) from None


def _of_a_configuration(data: Mapping[str, Any]) -> str:
    """Return how to write a scaling that a configuration of a model names, or ""."""
    written = data.get("rope_type", data.get("type"))
    if not isinstance(written, str):
        return ""
    scalings = classes("scaling")
    spellings = (written.lower(), f"{written.lower()}scaling")  # "su" is not SuNTK
    name = next((name for name in scalings if name.lower() in spellings), None)
    if name is None:
        return f"; the scalings are {', '.join(sorted(scalings))}"
    fields = ", ".join(f.name for f in dataclasses.fields(scalings[name]))
    return f'; {written!r} is {{"scaling": "{name}", ...}}, with the fields {fields}'


def encode(value: Any) -> Any:
    """Return the value of a field as JSON-ready data."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_array(value):
        host, name = to_host(value), dtype_name(value)
        if name == "bfloat16":  # the upper half of a float32
            bits = (host.astype(np.float32).view(np.uint32) >> 16).astype(">u2")
        else:
            bits = host.astype(host.dtype.newbyteorder(">"))
        return {"dtype": name, "shape": list(host.shape), "hex": bits.tobytes().hex()}
    if isinstance(value, tuple):
        return [encode(v) for v in value]
    return value


def decode(value: Any, annotation: str = "") -> Any:
    """Return the value that :func:`encode` wrote, or that a person wrote with lists of numbers.

    ``annotation`` is the type of the field: a list of numbers is an array where the field is one,
    and a tuple elsewhere.
    """
    if isinstance(value, Mapping):
        return _array(value) if set(value) == {"dtype", "shape", "hex"} else from_dict(value)
    if not isinstance(value, list):
        return value
    kind = annotation.removesuffix(" | None")
    if kind in _ARRAYS:
        return tuple(decode(v, "Array") for v in value)
    if kind in _ARRAY or (value and all(isinstance(v, list) for v in value)):
        try:
            return np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            what = "list of rows of numbers, all of one length"
            if not any(isinstance(v, list) for v in value):
                what = "list of numbers"
            raise ValueError(f"a table must be a {what}, got {shown(value)}") from None
    return tuple(decode(v) for v in value)


def _array(value: Mapping[str, Any]) -> np.ndarray:
    """Return the array with this dtype, shape and hexadecimal digits."""
    name, shape, digits = value["dtype"], value["shape"], value["hex"]
    if name not in _DTYPES:
        raise ValueError(
            f"the dtype of an array must be one of {', '.join(_DTYPES)}, got {shown(name)}"
        )
    sizes = isinstance(shape, list | tuple) and all(type(n) is int and n >= 0 for n in shape)
    if not sizes or len(shape) > AXES:
        raise ValueError(
            f"the shape of an array must be a list of at most {AXES} sizes, got {shown(shape)}"
        )
    dtype = np.dtype(dtype_like(np, "bool" if name == "bool" else name))
    width = 2 * dtype.itemsize * math.prod(shape)
    if not isinstance(digits, str) or len(digits) != width or not _HEX.fullmatch(digits):
        raise ValueError(
            f"the hex of an array of {name} with shape {shape} must be {width} hexadecimal digits, "
            f"got {shown(digits)}"
        )
    bits = np.frombuffer(bytes.fromhex(digits), dtype=f">u{dtype.itemsize}")
    if name == "bool" and (bits > 1).any():
        raise ValueError("the hex of an array of bool must have 00 or 01 for each element")
    return bits.astype(f"u{dtype.itemsize}").view(dtype).reshape(shape)
