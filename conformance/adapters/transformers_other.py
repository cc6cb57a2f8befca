"""Position tables, ALiBi biases and relative buckets of `transformers`."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable
from typing import Any

import posenc_ref
from posenc_ref.conformance.implementation import Implementation

from .binding import bind, parameters
from .peers import window_start
from .rotary_function import attribute
from .rotary_table import S, describe

# Names that models give to the module that holds their position table.
TABLE_NAMES = r"(embed_positions?|positions?_embed(dings?|der)?|pos_emb(ed)?|wpe|position_encoder)$"
TABLE_CLASSES = r"Sinus|Position(al|s)?(Embed|Enc)"
BUCKET = re.compile("relative_position_bucket$")


# Tables ------------------------------------------------------------------------------------------


def position_table(
    target: Any, surface: str | None, num_heads: int | None, encoding: posenc_ref.Encoding | None
) -> Implementation | None:
    """Return the position table inside `target`, or None if it has none."""
    if surface not in (None, "table"):
        return None
    module = next(
        (
            module
            for path, module in target.named_modules()
            if re.search(TABLE_CLASSES, type(module).__name__)
            or re.search(TABLE_NAMES, path)
            or (not path and hasattr(module, "num_embeddings"))
        ),
        None,
    )
    if module is None:
        return None
    pristine = copy.deepcopy(module)
    ask, dim = _how_to_ask(copy.deepcopy(module))
    if encoding is None:
        encoding = _learned(module)

    def build(instance: Any) -> Implementation:
        return Implementation(
            call=lambda positions: ask(instance, positions),
            surface="table",
            name=f"transformers {_name(module, target)}",
            encoding=encoding,
            backend="torch",
            head_dim=dim,
            factory=lambda: build(copy.deepcopy(pristine)),
        )

    return build(module)


def _how_to_ask(module: Any) -> tuple[Callable[[Any, Any], Any], int]:
    """Return how a module is asked for rows, and their width, by probing."""
    import torch

    weight = getattr(module, "weight", getattr(module, "weights", None))
    width = int(weight.shape[-1]) if weight is not None else int(attribute(module, "dim") or 2)
    padding = getattr(module, "padding_idx", None)

    def roles(positions: Any, start: int, shape: tuple[int, ...]) -> dict[str, Any]:
        length = len(positions)
        return {
            "positions": positions[None],
            "shape": torch.Size((1, length)),
            "tokens": torch.full(shape, 0 if padding is None else padding + 1),
            "embeddings": torch.zeros(1, length, width),
            "x": torch.zeros(1, length, width),
            "start": start,
        }

    def by_position(module: Any, positions: Any) -> Any:
        given = roles(positions, 0, (1, len(positions)))
        return module(**bind(module.forward, given, only_required=frozenset({"tokens", "start"})))

    def by_index(module: Any, positions: Any) -> Any:
        return module(positions)

    def by_start(module: Any, positions: Any, *, books: bool = False) -> Any:
        start = window_start(positions)
        shape = (1, 1, len(positions)) if books else (1, len(positions))
        given = roles(positions, start, shape)
        if start and "start" not in parameters(module.forward):
            raise ValueError(f"{type(module).__name__} starts at position 0")
        wanted = parameters(module.forward)
        if {"tokens", "embeddings"} <= set(wanted):  # the latter cannot be padding
            given.pop("tokens")
            arguments = {wanted["embeddings"].name: given["embeddings"]}
            if "start" in wanted:
                arguments[wanted["start"].name] = start
            return module(**arguments)
        return module(**bind(module.forward, given))

    def by_length(module: Any, positions: Any) -> Any:
        length = int(positions.max()) + 1
        return module(**bind(module.forward, {"length": length}))[positions]

    names = parameters(module.forward)
    ways: list[Callable[[Any, Any], Any]] = []
    if "positions" in names:
        ways.append(by_position)
    elif list(names) == ["input"]:
        ways.append(by_index)
    if "length" in names:
        ways.append(by_length)
    if type(module).__module__.startswith("torch.nn"):
        ways = [by_index]
    ways += [by_start, lambda module, positions: by_start(module, positions, books=True)]
    tried = []
    for way in ways:
        ask = _two_dimensional(way)
        try:
            rows = ask(module, torch.arange(S))
            if rows.ndim == 2 and rows.shape[0] == S:
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
    """Return the learned table that a trainable embedding is."""
    weight, name = getattr(module, "weight", None), type(module).__name__
    if weight is None or not weight.requires_grad or not re.search("Learned|^Embedding$", name):
        return None
    return posenc_ref.Learned(
        weight.detach().cpu().numpy(),
        offset=int(getattr(module, "offset", 0)),
        padding_idx=getattr(module, "padding_idx", None),
    )


def _name(module: Any, target: Any) -> str:
    name = type(module).__name__
    return name if module is target or name != "Embedding" else f"{type(target).__name__} positions"


# ALiBi -------------------------------------------------------------------------------------------


def alibi_of_model(
    target: Any, surface: str | None, num_heads: int | None, encoding: posenc_ref.Encoding | None
) -> Implementation | None:
    """Return the ALiBi biases that the file of `target` builds, or None if it builds none."""
    if surface not in (None, "bias", "slopes"):
        return None
    file = sys.modules[type(target).__module__]
    builder = next(
        (f for n, f in vars(file).items() if re.search("build.*alibi", n) and callable(f)), None
    )
    if builder is None:
        return None
    return alibi(builder, getattr(target, "config", None), surface or "bias", num_heads, encoding)


def alibi(
    builder: Callable[..., Any],
    config: Any,
    surface: str,
    num_heads: int | None,
    encoding: posenc_ref.Encoding | None,
) -> Implementation:
    """Return a function that builds biases from a number of heads and a length or a mask."""
    import torch

    name = getattr(builder, "__name__", type(builder).__name__)
    wanted = parameters(builder)
    if "num_heads" not in wanted or not {"tokens", "length"} & set(wanted):
        raise ValueError(
            f"{name} takes {', '.join(wanted) or 'nothing'}: a builder of ALiBi biases takes a "
            "number of heads, and a length or an attention mask"
        )
    if surface not in ("bias", "slopes"):
        raise ValueError(f"{name} has the surfaces bias and slopes, not {surface}")
    heads = num_heads or attribute(config, "num_attention_heads") or attribute(config, "n_heads")
    if heads is None and surface == "bias":
        raise ValueError(f"{name} needs a number of heads: pass num_heads=")

    def build(num_heads: int, length: int) -> Any:
        mask = torch.ones(1, length, dtype=torch.int64)
        roles = {"num_heads": num_heads, "length": length, "tokens": mask, "dtype": torch.float32}
        optional = frozenset({"device"})
        return builder(**bind(builder, roles, only_required=optional)).reshape(num_heads, 1, length)

    def slopes(num_heads: int) -> Any:
        rows = build(num_heads, 2)[:, 0]  # one step towards the query
        return rows[:, 1] - rows[:, 0]

    if encoding is None and heads is not None:
        encoding = posenc_ref.ALiBi(heads)
    bias = lambda q_len, k_len: build(heads, k_len)  # noqa: E731  # constants of a row cancel
    return Implementation(
        call=slopes if surface == "slopes" else bias,
        surface=surface,
        name=f"transformers {builder.__module__.rsplit('.', 1)[-1]}.{name}",
        encoding=encoding,
        backend="torch",
        num_heads=heads,
    )


# Relative buckets --------------------------------------------------------------------------------


def relative_bias(
    target: Any, surface: str | None, num_heads: int | None, encoding: posenc_ref.Encoding | None
) -> Implementation | None:
    """Return T5's buckets or biases inside `target`, or None if it has none."""
    if surface not in (None, "bias", "bucket"):
        return None
    surface = surface or "bias"
    found = (
        (module, getattr(module, name))
        for module in target.modules()
        for name in dir(type(module))
        if BUCKET.search(name) and (surface == "bucket" or _weights(module) is not None)
    )
    module, bucket = next(found, (None, None))
    if module is None or bucket is None:
        return None
    config = getattr(module, "config", None)
    settings: dict[str, Any] = {
        "bidirectional": not getattr(module, "is_decoder", False),
        "num_buckets": _setting(module, config, "num_buckets", 32),
        "max_distance": _setting(module, config, "max_distance", 128),
    }
    weights = _weights(module)
    if encoding is None and weights is not None:
        encoding = posenc_ref.T5Bias(weights.detach().cpu().numpy(), **settings)

    def buckets(relative_position: Any) -> Any:
        return bucket(**bind(bucket, {"relative_position": relative_position, **settings}))

    def bias(q_len: int, k_len: int) -> Any:
        compute = module.compute_bias
        roles = {"query_length": q_len, "key_length": k_len, "start": k_len - q_len}
        if "start" not in parameters(compute) and k_len != q_len:
            raise ValueError(f"{compute.__qualname__} starts queries at position 0")
        return compute(**bind(compute, roles))[0]

    if surface == "bias" and not hasattr(module, "compute_bias"):
        raise ValueError(f"{type(module).__name__} has buckets, and no compute_bias to drive")
    return Implementation(
        call=buckets if surface == "bucket" else bias,
        surface=surface,
        name=f"transformers {type(module).__name__}",
        encoding=encoding,
        backend="torch",
        num_heads=None if weights is None else int(weights.shape[1]),
    )


def _weights(module: Any) -> Any:
    return getattr(getattr(module, "relative_attention_bias", None), "weight", None)


def _setting(module: Any, config: Any, name: str, default: int) -> int:
    for holder in (module, config):
        for spelling in (f"relative_attention_{name}", name, f"rel_pos_{name}"):
            if (value := attribute(holder, spelling)) is not None:
                return int(value)
    return default
