"""Frequencies of known mistakes in the learned weights of RoPE-Mixed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posenc_ref import MixedRoPE

from .frequencies import FrequencyMistake, half_precision


def mixed_mistakes(encoding: MixedRoPE) -> Iterator[FrequencyMistake]:
    """Yield mistakes in the weights (A, P), which are seen at positions equal on all axes."""
    weight = np.asarray(encoding.weight)
    count, pairs = weight.shape
    for name, rounded in half_precision(weight):
        yield FrequencyMistake(
            "angle-precision",
            f"the weights are rounded to {name}",
            rounded.sum(axis=0),
            remedy=f"Keep the weights in float32, not in {name}, and cast results only.",
        )
    k = np.arange(pairs)
    places = (
        ("", k >= 0), (f", in pairs from {pairs // 2} on", k >= pairs // 2),
        (f", in pairs up to {pairs // 2 - 1}", k < pairs // 2),
        (", in odd pairs", k % 2 == 1), (", in even pairs", k % 2 == 0),
    )  # fmt: skip
    sums = " + ".join(f"p_{a} weight[{a}, k]" for a in range(count))
    remedy = f"Turn every pair k by {sums}."
    for axis in range(count):
        for where, here in places:
            for code, words, factor in (
                ("sign", "is subtracted, not added", -1.0),
                ("sections", "is left out", 0.0),
                ("position-scale", "is added twice", 2.0),
            ):
                changed = np.array(weight)
                changed[axis, here] *= factor
                text = f"the angle of axis {axis} {words}{where}"
                yield FrequencyMistake(code, text, changed.sum(axis=0), remedy=remedy)
