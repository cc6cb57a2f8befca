"""The pictures of declarations that are no encodings: attention, convolutions, rules, factors."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from posenc_ref import (
    Attention,
    CanvasPositions,
    ConvPositions,
    ImageGenerationPositions,
    LogNScale,
    LogTemperature,
    MRoPEPositions,
    PowerTemperature,
    QueryTemperature,
    RoPE,
    XDRoPEPositions,
)
from posenc_ref.conformance.functions.mrope_canvas import Sliced
from posenc_ref.conformance.functions.mrope_generation import ToCome
from posenc_ref.conformance.functions.mrope_layouts import Image, Text, Video
from posenc_ref.conformance.functions.position_rules import kind_of
from posenc_ref.conformance.registry import numbers
from posenc_ref.encoding import Value

from .picture import Line, Picture

#: Channels of a head where the encoding has no number of its own.
CHANNELS = 64
#: The most channels of a convolution's result that are drawn.
MOST_CHANNELS = 64


@cache
def examples() -> dict[type[Value], Value]:
    """Return the example of each class whose picture the book shows."""
    # Small numbers: GELU would hide large negative sums.
    kernel, bias = numbers("conv-picture", 8, 2, 31) / 32, numbers("conv-picture-bias", 8) / 32
    found: list[Value] = [
        Attention(RoPE(CHANNELS, layout="half")),
        ConvPositions((kernel,), (bias,), groups=4),
        MRoPEPositions(),
        XDRoPEPositions(),
        CanvasPositions(),
        ImageGenerationPositions(),
        QueryTemperature(0.1, 8192),
        LogNScale(2048),
        LogTemperature(0.1, 8192),
        PowerTemperature(0.1, 2048),
    ]
    return {type(one): one for one in found}


def prompt(rule: Any) -> list[Any]:
    """Return the segments of the prompt of which the positions are drawn."""
    if isinstance(rule, CanvasPositions):
        return [Text(6), Sliced(4, 6, 1, 2, (4, 3)), Text(6)]
    if isinstance(rule, ImageGenerationPositions):
        return [Text(6), Image(4, 6), Text(6), ToCome(4, 6)]
    video = [Video(6, 2, 3), Text(6)] if isinstance(rule, MRoPEPositions) and rule.videos else []
    return [Text(6), Image(4, 6), Text(6), *video]


def weights(a: Attention, count: int, head: int, heads: int) -> Picture:
    """Return the logarithms of the weights where all channels are 1, and sinks have logit 0."""
    e: Any = a.encoding
    same = np.ones((1, heads, count, getattr(e, "head_dim", CHANNELS)))
    at: Any = np.arange(count)
    if getattr(e, "num_axes", 1) > 1:
        at = np.tile(at, (e.num_axes, 1))
    # The values are the unit vectors, so that the output holds the weights.
    values = np.broadcast_to(np.eye(count), (1, heads, count, count))
    sinks = np.zeros(heads) if a.sinks else None
    plain = a.replace(values="plain")
    with np.errstate(divide="ignore"):  # a weight that underflows is drawn like an unseen key
        cells = np.log10(plain.output(same, same, values, at, at, sinks=sinks)[0, head])
    cells[~np.isfinite(cells)] = np.nan
    return Picture(
        "weights",
        f"Weights of equal content, head {head}",
        "key",
        "query",
        cells=cells,
        cells_label="log10 of the weight",
    )


def border(e: ConvPositions, count: int) -> Picture:
    """Return how much tokens that are all 1 differ in the result from the one in the middle.

    Of a grid the picture has channel 0.
    """
    if e.num_axes == 1:
        made = np.asarray(e.convolve(np.ones((1, count, e.dim))))[0, :, :MOST_CHANNELS]
        what, cells = ("channel", "token"), made - made[len(made) // 2]
    else:
        side = max(2, int(count**0.5))
        made = np.asarray(e.convolve(np.ones((1, side * side, e.dim)), side, side))[0, :, 0]
        made = made.reshape(side, side)
        what, cells = ("column", "row"), made - made[side // 2, side // 2]
    return Picture(
        "border",
        "Result for equal tokens, minus that in the middle",
        *what,
        cells=cells,
        cells_label="difference",
    )


def numbering(rule: Any) -> Picture:
    """Return the positions of the prompt on every axis, and those of the tokens after it."""
    kind = kind_of(rule)
    types, images, videos, seconds, mask, steps = kind.batch(rule, [prompt(rule)])
    made = rule.with_decoding(types, images, videos, seconds, mask, steps)[:, 0]
    names = ["time", "row", "column"]
    if isinstance(rule, XDRoPEPositions):
        first = [f"axis {n}" for n in range(rule.num_axes - 3)]
        names = [*first, "column", "row", "image"]
    index = np.arange(made.shape[1])
    return Picture(
        "numbering",
        "Positions of a prompt with an image",
        "token",
        "position",
        tuple(Line(name, index, row) for name, row in zip(names, made, strict=True)),
        steps=True,
    )


def factor(scale: Any, length: int | None) -> Picture:
    """Return the factor on the queries of positions up to ``length``, by default 64Ki."""
    at = np.unique(np.linspace(max(0, scale.first), (length or 65536) - 1, 2048).astype(np.int64))
    line = Line("factor", at, np.asarray(scale.factor(at), np.float64))
    return Picture("factor", "Factor on the query", "position of the query", "factor", (line,))
