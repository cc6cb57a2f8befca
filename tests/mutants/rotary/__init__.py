"""Implementations of the family rotary."""

from tests.mutants._load import load

load(__name__, __path__)
