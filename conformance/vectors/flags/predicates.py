"""Predicates of flags: one question each about the inputs and the encoding of a case."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .view import View


def beyond(limit: int) -> Callable[[View], bool]:
    """Whether some position is further from 0 than ``limit``."""
    return lambda v: bool(v.positions.size and np.abs(v.positions).max() > limit)


def contiguous(v: View) -> bool:
    """Whether the positions are 0, 1, 2, ... without a gap."""
    p = v.positions
    return p.size > 0 and p.dtype.kind == "i" and bool((p == np.arange(p.shape[-1])).all())


def scattered(v: View) -> bool:
    """Whether the positions are not 0, 1, 2, ..."""
    return bool(v.positions.size) and not contiguous(v)


def repeated(v: View) -> bool:
    """Whether a position comes twice."""
    return v.positions.ndim == 1 and np.unique(v.positions).size < v.positions.size


def near_quarter_turn(v: View) -> bool:
    """Whether cos or sin of some angle of 100 or more is below 2**-12: the value is all tail."""
    if v.rotary is None or v.rotary.num_axes > 1 or v.positions.ndim != 1:
        return False
    angle = np.abs(v.positions)[:, None] * np.abs(v.rotary.frequencies(v.length))
    limit = v.rotary.attention_factor(v.length) * 2.0**-12
    small = np.minimum(*map(np.abs, v.rotary.cos_sin(v.positions))) < limit
    return bool((small & (angle >= 100)).any())


def sizes(v: View) -> bool:
    """Whether batch, heads and sequence differ in size, so that none is taken for another."""
    if "x" not in v.inputs or np.ndim(v.inputs["x"]) != 4:
        return False
    b, h, s, _ = v.inputs["x"].shape
    return len({b, h, s}) == 3


def several_axes(v: View) -> bool:
    """Whether a token has several positions, one for each axis."""
    return v.rotary is not None and v.rotary.num_axes > 1 and v.positions.size > 0


def axes_differ(v: View) -> bool:
    """Whether the positions of the axes differ."""
    return several_axes(v) and v.positions.ndim > 1 and bool((v.positions != v.positions[0]).any())


def attention_factor(v: View) -> bool:
    """Whether cos and sin are multiplied by a factor."""
    return v.rotary is not None and v.rotary.attention_factor(v.length) != 1


def bucket_edges(v: View) -> bool:
    """Whether relative positions on both sides of every threshold are there."""
    if v.surface not in ("bucket", "bias") or not hasattr(v.encoding, "thresholds"):
        return False
    if v.surface == "bias":
        return bool(max(v.inputs["q_len"], v.inputs["k_len"]) > v.field("thresholds")[-2])
    r = set(np.abs(v.inputs["relative_position"]).ravel().tolist())
    return all({n - 1, n} <= r for n in v.field("thresholds"))


def past_the_last_bucket(v: View) -> bool:
    """Whether some relative position is past the largest distance."""
    if v.surface != "bucket":
        return False
    return bool(np.abs(v.inputs["relative_position"]).max() > v.field("max_distance"))


def uneven_heads(v: View) -> bool:
    """Whether the number of heads is no power of two."""
    n = v.inputs.get("num_heads") or (v.field("num_heads") if hasattr(v.encoding, "slopes") else 1)
    return bool(n & (n - 1))


def symmetric(v: View) -> bool:
    """Whether the bias sees both directions."""
    return v.family == "bias" and (v.field("causal") is False or bool(v.field("bidirectional")))
