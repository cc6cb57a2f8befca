"""Implementations of the family score."""

from tests.mutants._load import load

load(__name__, __path__)
