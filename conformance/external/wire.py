"""Encode and decode the lines of the protocol for programs: see docs/any-language.md.

An array is ``{"dtype": ..., "shape": [...], "hex": ...}``: the bits of every element, row-major,
each as a hexadecimal number of fixed width, most significant digit first (1.0 in float32 is
``3f800000``).  ``Encoding.to_dict`` writes arrays in the same form.  The form is exact, also for
NaN and -0, does not depend on the machine, and needs no library to parse.
"""

from __future__ import annotations

import json
from binascii import hexlify
from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc_ref._documents import parse_json
from posenc_ref._namespace import dtype_name
from posenc_ref._text import one_line, shown
from posenc_ref.limits import AXES

#: The version of the protocol, raised when an older program could misread a line.
PROTOCOL = 1
#: The dtypes of arrays.
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "bool")
_KEYS = {"dtype", "shape", "hex"}
_ARRAY = '{"dtype": "float32", "shape": [2, 3], "hex": "..."}'


class WireError(ValueError):
    """A line breaks the protocol; the message describes the expected line."""


def request(number: int, call: str, arguments: tuple[Any, ...]) -> bytes:
    """Return a call as one line of compact ASCII JSON, with keys in a fixed order."""
    head = line({"id": number, "call": call})[:-2]
    return b'%b,"arguments":%b}\n' % (head, _encode(arguments))


def line(body: Mapping[str, Any]) -> bytes:
    """Return a message as one line of JSON; without spaces, programs can search it as text."""
    return _compact(body) + b"\n"


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def read_answer(text: bytes, number: int) -> dict[str, Any]:
    """Return the answer to request ``number`` as a dictionary."""
    try:
        body = parse_json(text, "it")
    except ValueError as error:
        raise WireError(f"is not JSON: {_shown(text)}") from error
    if not isinstance(body, dict):
        raise WireError(f"is not a JSON object: {_shown(text)}")
    if body.get("id") != number or isinstance(body.get("id"), bool):
        raise WireError(f"has the id {shown(body.get('id'))}, not that of the request, {number}")
    return body


def outcome(body: Mapping[str, Any]) -> tuple[bool, Any]:
    """Return (True, the result) or (False, the reason of the refusal)."""
    keys = set(body) - {"id"}
    if keys not in ({"result"}, {"refused"}):
        found = one_line(", ".join(sorted(keys))) or "nothing"
        raise WireError(f'must have "id" and one of "result" and "refused", it has {found}')
    if "refused" in body:
        if not isinstance(body["refused"], str) or not body["refused"].strip():
            raise WireError(f'"refused" must be the reason, in words, got {shown(body["refused"])}')
        return False, one_line(body["refused"])
    return True, decode(body["result"])


def _encode(value: Any) -> bytes:
    """Return a value as JSON; the digits of arrays bypass ``json``, which is slow for them."""
    if isinstance(value, np.ndarray):
        name = dtype_name(value)
        if name not in DTYPES:
            raise TypeError(f"an array that is sent must be {', '.join(DTYPES)}, got {name}")
        bits = np.ascontiguousarray(value).view(f"u{value.itemsize}")
        digits = hexlify(bits.astype(f">u{value.itemsize}").tobytes())
        head = _compact({"dtype": name, "shape": list(value.shape)})[:-1]
        return b'%b,"hex":"%b"}' % (head, digits)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return b"[%b]" % b",".join(map(_encode, value))
    return _compact(value)


def decode(value: Any) -> Any:
    """Return a decoded result: an array, a number, or a tuple of these."""
    if isinstance(value, dict):
        return _array(value)
    if isinstance(value, list):
        if value and all(isinstance(v, int | float) for v in value):
            raise WireError(f"holds plain numbers; an array is {_ARRAY}")
        return tuple(decode(v) for v in value)
    if isinstance(value, bool | int | float):
        return value
    raise WireError(f"holds {json.dumps(value)[:60]}; an array is {_ARRAY}")


def _array(value: dict[str, Any]) -> np.ndarray:
    if set(value) != _KEYS:
        raise WireError(
            f"holds an object with {one_line(', '.join(sorted(value)))}; an array is {_ARRAY}"
        )
    name, shape, digits = value["dtype"], value["shape"], value["hex"]
    if name not in DTYPES:
        raise WireError(f"has an array with dtype {shown(name)}; allowed are {', '.join(DTYPES)}")
    sizes = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not sizes or len(shape) > AXES:
        raise WireError(f"has an array with shape {json.dumps(shape)[:60]}, not a list of sizes")
    if name == "bfloat16":
        try:
            import ml_dtypes  # noqa: F401  # registers the dtype
        except ImportError as error:
            text = "has an array of bfloat16, which needs `pip install ml_dtypes` here"
            raise WireError(text) from error
    dtype: np.dtype[Any] = np.dtype(name)
    count = int(np.prod(shape, dtype=object))
    width = 2 * dtype.itemsize
    if not isinstance(digits, str) or len(digits) != count * width:
        found = f"{len(digits)} digits" if isinstance(digits, str) else type(digits).__name__
        raise WireError(
            f'has an array of {count} {name} (shape {shape}) whose "hex" is {found}; it must have '
            f"{width} digits for each element, {count * width} in all"
        )
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        raw = b""
    if 2 * len(raw) != len(digits):  # fromhex ignores white space
        raise WireError(f'has an array whose "hex" must be hexadecimal digits: {digits[:40]!r}')
    bits = np.frombuffer(raw, f">u{dtype.itemsize}").astype(f"u{dtype.itemsize}")
    if name == "bool" and (bits > 1).any():
        raise WireError('has an array of bool whose elements must be "00" or "01"')
    return bits.view(dtype).reshape(shape)


def _shown(text: bytes) -> str:
    shown = text.decode("utf-8", "replace").rstrip("\r\n")
    return repr(shown if len(shown) <= 80 else shown[:77] + "...")
