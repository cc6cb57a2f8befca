"""All recipes, file by file."""

from __future__ import annotations

from posenc_ref.conformance.exact.recipe import Group, Theme
from posenc_ref.conformance.registry import entries

from . import recipes_axes as axes
from . import recipes_biases as biases
from . import recipes_integers as integers
from . import recipes_rope as rope
from . import recipes_scaling as scaling
from . import recipes_tables as tables


def themes() -> list[Theme]:
    """Return every file, in the order of the manifest."""
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
        biases.logits(),
        tables.grids(),
        *registered(),
    ]


def registered() -> list[Theme]:
    """Return the examples of the registry, a file for each family."""
    found: dict[str, list[Group]] = {}
    for entry in entries():
        if entry.encoding.family == "rotary":
            continue  # rotary encodings have files by surface
        groups = [entry.group(name) for name in entry.examples]
        found.setdefault(entry.encoding.family, []).extend(groups)
    return [
        Theme(f"examples-{family}", f"Examples of every {family} encoding", tuple(groups))
        for family, groups in sorted(found.items())
    ]
