"""Implementations of the family functions; importing a module files its cases."""

from . import (
    surfaces_convolutions,
    surfaces_evicted,
    surfaces_mrope,
    surfaces_mrope_others,
    surfaces_positions,
    surfaces_relative,
    surfaces_weights,
)

__all__ = [
    "surfaces_convolutions",
    "surfaces_evicted",
    "surfaces_mrope",
    "surfaces_mrope_others",
    "surfaces_positions",
    "surfaces_relative",
    "surfaces_weights",
]
