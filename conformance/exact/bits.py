"""Write arrays in JSON without rounding, in a form that any language can read.

A row of floats is one string: their big-endian bits, a fixed number of hex digits per number.
Integers are JSON numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc_ref._text import shown
from posenc_ref.limits import AXES

#: The dtypes of arrays in files.
_FLOATS = ("float64", "float32", "float16")
_INTEGERS = ("int64", "int32", "bool")
_HEX = re.compile("[0-9a-fA-F]*")
#: The longest line of a file, except for rows of numbers.
_WIDTH = 100


def to_hex(values: Any, dtype: str) -> list[str]:
    """Return ``values`` as ``dtype``: a string of hex digits for each row (the last axis)."""
    big = np.asarray(values, dtype=np.float64).astype(np.dtype(dtype).newbyteorder(">"))
    rows = big.reshape(-1, big.shape[-1]) if big.ndim else big.reshape(1, 1)
    return [row.tobytes().hex() for row in rows]


def from_hex(rows: list[str], shape: list[int], dtype: str) -> np.ndarray:
    """Return the array that :func:`to_hex` wrote, in native byte order."""
    count, width = sized(shape), 2 * np.dtype(dtype).itemsize
    texts = isinstance(rows, list) and all(isinstance(row, str) for row in rows)
    digits = "".join(rows) if texts else ""
    if len(digits) != count * width or not _HEX.fullmatch(digits):
        raise ValueError(
            f"an array of {dtype} with shape {shape} must have {count * width} hexadecimal digits "
            f"in strings, got {shown(rows)}"
        )
    bits = np.frombuffer(bytes.fromhex(digits), dtype=np.dtype(dtype).newbyteorder(">"))
    return bits.astype(dtype).reshape(shape)


def sized(shape: Any) -> int:
    """Return the number of elements of a shape; raise ValueError unless it is one."""
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"a shape must be a list of sizes, got {shown(shape)}")
    if len(shape) > AXES:
        raise ValueError(f"a shape must have at most {AXES} axes, got {shown(shape)}")
    return math.prod(shape)


def write_array(values: Any) -> Any:
    """Return the JSON form of an input: an array with dtype and shape, a number or a string."""
    if not isinstance(values, np.ndarray):
        return values
    head = {"dtype": str(values.dtype), "shape": list(values.shape)}
    if values.dtype.kind == "f":
        return {**head, "hex": to_hex(values, str(values.dtype))}
    return {**head, "values": values.ravel().tolist()}


def read_array(data: Any) -> Any:
    """Return the input that :func:`write_array` wrote."""
    if not isinstance(data, dict):
        return data
    dtype, allowed = data.get("dtype"), _FLOATS if "hex" in data else _INTEGERS
    if dtype not in allowed:
        raise ValueError(
            f"the dtype of an array must be one of {', '.join(allowed)}, got {shown(dtype)}"
        )
    if "hex" in data:
        shape: Any = data.get("shape")
        return from_hex(data["hex"], shape, str(dtype))
    return read_integers(data).astype(dtype)


def read_integers(data: Mapping[str, Any]) -> np.ndarray:
    """Return the int64 array with these ``values`` and this ``shape``."""
    values: Any = data.get("values")
    shape: Any = data.get("shape")
    count = sized(shape)
    whole = isinstance(values, list) and all(type(n) is int for n in values)
    if not whole or len(values) != count or any(n.bit_length() > 63 for n in values):
        raise ValueError(
            f"an array of integers with shape {shape} must have {count} integers of 64 bits, got "
            f"{shown(values)}"
        )
    return np.array(values, dtype=np.int64).reshape(shape)


def canonical(value: Any, level: int = 0) -> str:
    """Return JSON text that is the same on every machine, with one row of numbers per line."""
    line = json.dumps(value)
    flat = isinstance(value, list) and not any(isinstance(v, dict | list | str) for v in value)
    if not isinstance(value, dict | list) or flat or len(line) + level <= _WIDTH:
        return line
    pad = " " * (level + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {canonical(v, level + 1)}" for key, v in value.items()]
    else:
        items = [canonical(v, level + 1) for v in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{pad}" + f",\n{pad}".join(items) + f"\n{pad[1:]}{last}"


def digest(value: Any) -> str:
    """Return the SHA-256 of the value as JSON with sorted keys and no spaces."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
