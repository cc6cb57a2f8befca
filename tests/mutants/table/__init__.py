"""Implementations of the family table."""

from tests.mutants._load import load

load(__name__, __path__)
