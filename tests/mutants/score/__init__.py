"""Implementations of the family score; importing a module files its cases."""

from . import (
    attention,
    cameras,
    lie,
    paths,
    polar,
    rotary_scores,
    score_models,
    score_terms,
    surfaces_models,
    surfaces_scores,
)

__all__ = [
    "attention",
    "cameras",
    "lie",
    "paths",
    "polar",
    "rotary_scores",
    "score_models",
    "score_terms",
    "surfaces_models",
    "surfaces_scores",
]
