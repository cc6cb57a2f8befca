"""Implementations of the family functions."""

from tests.mutants._load import load

load(__name__, __path__)
