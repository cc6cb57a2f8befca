"""Find sinusoidal and learned position tables of `transformers` by name, and call them."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import posenc_ref
from posenc_ref.conformance.calling.positions import window_start
from posenc_ref.conformance.calling.roles import bind, parameters
from posenc_ref.conformance.harness.implementation import Implementation

from .rotary_table import describe, length_of
from .transformers_config import attribute, on_host

# Attribute names of position tables in models.
TABLE_NAMES = r"(embed_positions?|positions?_embed(dings?|der)?|pos_emb(ed)?|wpe|position_encoder)$"
TABLE_CLASSES = r"Sinus|Position(al|s)?(Embed|Enc)"
#: The number of rows in a trial call.
_ROWS = 11


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
    pristine = copy.deepcopy(module)
    ask, dim = _how_to_ask(copy.deepcopy(module))
    if encoding is None:
        encoding = _learned(module)
    name = type(module).__name__
    if module is not target and name == "Embedding":
        name = f"{type(target).__name__} positions"

    def build(instance: Any) -> Implementation:
        return Implementation(
            lambda positions: ask(instance, positions), "table", f"transformers {name}", encoding,
            backend="torch", head_dim=dim, factory=lambda: build(copy.deepcopy(pristine)),
        )  # fmt: skip

    return build(module)


def _how_to_ask(module: Any) -> tuple[Callable[[Any, Any], Any], int]:
    """Return a function that gets rows from a module, and their width, found by trial calls."""
    import torch

    weight = getattr(module, "weight", getattr(module, "weights", None))
    named = attribute(module, "embed_dim") or attribute(module, "dim")
    width = int(weight.shape[-1]) if weight is not None else int(named or 2)
    padding = getattr(module, "padding_idx", None)

    def roles(positions: Any, start: int, shape: tuple[int, ...]) -> dict[str, Any]:
        length = len(positions)
        return {
            "shape": torch.Size((1, length)),
            "tokens": torch.full(shape, 0 if padding is None else padding + 1),
            "embeddings": torch.zeros(1, length, width),
            "x": torch.zeros(1, length, width),
            "start": start,
        }

    def by_position(module: Any, positions: Any, *, shape: tuple[int, ...] = (1, -1)) -> Any:
        given = roles(positions, 0, (1, len(positions)))
        given["positions"] = positions.reshape(shape)
        return module(**bind(module.forward, given, only_required=frozenset({"tokens", "start"})))

    def by_start(module: Any, positions: Any, *, books: bool = False) -> Any:
        start = window_start(positions)
        shape = (1, 1, len(positions)) if books else (1, len(positions))
        given = roles(positions, start, shape)
        if start and "start" not in parameters(module.forward):
            raise ValueError(f"positions of {type(module).__name__} must start at 0, got {start}")
        if "embeddings" in parameters(module.forward):  # token embeddings, which cannot be padding
            del given["tokens"]
        return module(**bind(module.forward, given))

    def by_length(module: Any, positions: Any) -> Any:
        return module(**bind(module.forward, {"length": length_of(positions)}))[positions]

    names = parameters(module.forward)
    ways: list[Callable[[Any, Any], Any]] = []
    if "positions" in names:
        ways += [partial(by_position, shape=shape) for shape in ((1, -1), (-1,), (-1, 1))]
    if "length" in names:
        ways.append(by_length)
    if type(module).__module__.startswith("torch.nn"):
        ways = [lambda module, positions: module(positions)]
    ways += [by_start, partial(by_start, books=True)]
    tried = []
    for ask in map(_two_dimensional, ways):
        try:
            rows = ask(module, torch.arange(_ROWS))
            if rows.ndim == 2 and rows.shape[0] == _ROWS:
                return ask, int(rows.shape[1])
            tried.append(f"rows of shape {tuple(rows.shape)}")
        except Exception as error:
            tried.append(describe(error))
    raise ValueError(
        f"{type(module).__name__} gives no rows at given positions (its forward takes "
        f"{', '.join(names)}); tried {'; '.join(dict.fromkeys(tried))}"
    )


def _two_dimensional(way: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def ask(module: Any, positions: Any) -> Any:
        rows = way(module, positions)
        while rows.ndim > 2 and rows.shape[0] == 1:
            rows = rows[0]
        return rows

    return ask


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
