"""All vectors there are, file by file."""

from __future__ import annotations

from . import recipes_axes as axes
from . import recipes_biases as biases
from . import recipes_integers as integers
from . import recipes_rope as rope
from . import recipes_scaling as scaling
from . import recipes_tables as tables
from .recipe import Theme


def themes() -> list[Theme]:
    """Every file, in the order of the manifest."""
    return [
        rope.whole_head(),
        rope.slices(),
        rope.tables(),
        scaling.ntk(),
        scaling.yarn(),
        scaling.others(),
        axes.streams(),
        axes.grids(),
        axes.mixed(),
        tables.sinusoidal(),
        tables.learned(),
        biases.alibi(),
        biases.t5(),
        biases.scores(),
        integers.layouts(),
        integers.position_ids(),
    ]
