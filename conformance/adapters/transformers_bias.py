"""ALiBi biases and relative position buckets of `transformers`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import posenc_ref
from posenc_ref.conformance.calling import functions
from posenc_ref.conformance.calling.facts import Facts
from posenc_ref.conformance.calling.roles import parameters
from posenc_ref.conformance.harness.implementation import Implementation

from .transformers_config import attribute, on_host


def alibi_of_model(
    target: Any, surface: str | None, num_heads: int | None, encoding: posenc_ref.Encoding | None
) -> Implementation | None:
    """Return the ALiBi biases from the modeling file of `target`, or None if it builds none."""
    if surface not in (None, "bias", "slopes"):
        return None
    for name, builder in vars(sys.modules[type(target).__module__]).items():
        if re.search("build.*alibi", name) and callable(builder):
            config = getattr(target, "config", None)
            return alibi(builder, config, surface or "bias", num_heads, encoding)
    return None


def alibi(
    builder: Callable[..., Any],
    config: Any,
    surface: str,
    num_heads: int | None,
    encoding: posenc_ref.Encoding | None,
) -> Implementation:
    """Return the biases of `builder`, which takes a number of heads and a length or a mask."""
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

    def biases(num_heads: int) -> Callable[..., Any]:
        return functions.bias(builder, Facts({}, {"num_heads": num_heads}, {}), torch)

    def slopes(num_heads: int) -> Any:
        rows = biases(num_heads)(2, 2)[:, 0]  # the slope is the difference of two adjacent keys
        return rows[:, 1] - rows[:, 0]

    if encoding is None and heads is not None:
        encoding = posenc_ref.ALiBi(heads)
    # The biases of all queries differ by constants, which cancel in the softmax.
    call = slopes if surface == "slopes" else biases(heads)
    name = f"transformers {builder.__module__.rsplit('.', 1)[-1]}.{name}"
    return Implementation(call, surface, name, encoding, backend="torch", num_heads=heads)


def relative_bias(
    target: Any, surface: str | None, num_heads: int | None, encoding: posenc_ref.Encoding | None
) -> Implementation | None:
    """Return T5's buckets or biases inside `target`, or None if it has none."""
    if surface not in (None, "bias", "bucket"):
        return None
    import torch

    surface = surface or "bias"
    found = (
        (module, getattr(module, name))
        for module in target.modules()
        for name in dir(type(module))
        if name.endswith("relative_position_bucket")
        and (surface == "bucket" or _weights(module) is not None)
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
        encoding = posenc_ref.T5Bias(on_host(weights), **settings)

    def bias(q_len: int, k_len: int) -> Any:
        compute = module.compute_bias
        roles = {"query_length": q_len, "key_length": k_len, "start": k_len - q_len}
        if "start" not in parameters(compute) and k_len != q_len:
            raise ValueError(f"{compute.__qualname__} needs q_len == k_len, got {q_len}, {k_len}")
        return compute(**Facts({}, roles, {}).arguments(compute, {}))[0]

    if surface == "bias" and not hasattr(module, "compute_bias"):
        raise ValueError(
            f"{type(module).__name__} has no method compute_bias, only buckets: pass "
            'surface="bucket"'
        )
    name, call = f"transformers {type(module).__name__}", bias
    if surface == "bucket":
        call = functions.bucket(bucket, Facts({}, settings, {}), torch.arange(-5, 6))
    heads = None if weights is None else int(weights.shape[1])
    return Implementation(call, surface, name, encoding, backend="torch", num_heads=heads)


def _weights(module: Any) -> Any:
    return getattr(getattr(module, "relative_attention_bias", None), "weight", None)


def _setting(module: Any, config: Any, name: str, default: int) -> int:
    for holder in (module, config):
        for spelling in (f"relative_attention_{name}", name, f"rel_pos_{name}"):
            if (value := attribute(holder, spelling)) is not None:
                return int(value)
    return default
