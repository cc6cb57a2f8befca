"""All surfaces, one record each; every list of surfaces is derived from these records."""

from __future__ import annotations

from .positions import POSITIONS
from .rotary import ROTARY
from .surface import Surface, load
from .tables_and_biases import TABLES_AND_BIASES

__all__ = ["SIGNATURES", "SURFACES", "Surface", "load"]

#: Every surface by name, including those that exist only as test vectors.
SIGNATURES: dict[str, Surface] = {
    row.name: row for row in (*ROTARY, *TABLES_AND_BIASES, *POSITIONS)
}
#: The surfaces that ``check`` judges.
SURFACES: dict[str, Surface] = {name: row for name, row in SIGNATURES.items() if row.families}
