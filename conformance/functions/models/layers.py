"""Which layers have a positional encoding: ``layers``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import ModelEncoding
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.functions.function import Arguments, Function, Plain, several, written
from posenc_ref.conformance.harness.plural import ordinal, ranges


def _depth(model: ModelEncoding, seed: int, dtype: str) -> Iterator[Arguments]:
    yield Arguments("all layers", (len(model.layer_types),))


#: Periods of layers below this one are tried.
_PERIOD = 13


def _layer_mistakes(model: ModelEncoding) -> Iterator[Mistake]:
    flags = np.array(pr.layers(model, len(model.layer_types)))

    def fixed(values: np.ndarray) -> Function:
        return lambda n: values

    code = "layer-schedule"
    yield from several(
        (code, "the schedule is inverted: layers that should rotate do not",
         fixed(~flags),
         "Read the flag as the model's code does: no_rope_layers is 1 if a layer rotates."),
        (code, "every layer has a positional encoding", fixed(np.ones_like(flags))),
        (code, "no layer has a positional encoding", fixed(np.zeros_like(flags))),
    )  # fmt: skip
    for by in (1, -1):
        text = f"the schedule is one layer too {'late' if by > 0 else 'early'}"
        yield written(code, text, fixed(np.roll(flags, by)))
    yield written(code, "the schedule runs from the last layer to the first", fixed(flags[::-1]))
    for parts in range(2, flags.size // 2 + 1):
        stage = -(-flags.size // parts)
        if flags.size % parts == 0:
            text = f"layers are counted from 0 again in each of {parts} parts of {stage} layers, "
            text += "as in pipeline stages"
            yield written(code, text, fixed(np.tile(flags[:stage], parts)))
    odd = np.flatnonzero(flags != np.bincount(flags.astype(int), minlength=2).argmax())
    if odd.size > 1 and np.unique(np.diff(odd)).size == 1:
        n = int(odd[1] - odd[0])
        common, index = not flags[odd[0]], np.arange(flags.size)
        kind = f"layers {'without' if common else 'with'} an encoding"

        def others(mask: np.ndarray) -> Function:
            return fixed(np.where(mask, not common, common))

        for start in range(n):
            text = f"{kind} start at layer {start}, declared {odd[0]}"
            last = start == (flags.size - 1) % n
            text += ": every such layer is counted from the last layer of the model" * last
            yield written(code, text, others(index % n == start))
        for other in sorted({*range(2, _PERIOD)} - {n}, key=lambda m: abs(m - n)):
            for start in (other - 1, *range(other - 1)):
                text = f"every {ordinal(other)} layer is one of the {kind}, declared every "
                text += ordinal(n)
                text += f"; the first is layer {start}" * (start != other - 1)
                yield written(code, text, others(index % other == start))


def _other_layers(
    model: ModelEncoding, arguments: tuple[Any, ...], actual: np.ndarray
) -> Iterator[Mistake]:
    """Yield the layers that the function says have an encoding, as numbers."""
    flags = np.array(pr.layers(model, len(model.layer_types)))
    if actual.shape == flags.shape:
        seen, own = (ranges(np.flatnonzero(v).tolist()) or "none" for v in (actual, flags))
        text = f"the layers with an encoding are {seen}, declared {own}"
        yield written("layer-schedule", text, lambda n: actual.astype(bool))


def _layers_remedy(model: ModelEncoding) -> str:
    """Return the layers with an encoding."""
    flags = pr.layers(model, len(model.layer_types))
    which = ranges(np.flatnonzero(flags).tolist()) or "none"
    return f"Layers with a positional encoding: {which}; layers are counted from 0."


LAYERS = Plain(
    _depth,
    _layer_mistakes,
    "layer-schedule",
    suggested=_other_layers,
    remedy=_layers_remedy,
)
