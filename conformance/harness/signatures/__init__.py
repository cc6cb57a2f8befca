"""Every surface, one record each: the source of all lists of surfaces."""

from __future__ import annotations

from .positions import POSITIONS
from .rotary import ROTARY
from .surface import Surface, load
from .tables_and_biases import TABLES_AND_BIASES

__all__ = ["SIGNATURES", "SURFACES", "Surface", "load"]

#: Every surface by name, also those that only vectors have.
SIGNATURES: dict[str, Surface] = {
    row.name: row for row in (*ROTARY, *TABLES_AND_BIASES, *POSITIONS)
}
#: The surfaces that ``check`` judges.
SURFACES: dict[str, Surface] = {name: row for name, row in SIGNATURES.items() if row.families}
