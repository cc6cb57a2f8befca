"""Logits in 50-digit mpmath: rotated (or biased) products, term by term.

A is the sum of the absolute terms of the fully expanded product, B what the angles of both sides
can move: for each pair, one side's B times the other side's amplitude.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import T5Bias
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.numbers import Real, exactly, identical, objects, sizes
from posenc_ref.conformance.exact.rotation import channels, exact

from .registered import formula, registered, rotated


def scores(e: Any, inputs: Mapping[str, Any]) -> Real:
    """``q . k * scale`` of rotated q and k, or plus the bias; positions 0 .. S-1.

    Scores that depend on what q and k hold have it all in their entry.
    """
    mp = mpmath().mp
    q, k = inputs["q"], inputs["k"]
    if e.family == "score":
        return registered(e, inputs)
    shape = (*q.shape[:3], k.shape[2])
    value, terms, moved = (objects(shape) for _ in range(3))
    plain = isinstance(e, T5Bias) and not e.scaled
    scale = 1 if plain else 1 / mp.sqrt(q.shape[-1])
    written: list[tuple[int, int]] = []
    if e.family == "rotary":
        decay = int(hasattr(e, "decays"))
        one = rotated(e, q, np.arange(q.shape[2]), decay=decay)
        two = rotated(e, k, np.arange(k.shape[2]), decay=-decay)
        written = channels(e, len(formula(e)(e, None)), written=True)
    else:
        one, two = (exactly(exact(x)) for x in (q, k))
    for b, h, i, j in np.ndindex(shape):
        a, c = one.value[b, h, i], two.value[b, h, j]
        value[b, h, i, j] = scale * mp.fsum(a * c)
        at, ct = one.terms[b, h, i], two.terms[b, h, j]
        full = [max(s, abs(v)) * max(t, abs(w)) for s, v, t, w in zip(at, a, ct, c, strict=True)]
        terms[b, h, i, j] = scale * mp.fsum(full)
        am, cm = one.angle[b, h, i], two.angle[b, h, j]
        turned = [am[f] * mp.hypot(c[f], c[s]) + mp.hypot(a[f], a[s]) * cm[f] for f, s in written]
        moved[b, h, i, j] = scale * mp.fsum(turned)
    if e.family != "rotary":
        added = registered(e, {"q_len": shape[2], "k_len": shape[3]})
        size = scale if e.bias_inside_scale else 1
        value, terms = value + size * added.value, terms + size * added.terms
    return Real(value, terms, moved)


def relative_shift(inputs: Mapping[str, Any]) -> Real:
    """Every score carried from its distance to its key; only keys up to the query are judged."""
    x = inputs["x"]
    rows, keys = x.shape
    made, judged = np.zeros_like(x), np.zeros(x.shape, dtype=bool)
    for i in range(rows):
        at = keys - rows + i
        for j in range(at + 1):
            made[i, j], judged[i, j] = x[i, keys - 1 - (at - j)], True
    return replace(identical(made), judged=judged)


def relative_scores(inputs: Mapping[str, Any]) -> Real:
    """Each query times the vector of its offset to each key: A = the sum of absolute products."""
    mp = mpmath().mp
    q, rel = (exact(inputs[n]) for n in ("q", "rel"))
    size = q.shape[0]
    value, terms = objects((size, size)), objects((size, size))
    for i, j in np.ndindex(size, size):
        products = q[i] * rel[size - 1 - (i - j)]
        value[i, j], terms[i, j] = mp.fsum(products), mp.fsum(sizes(products))
    return Real(value, terms, objects((size, size)))
