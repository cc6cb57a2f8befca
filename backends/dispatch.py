"""``fused(encoding)``: the fastest correct path for the array it gets.

A fused path agrees with the specification to a few roundings of the output; where there is none,
the specification itself runs.  Either way a wrong array is not among the answers.
"""

from __future__ import annotations

from typing import Any, overload

from posenc_ref import Bias, Encoding, ModelEncoding, Rotary, Sinusoidal, XPos
from posenc_ref import _validate as validate

from .fused_rotary import FusedRotary
from .fused_table import FusedTable
from .tensor_layouts import TENSOR_LAYOUTS
from .toeplitz import FusedBias


@overload
def fused(encoding: Rotary, *, tensor_layout: str = "bhsd") -> FusedRotary: ...
@overload
def fused(encoding: Sinusoidal) -> FusedTable: ...
@overload
def fused(encoding: Bias) -> FusedBias: ...


def fused(
    encoding: Encoding, *, tensor_layout: str = "bhsd"
) -> FusedRotary | FusedTable | FusedBias:
    """A callable that does an encoding's main job by the fastest correct path.

    ``fused(rotary)(x, positions)`` is ``apply``, ``fused(sinusoidal)(positions)`` is ``table`` and
    ``fused(bias)(q_len, k_len)`` is the whole bias with queries at the end of the keys; each takes
    ``out=``, and ``explain=True`` returns the name of the path beside the result.
    ``fused(rotary).cos_sin(positions)`` makes the tables alone.

    Parameters
    ----------
    encoding : Rotary, Sinusoidal or Bias
        What to compute.
    tensor_layout : {"bhsd", "bshd", "sbhd", "thd", "bs(hd)"}
        For rotary encodings, the order of the axes of x: batch, heads, sequence, head dimension;
        ``t`` is the packed sequence and ``(hd)`` one axis for both.  Positions stay (S,) or (B, S).

    Returns
    -------
    FusedRotary, FusedTable or FusedBias
        To be called; its results have x's library, device and dtype, or those asked for.

    Raises
    ------
    TypeError, ValueError
        No encoding of these families, or a tensor_layout that is not known or not for it.

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
    if isinstance(encoding, XPos):
        raise TypeError(
            "encoding must turn queries and keys alike, which XPos does not: call its "
            "apply_queries and apply_keys, which take every array"
        )
    if isinstance(encoding, Rotary):
        return FusedRotary(encoding, tensor_layout)
    if tensor_layout != "bhsd":
        raise ValueError(f"tensor_layout is for rotary encodings, got {encoding!r}")
    if isinstance(encoding, Sinusoidal):
        return FusedTable(encoding)
    if isinstance(encoding, Bias):
        return FusedBias(encoding)
    raise TypeError(
        "encoding must be a rotary encoding, a Sinusoidal or a bias, got "
        f"{type(encoding).__name__}{_instead(encoding)}"
    )


def _instead(given: Any) -> str:
    """What to do with something that has no fast path."""
    if isinstance(given, ModelEncoding):
        layers = " or ".join(f".encodings[{name!r}]" for name in given.encodings)
        return f"; choose one of its encodings: {layers}"
    if isinstance(given, Encoding):
        calls = [name for name in ("table", "add", "scores") if hasattr(given, name)]
        return f"; its own methods ({', '.join(calls)}) take every array" if calls else ""
    if isinstance(given, type):
        return f"; make a value of the class first: {given.__name__}(...)"
    if isinstance(given, dict):
        return "; from_dict(data) makes the value"
    if isinstance(given, str):
        return "; a model's is preset(name).only"
    return ""
