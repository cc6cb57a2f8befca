"""The surfaces that have vectors."""

from __future__ import annotations

from typing import Any

from posenc_ref.conformance.harness.signatures import SIGNATURES, Surface
from posenc_ref.conformance.harness.signatures.surface import Function

SURFACES: dict[str, Surface] = {name: row for name, row in SIGNATURES.items() if row.outputs}

#: Inputs that are passed as a list of integers.
LISTS = ("chunks",)
#: Inputs that a case may leave out.
OPTIONAL_INPUTS = ("seq_len",)
#: Outputs that a function may leave out.
OPTIONAL = ("attention_factor",)


def own_function(surface: str, encoding: Any, dtype: str = "float32") -> Function:
    """Return ``posenc_ref``'s function of a surface, for the arguments of a vector."""
    return SURFACES[surface].own(encoding, dtype)
