"""Implementations a judge must catch, and correct ones in foreign styles it must not accuse.

None of this knows the specification: every function is written from a public bug report or from
the published form of the encoding, and is judged through its outputs alone. `WRONG` and `CORRECT`
list the cases; `make()` returns a fresh instance.

A third of the wrong ones is `held_out`: they measured the judge before it was tuned on them too.
At first sight of the scaled, partial and multi-axis cases (197 wrong, 66 correct) it caught all
the wrong ones, named 172 of them acceptably, and accused one correct one; what a judge does with
bugs it has never seen is nearer to that than to today's full marks.
"""

from . import (  # noqa: F401  (importing a module files its cases)
    attention_factor,
    biases,
    buckets,
    correct_biases,
    correct_buckets,
    correct_multi_axis,
    correct_ntk,
    correct_rotary,
    correct_rotary_results,
    correct_scaling,
    correct_tables,
    correct_yarn,
    feature_tables,
    frequencies,
    llama3,
    longrope,
    multi_axis,
    multi_axis_frequencies,
    ntk,
    other_biases,
    partial,
    polar,
    positions,
    precision,
    robustness,
    rotary,
    rotation,
    score_models,
    score_terms,
    state,
    surfaces_chunks,
    surfaces_models,
    surfaces_offsets,
    surfaces_pairs,
    surfaces_positions,
    surfaces_relative,
    surfaces_scores,
    surfaces_sequences,
    surfaces_tables,
    surfaces_weights,
    table_rows,
    tables,
    yarn,
    yarn_bounds,
)
from ._case import CORRECT, WRONG, Case

__all__ = ["CORRECT", "WRONG", "Case"]
