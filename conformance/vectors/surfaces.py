"""The surfaces that vectors exist for: their arguments, and our own function of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[..., Any]


@dataclass(frozen=True)
class Surface:
    """The shape in which an encoding is exposed."""

    arguments: tuple[
        str, ...
    ]  #: positional, in order; those an encoding has no use for are left out
    outputs: tuple[str, ...]
    returns: str  #: what the documentation says of it
    ours: Callable[[Any, str], Function]  #: of an encoding and a dtype


SURFACES: dict[str, Surface] = {
    "apply": Surface(
        ("x", "positions"),
        ("y",),
        "x (B, H, S, D) rotated to positions (S,), (B, S) or (A, B, S)",
        lambda e, dtype: e.apply,
    ),
    "cos_sin": Surface(
        ("positions",),
        ("cos", "sin"),
        "cos and sin of positions (S,), each (S, d/2); (S, d) is accepted",
        lambda e, dtype: lambda positions: e.cos_sin(positions, dtype=np.dtype(dtype)),
    ),
    "frequencies": Surface(
        ("seq_len",),
        ("frequencies", "attention_factor"),
        "radians per position of every pair (d/2,), and m, which may be left out",
        lambda e, dtype: (
            lambda seq_len=None: (
                e.frequencies(seq_len).astype(dtype),
                np.asarray(e.attention_factor(seq_len), dtype),
            )
        ),
    ),
}

#: Outputs that a function may leave out.
OPTIONAL = ("attention_factor",)


def own_function(surface: str, encoding: Any, dtype: str = "float32") -> Function:
    """``posenc_ref``'s function of a surface, as a vector wants to call it."""
    return SURFACES[surface].ours(encoding, dtype)
