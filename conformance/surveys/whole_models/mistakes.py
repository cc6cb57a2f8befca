"""Changes of the reference: controls, which must be rejected, and causes of deviations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from .calls import Batch
from .reference import Layer

#: A wrong reference: the layer and the tokens of its positions and mask.
Changed = tuple[Layer, Batch]


def controls(layer: Layer, batch: Batch) -> Iterator[tuple[str, Changed]]:
    """Yield wrong references by name; none of them may agree with a model."""
    yield "scale 1 % larger", (layer.replace(scale_factor=1.01), batch)
    window = None if layer.window is None else layer.window - 1
    if layer.causal or window is not None:
        yield "mask one key late", (layer.replace(nearest=-1, window=window), batch)
    if layer.encoding is not None:
        yield "cos and sin 1.5 times larger", (layer.replace(table_factor=1.5), batch)
        yield "frequencies 1 % larger", (layer.replace(stretch=1.01), batch)
        yield "queries one position late", (layer.replace(query_shift=1), batch)
    if not batch.real.all():
        yield "padding visible", (layer, _unpadded(batch))


def causes(
    layer: Layer, batch: Batch, factors: Iterable[float] = ()
) -> Iterator[tuple[str, str, Changed]]:
    """Yield code, sentence and wrong reference of the mistakes that a model may make.

    ``factors`` are those that the model has on cos and sin.
    """
    if batch.sequence.max() > 0:
        joined = Batch(batch.ids, batch.positions)
        slots = np.broadcast_to(np.arange(batch.ids.shape[1]), batch.ids.shape)
        seen = "packed sequences see each other"
        yield "mask", seen, (layer.replace(by_slot=True), joined)
        yield "mask", f"{seen}, and positions count all tokens", (layer, Batch(batch.ids, slots))
        counted = Batch(batch.ids, slots, batch.sequence)
        yield "positions", "positions count all tokens of the row", (layer, counted)
    if not batch.real.all():
        yield "mask", "padding is visible", (layer, _unpadded(batch))
        slots = np.broadcast_to(np.arange(batch.ids.shape[1]), batch.ids.shape)
        counted = Batch(batch.ids, np.where(batch.real, slots, -1))
        yield "positions", "positions count the padding", (layer, counted)
    if layer.window is not None:
        yield "mask", "the window is not applied", (layer.replace(window=None), batch)
        for by in (-1, 1):
            changed = layer.replace(window=layer.window + by)
            yield "mask", f"the window has {layer.window + by} keys", (changed, batch)
    else:
        for size in (5, 6):
            yield "mask", f"a window of {size} keys", (layer.replace(window=size), batch)
    if layer.chunk is not None:
        yield "mask", "the chunks are not applied", (layer.replace(chunk=None), batch)
    if layer.causal:
        yield "mask", "later keys are visible", (layer.replace(causal=False), batch)
    else:
        yield "mask", "later keys are not visible", (layer.replace(causal=True), batch)
    if layer.encoding is not None:
        yield "rotation", "q and k are not rotated", (layer.replace(encoding=None), batch)
        right = layer.encoding.attention_factor()
        for factor in factors:
            text = f"cos and sin are multiplied by {factor:.6g}, not by {right:.6g}"
            changed = layer.replace(table_factor=factor / right)
            yield "attention-factor", text, (changed, batch)
    if layer.query_scale is not None:
        yield "query-scale", "no query scale", (layer.replace(query_scale=None), batch)
    if layer.scale is not None:
        yield "scale", "the scale is 1/sqrt(head_dim)", (layer.replace(scale=None), batch)
    yield "scale", "the scale is 1", (layer.replace(scale=1.0), batch)
    if layer.softcap is not None:
        yield "softcap", "no softcap", (layer.replace(softcap=None), batch)
    if layer.sinks is not None:
        yield "sinks", "no sinks", (layer.replace(sinks=None), batch)


def _unpadded(batch: Batch) -> Batch:
    return Batch(batch.ids, np.maximum(batch.positions, 0), batch.sequence)
