"""Find sinusoidal and learned position tables of `transformers` by name, and call them."""

from __future__ import annotations

import copy
import re
from functools import partial
from typing import Any

import posenc_ref
from posenc_ref.conformance.calling.facts import Facts
from posenc_ref.conformance.calling.roles import parameters
from posenc_ref.conformance.calling.table_search import ROWS, NoTable, find_source
from posenc_ref.conformance.calling.tables import Source
from posenc_ref.conformance.harness.implementation import Implementation

from .rotary_table import WIDEST, forward, of_module
from .transformers_config import attribute, on_host

# Attribute names of position tables in models.
TABLE_NAMES = r"(embed_positions?|positions?_embed(dings?|der)?|pos_emb(ed)?|wpe|position_encoder)$"
TABLE_CLASSES = r"Sinus|Position(al|s)?(Embed|Enc)"


def position_table(
    target: Any, surface: str | None, num_heads: int | None, encoding: posenc_ref.Encoding | None
) -> Implementation | None:
    """Return the position table inside `target`, or None if it has none."""
    if surface not in (None, "table"):
        return None
    for path, module in target.named_modules():
        named = re.search(TABLE_CLASSES, type(module).__name__) or re.search(TABLE_NAMES, path)
        if named or (not path and hasattr(module, "num_embeddings")):
            return _table(module, target, encoding)
    return None


def _table(module: Any, target: Any, encoding: posenc_ref.Encoding | None) -> Implementation:
    import torch

    pristine = copy.deepcopy(module)
    weight = getattr(module, "weight", getattr(module, "weights", None))
    named = attribute(module, "embed_dim") or attribute(module, "dim")
    width = int(weight.shape[-1]) if weight is not None else int(named or WIDEST)
    source = _source(copy.deepcopy(module), width)
    if encoding is None:
        encoding = _learned(module)
    name = type(module).__name__
    if module is not target and name == "Embedding":
        name = f"{type(target).__name__} positions"

    def build(instance: Any) -> Implementation:
        own = of_module(source, instance)

        def table(positions: Any) -> Any:
            return own.rows(torch.zeros(1, len(positions), width), positions).parts[0]

        return Implementation(
            table, "table", f"transformers {name}", encoding, backend="torch",
            head_dim=source.templates[0][-1], factory=lambda: build(copy.deepcopy(pristine)),
        )  # fmt: skip

    return build(module)


def _source(module: Any, width: int) -> Source:
    """Return how to get rows from a module, found by trial calls."""
    import torch

    padding = getattr(module, "padding_idx", None)
    facts = Facts({}, {} if padding is None else {"token": padding + 1}, {})
    name, like = type(module).__name__, torch.zeros(1, ROWS, width)
    plain = type(module).__module__.startswith("torch.nn")
    try:
        call = partial(embedded, module) if plain else forward(module)
        return find_source(call, facts, name, like)
    except NoTable as error:
        raise ValueError(
            f"{name} gives no rows at given positions (its forward takes "
            f"{', '.join(parameters(module.forward))}); {error}"
        ) from error


def embedded(module: Any, positions: Any) -> Any:
    """Return rows of an embedding of PyTorch."""
    return module(positions)


def _learned(module: Any) -> posenc_ref.Encoding | None:
    """Return a trainable embedding as `Learned`, or None for other modules."""
    weight, name = getattr(module, "weight", None), type(module).__name__
    if weight is None or not weight.requires_grad or not re.search("Learned|^Embedding$", name):
        return None
    return posenc_ref.Learned(
        on_host(weight),
        offset=int(getattr(module, "offset", 0)),
        padding_idx=getattr(module, "padding_idx", None),
    )
