"""Implementations of the family score; importing a module files its cases."""

from . import (
    attention,
    polar,
    score_models,
    score_terms,
    surfaces_models,
    surfaces_scores,
)

__all__ = [
    "attention",
    "polar",
    "score_models",
    "score_terms",
    "surfaces_models",
    "surfaces_scores",
]
