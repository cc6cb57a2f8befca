"""Choose the fastest correct path for an encoding: ``fused(encoding)``.

The specification of an encoding is its own method in ``posenc_ref``: ``apply``, ``table`` or
``bias``.  A fast path differs from the specification by a few roundings of the output.  For arrays
without a fast path, ``fused`` calls the specification.
"""

from __future__ import annotations

from typing import Any, overload

from posenc_ref import Bias, Encoding, ModelEncoding, Rotary, Sinusoidal, XPos
from posenc_ref import _validate as validate

from .fused_rotary import FusedRotary
from .fused_table import FusedTable
from .kernels.tensor_layouts import TENSOR_LAYOUTS
from .kernels.threads import checked
from .toeplitz import FusedBias


@overload
def fused(
    encoding: Rotary, *, tensor_layout: str = "bhsd", threads: int | None = None
) -> FusedRotary: ...
@overload
def fused(encoding: Sinusoidal, *, threads: int | None = None) -> FusedTable: ...
@overload
def fused(encoding: Bias, *, threads: int | None = None) -> FusedBias: ...


def fused(
    encoding: Encoding, *, tensor_layout: str = "bhsd", threads: int | None = None
) -> FusedRotary | FusedTable | FusedBias:
    """Return a callable that applies an encoding by the fastest correct path.

    ``fused(rotary)(x, positions)`` equals ``apply``, ``fused(sinusoidal)(positions)`` equals
    ``table``, and ``fused(bias)(q_len, k_len)`` equals ``bias`` for keys at positions
    ``0 .. k_len - 1`` and queries at the last ``q_len`` of these.  Each takes ``out=``, and with
    ``explain=True`` returns a pair of the result and the name of the path.
    ``fused(rotary).cos_sin(positions)`` makes only the tables.

    Parameters
    ----------
    encoding : Rotary, Sinusoidal or Bias
        The encoding to apply.
    tensor_layout : {"bhsd", "bshd", "sbhd", "thd", "bs(hd)"}
        For rotary encodings, the order of the axes of x: batch, heads, sequence, head dimension;
        ``t`` is the packed sequence, and ``(hd)`` one axis for heads and channels.  Positions stay
        (S,) or (B, S).
    threads : int, optional
        The most threads that a call on NumPy arrays uses; small arrays take fewer. By default as
        many as ``OMP_NUM_THREADS`` (or ``OPENBLAS_NUM_THREADS``, ``MKL_NUM_THREADS``) says, or else
        one for every core of the process; one in a worker process of ``multiprocessing``. The
        results do not depend on it. Other libraries have their own settings.

    Returns
    -------
    FusedRotary, FusedTable or FusedBias
        A callable. Its results have the library, device and dtype of x; a table or bias is NumPy
        float64 by default.

    Raises
    ------
    TypeError, ValueError
        The encoding is of another family, tensor_layout is unknown, or it is given for an encoding
        that is not rotary; threads is no positive integer.

    Examples
    --------
    >>> import numpy as np, posenc_ref as pr
    >>> from posenc_ref.backends import fused
    >>> x = np.ones((1, 2, 8, 64), np.float32)
    >>> y, path = fused(pr.RoPE(64, layout="interleaved"))(x, range(8), explain=True)
    >>> path
    'numpy: pairs side by side, float32'
    >>> fused(pr.ALiBi(8))(4096, 4096, explain=True)[1]
    'numpy: a view of 65528 numbers'
    """
    validate.choice("tensor_layout", tensor_layout, TENSOR_LAYOUTS)
    threads = checked(threads)
    if isinstance(encoding, XPos):
        raise TypeError(
            "encoding must rotate queries and keys alike, which XPos does not: call its "
            "apply_queries and apply_keys, which accept arrays of every library"
        )
    if isinstance(encoding, Rotary):
        return FusedRotary(encoding, tensor_layout, threads)
    if tensor_layout != "bhsd":
        raise ValueError(f"tensor_layout is for rotary encodings, got {encoding!r}")
    if isinstance(encoding, Sinusoidal):
        return FusedTable(encoding, threads)
    if isinstance(encoding, Bias):
        return FusedBias(encoding, threads)
    raise TypeError(
        "encoding must be a rotary encoding, a Sinusoidal or a bias, got "
        f"{type(encoding).__name__}{_instead(encoding)}"
    )


def _instead(given: Any) -> str:
    """Return the end of the error message: the call to use for a value without a fast path."""
    if isinstance(given, ModelEncoding):
        layers = " or ".join(f".encodings[{name!r}]" for name in given.encodings)
        return f"; pass the encoding of one layer type: {layers}"
    if isinstance(given, Encoding):
        calls = [name for name in ("table", "add", "scores") if hasattr(given, name)]
        return f"; call its own method: {' or '.join(calls)}" if calls else ""
    if isinstance(given, type):
        return f"; pass an instance of the class: {given.__name__}(...)"
    if isinstance(given, dict):
        return "; pass the encoding that from_dict returns for this dict"
    if isinstance(given, str):
        return "; if the string is the name of a preset, pass preset(name).only, its encoding"
    return ""
