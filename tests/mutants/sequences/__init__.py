"""Implementations of the family sequences."""

from tests.mutants._load import load

load(__name__, __path__)
