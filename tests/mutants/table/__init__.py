"""Implementations of the family table; importing a module files its cases."""

from . import (
    correct_tables,
    feature_tables,
    surfaces_tables,
    table_rows,
    tables,
)

__all__ = [
    "correct_tables",
    "feature_tables",
    "surfaces_tables",
    "table_rows",
    "tables",
]
