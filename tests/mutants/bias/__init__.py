"""Implementations of the family bias; importing a module files its cases."""

from . import (
    biases,
    buckets,
    correct_biases,
    correct_buckets,
    other_biases,
    residues,
)

__all__ = [
    "biases",
    "buckets",
    "correct_biases",
    "correct_buckets",
    "other_biases",
    "residues",
]
