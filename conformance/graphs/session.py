"""Run the parts of an ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from posenc_ref.conformance.adapters.onnx import open_session

#: The element types of x that are tried, and the names of their dtypes.
FLOATS = {1: "float32", 10: "float16", 16: "bfloat16", 11: "float64"}

#: The most elements of a cache of keys in one call.
MOST_CACHED = 2**26


def numpy_dtype(name: str) -> Any:
    """Return a NumPy dtype; bfloat16 comes from ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        return ml_dtypes.bfloat16
    return np.dtype(name)


class Unbound(ValueError):
    """No way was found to call a part of a model; the message says what was tried."""


def session_of(proto: Any) -> tuple[Any, str]:
    """Return a session, and a remark if ONNX Runtime has no kernel for an element type."""
    try:
        return open_session(proto), ""
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
    return open_session(proto, "onnx"), "; run by onnx.reference, ONNX Runtime has no kernel"


def run(session: Any, feeds: Mapping[str, np.ndarray]) -> list[Any]:
    """Return the outputs of a session.

    Raises
    ------
    ValueError
        If the model rejects the inputs; the message is the part that says why.
    """
    return list(attempt(lambda: session.run(None, dict(feeds))))


def attempt(call: Callable[[], Any]) -> Any:
    """Return the result of a call of ONNX Runtime; an error is a ValueError that says why."""
    try:
        return call()
    except Exception as error:
        text = str(error).rpartition("Status Message: ")[2] or first_line(error)
        raise ValueError(text.strip()) from error


def table_dtype(
    supply: Callable[[np.ndarray], list[np.ndarray]],
) -> tuple[int, str, np.ndarray]:
    """Return the element type of cos as ONNX and NumPy name it, and cos for one position.

    Raises
    ------
    Unbound
        If the tables cannot be computed, or have another element type than those of x.
    """
    try:
        cos = supply(np.arange(1))[0]
    except Exception as error:
        raise Unbound(f"its cos and sin tables cannot be computed: {first_line(error)}") from None
    for code, name in FLOATS.items():
        if numpy_dtype(name) == cos.dtype:
            return code, name, cos
    raise Unbound(f"its tables have the unsupported dtype {cos.dtype}")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type."""
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
