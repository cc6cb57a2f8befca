"""Call functions of frequencies, slopes, buckets, biases and tables by the roles of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref._namespace import to_host

from .facts import Facts
from .roles import parameters
from .tables import Source

Call = Callable[..., Any]


def frequencies(function: Call, facts: Facts) -> Call:
    """Return ``function`` as the surface ``frequencies``."""
    _require("num_heads" not in parameters(function), "frequencies: it takes a number of heads")

    def call(seq_len: int | None = None) -> Any:
        also = {} if seq_len is None else {"length": seq_len}
        skipped = ("length", "device", "x") if seq_len is None else ("device", "x")
        found = function(**facts.arguments(function, also, skipped))
        if isinstance(found, tuple | list) and len(found) == 2:
            return found[0], _number(found[1])
        return found

    values = call()
    values = values[0] if isinstance(values, tuple) else values
    _require(getattr(values, "ndim", 0) == 1 and values.shape[0] > 1, "a list of frequencies")
    _require(not np.iscomplexobj(to_host(values)), "real frequencies, not complex numbers")
    return call


def slopes(function: Call, facts: Facts) -> Call:
    """Return ``function`` as the surface ``slopes``."""
    skipped = ("dtype", "device", "length")

    def call(num_heads: int) -> Any:
        given = facts.arguments(function, {"num_heads": num_heads}, skipped, spare=num_heads)
        found = function(**given)
        return found.reshape(-1) if hasattr(found, "reshape") else found

    _require(len(call(8)) == 8, "one number for each of 8 heads")
    return call


def own_length(function: Call) -> tuple[str, ...]:
    """Return the role of a length whose default a function keeps: other arguments say it.

    It may be the distance from which keys share a bucket.
    """
    named = {*parameters(function)}
    stated = "relative_position" in named or {"query_length", "key_length"} <= named
    return ("length",) if stated else ()


def bucket(function: Call, facts: Facts, like: Any) -> Call:
    """Return ``function`` as the surface ``bucket``."""

    def call(relative_position: Any) -> Any:
        also = {"relative_position": relative_position}
        return function(**facts.arguments(function, also, own_length(function)))

    _require(call(like).shape == like.shape, "one bucket for each offset")
    return call


def bias(function: Call, facts: Facts, xp: Any) -> Call:
    """Return ``function`` as the surface ``bias``: by two lengths, one, or an attention mask."""
    named = set(parameters(function))
    heads = facts.by_role["num_heads"]

    def call(q_len: int, k_len: int) -> Any:
        also: dict[str, Any] = {"query_length": q_len, "key_length": k_len, "length": k_len}
        also |= {"num_heads": heads, "start": k_len - q_len, "offset": k_len - q_len}
        also["tokens"] = xp.ones((1, k_len), dtype=xp.int64)
        also["dtype"] = xp.float32
        square = not {"query_length", "start", "offset"} & named
        found = function(**facts.arguments(function, also, ("device", *own_length(function))))
        found = found.reshape(found.shape[-3:]) if found.ndim > 3 else found
        if square and found.shape[-2] not in (1, q_len):
            raise ValueError(f"q_len and k_len must be equal, got {q_len} and {k_len}: the "
                             "function takes one length")  # fmt: skip
        return found

    found = call(5, 5)
    _require(found.ndim == 3 and found.shape[-1] == 5, "a bias (H, q_len, k_len)")
    _require(to_host(found).dtype.kind not in "iu", "a bias, not integers such as positions")
    return call


def table(source: Source, like: Any) -> Call:
    """Return a source as the surface ``table``: its rows at given positions."""
    _require(len(source.templates) == 1, "one table, not several arrays")
    _require(source.form != "complex", "a table of real numbers, not of complex ones")

    def call(positions: Any) -> Any:
        return source.rows(like, positions).parts[0]

    return call


def add(function: Call, dim: int, xp: Any) -> tuple[Call, str]:
    """Return ``function`` as the surface ``add``, and the axes of the x that it takes, in words."""

    def direct(x: Any) -> Any:
        return function(x)

    def sequence_first(x: Any) -> Any:
        return xp.moveaxis(function(xp.moveaxis(x, 0, 1)), 0, 1)

    first = "(S, B, dim), the sequence first: in x (B, S, dim), batch row b would get position b"
    for call, axes in ((direct, "(B, S, dim)"), (sequence_first, first)):
        ones = xp.ones((2, 5, dim), dtype=xp.float32)
        found = call(ones)
        rows = to_host(found - ones) if hasattr(found, "shape") else None
        if rows is None or rows.shape != (2, 5, dim):
            continue
        if np.array_equal(rows[0], rows[1]) and not np.array_equal(rows[:, :1], rows[:, 1:2]):
            return call, axes
    raise ValueError("the result is not x plus one row for each token")


def _number(value: Any) -> Any:
    return np.asarray(float(value))


def _require(condition: bool, expected: str) -> None:
    if not condition:
        raise ValueError(f"the function must return {expected}")
