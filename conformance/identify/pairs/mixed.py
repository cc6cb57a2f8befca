"""Identify rotations in which several axes turn a pair, or each head has frequencies of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from posenc_ref import MixedRoPE, MultiAxisRoPE
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.probes import SHORT, dense
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.identify.card import Card, Unidentified
from posenc_ref.conformance.identify.fit.measurement import Factor, Measurement, nice
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES
from posenc_ref.conformance.phases.measure import Pair, Phases

from .channels import Reading
from .structure import Structure

#: Measures the frequencies (axes, pairs) of one head.
Measure = Callable[[Reading, int], Phases]


def follows(phases: Phases) -> np.ndarray:
    """Return the mask (axes, pairs) of the axes that turn each pair."""
    w = np.abs(phases.frequencies)
    most = w.max(axis=0, initial=0.0)
    return np.asarray(w > 8 * phases.sigma + ROUNDOFF["float32"] * most)


def own_heads(run: Run, access: Access) -> int:
    """Return the number of heads if equal vectors are rotated differently in them, or else 0."""
    heads = getattr(run.driver.fn, "num_heads", None) or 0
    if heads < 2:
        return 0
    at = access.within(SHORT)
    x = np.repeat(dense((1, 1, at.size, access.dim), 0), heads, axis=1)
    y = access.rows(x, at)
    return heads if (y != y[:, :1]).any() else 0


def of_heads(
    read: Reading, every: list[Structure], heads: int, measure: Measure, card: Card
) -> None:
    """Write the frequencies of every head to the card; ``every`` lists the possible layouts."""
    if not every:
        raise Unidentified(
            "heads have frequencies of their own, and the channel pairs match no known layout "
            "(half, interleaved)"
        )
    found = every[0]
    pairs = [Pair(a, b, a, b) for a, b in found.pairs()]
    whole = replace(read, measured=replace(read.measured, pairs=pairs))
    phases = [measure(whole, head) for head in range(heads)]
    weight = np.stack([np.where(follows(p), p.frequencies, 0.0) for p in phases])
    sigma = np.stack([p.sigma for p in phases])
    layout, start = found.fields["layout"], found.fields.get("rotary_start", 0)
    e = MixedRoPE(read.dim, weight, layout=layout, rotary_start=start)
    card.frequencies, card.uncertainty = weight[0].sum(axis=0), np.sqrt((sigma[0] ** 2).sum(axis=0))
    card.facts["heads"] = f"each of {heads} heads has frequencies of its own"
    card.linear = card.linear and all(p.linear for p in phases)
    card.encoding = next(_fractions_of_heads(e, sigma), e)


def partly(
    card: Card, every: list[Structure], axis: np.ndarray, phases: Phases, factor: Factor
) -> None:
    """Write a rotation to the card in which some pairs of the layout follow no axis.

    ``axis`` and ``phases`` are those of the pairs that turn.
    """
    if not every or factor.short != 1.0:
        raise Unidentified("the channel pairs match no known layout (half, interleaved, blockwise)")
    found, w = every[0], phases.frequencies
    share = found.index / found.count
    for base in PUBLISHED_BASES:
        if Measurement(w, phases.sigma).agree(base**-share).all():
            w = base**-share
            card.relations += (
                f"pair k of {found.count} has the frequency {base:g} ** (-k / {found.count}), if "
                "it turns",
            )
            break
    weight = np.zeros((int(axis.max()) + 1, found.count))
    weight[axis, found.index] = w
    start = found.fields.get("rotary_start", 0)
    dim, layout = found.fields["head_dim"], found.fields["layout"]
    card.encoding = MixedRoPE(dim, weight, layout=layout, rotary_start=start)


def _fractions_of_heads(e: MixedRoPE, sigma: np.ndarray) -> Iterator[MixedRoPE]:
    """Yield LTX's frequencies over the channels of all heads, if they are those of ``e``."""
    turning = e.weight != 0
    heads = len(e.weight)
    for base in _ratios(np.abs(e.weight[turning])):
        with suppress(ValueError):
            tried = MixedRoPE.fractional(
                heads * e.head_dim, axes=e.num_axes, num_heads=heads, base=base
            )
            known = tried.weight
            if tried.layout == e.layout and known.shape == e.weight.shape:
                apart = Measurement(e.weight[turning], sigma[turning])
                if np.array_equal(known != 0, turning) and apart.agree(known[turning]).all():
                    yield tried


def fractions(shape: MultiAxisRoPE, m: Measurement) -> Iterator[MixedRoPE]:
    """Yield LTX's frequencies, which rise from pair to pair, for the pairs and axes of a shape."""
    for base in _ratios(m.w):
        with suppress(ValueError):
            tried = MixedRoPE.fractional(shape.head_dim, axes=shape.num_axes, base=base)
            pairs = np.array_equal(tried.pairs(), shape.pairs())
            if pairs and np.array_equal(np.argmax(tried.weight != 0, axis=0), shape.axes()):
                yield tried


def _ratios(w: np.ndarray) -> tuple[float, ...]:
    """Return the ratio of the largest to the smallest frequency, rounded and as it is."""
    ratio = float(w.max() / w.min())
    return tuple(b for b in dict.fromkeys((nice(ratio, 2.0**-16), ratio)) if b > 1)
