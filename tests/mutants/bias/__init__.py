"""Implementations of the family bias."""

from tests.mutants._load import load

load(__name__, __path__)
