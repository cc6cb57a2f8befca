"""Implementations of the family sequences; importing a module files its cases."""

from . import (
    surfaces_chunks,
    surfaces_offsets,
    surfaces_pairs,
    surfaces_sequences,
)

__all__ = [
    "surfaces_chunks",
    "surfaces_offsets",
    "surfaces_pairs",
    "surfaces_sequences",
]
