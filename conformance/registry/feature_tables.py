"""Tables with weights: Fourier features, Time2Vec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_ref import FourierFeatures, Time2Vec
from posenc_ref.conformance.exact.error_numbers import cos, counted, dot, pi, sin

from . import numbers, register


@register(
    FourierFeatures,
    spec="Tancik et al. 2020, arXiv:2006.10739; Mildenhall et al. 2020, NeRF, arXiv:2003.08934",
    examples={
        "fourier-turn": FourierFeatures(
            numbers("fourier", 4, 2) / 3, unit="turn", first="cos"
        ),
        "fourier-radian": FourierFeatures(
            numbers("fourier-radian", 5, 1) / 3, unit="radian", layout="interleaved", scale=0.5,
            offset=-0.5, position_scale=2.0,
        ),
        "fourier-nerf": FourierFeatures.nerf(3, num_axes=2, include_input=True),
        "fourier-perceiver": FourierFeatures.perceiver(3, (8, 12)),
    },
)  # fmt: skip
def fourier_features(e: FourierFeatures, *v: Any) -> Sequence[Any]:
    """Return sines and cosines of linear maps of v, after v itself if ``include_input``."""
    u = [e.position_scale * (x + e.offset) for x in v]
    unit = {"turn": 2 * pi(), "half-turn": pi(), "radian": 1}[e.unit]
    angles = [unit * dot(row, u) for row in e.matrix.tolist()]
    kinds = [[e.scale * f(a) for a in angles] for f in (sin, cos)]
    one, two = kinds if e.first == "sin" else kinds[::-1]
    size = {"concat": len(angles), "interleaved": 1, "grouped": len(v)}[e.layout]
    columns = list(u) if e.include_input else []
    for start in range(0, len(angles), size):
        columns += one[start : start + size] + two[start : start + size]
    return columns


_TIMES = np.abs(numbers("time2vec-weight", 6)) / 3, numbers("time2vec-bias", 6)


@register(
    Time2Vec,
    spec="Kazemi et al. 2019, Time2Vec, arXiv:1907.05321, equation (1)",
    examples={
        "time2vec": Time2Vec(*_TIMES),
        "time2vec-cos-last": Time2Vec(*_TIMES, function="cos", linear="last"),
    },
)
def time2vec(e: Time2Vec, t: Any) -> Sequence[Any]:
    """Return one component of ``w t + b``, and sines or cosines of the other components."""
    line, *rest = (
        counted(w) * t + b for w, b in zip(e.weight.tolist(), e.bias.tolist(), strict=True)
    )
    waves = [(sin if e.function == "sin" else cos)(x) for x in rest]
    return [line, *waves] if e.linear == "first" else [*waves, line]
