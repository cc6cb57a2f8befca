"""Biases of places that are no offsets of two tokens, and embeddings with a rule of their own."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref import Learned, LeViTBias, T5Bias
from posenc_ref.conformance.harness.implementation import Implementation

from . import lookup
from .bias import square
from .build import build, fill
from .census import Place
from .scores import first_softmax
from .single_table import keep_only

Found = Iterator[tuple[Implementation, Any]]
#: Patches on a side of LeViT's windows before it leaves out every second row and column.
SIDE = 4


def subsampled(place: Place) -> Found:
    """LeViT where it shrinks: the biases of each pair of a query, every second patch, and a key."""
    import torch

    file = importlib.import_module(place.file)
    module = fill(file.LevitAttentionSubsample(12, 12, 4, 3, 2, 2, SIDE, SIDE // 2))
    module.eval()  # which returns nothing there
    keep_only(module, module.attention_biases)
    whole = LeViTBias(module.attention_biases.detach().numpy().T.copy(), window=(SIDE, SIDE))
    left = [SIDE * y + x for y in range(0, SIDE, 2) for x in range(0, SIDE, 2)]
    expected = whole.bias(left, range(SIDE**2)).reshape(3, -1).T

    def pairs(positions: np.ndarray) -> np.ndarray:
        if np.min(positions, initial=0) < 0:
            raise IndexError("pairs are counted from 0")
        with torch.no_grad():
            logits = first_softmax(lambda: module(torch.zeros(1, SIDE**2, 12)))
        return np.asarray(logits[0].reshape(3, -1).T.numpy()[positions])

    made = Implementation(call=pairs, surface="table, pairs", name=place.name)
    yield made, Learned(np.ascontiguousarray(expected, np.float32))


def segments(place: Place) -> Found:
    """CPM-Ant: T5's buckets where all tokens are of one segment; other pairs have rows beside."""
    import torch

    sizes = {"position_bias_num_buckets": 32, "position_bias_max_distance": 128}
    module, _ = build(place, sizes)
    table = module.relative_attention_bias.detach().numpy()[:32]

    def bias(n: int) -> Any:
        at, one = torch.arange(n)[None], torch.ones(1, n, dtype=torch.int64)
        return module(at, at, one, one)[0]

    found = square(place, bias)
    yield found, T5Bias(table, num_buckets=32, max_distance=128, scaled=True)


def seen(place: Place) -> Found:
    """VisualBERT's tokens of an image, from the first."""
    import torch

    module, config = build(place, {"hidden_size": 48})
    table = module.visual_position_embeddings
    rows = table.weight.detach().numpy()

    def of(positions: np.ndarray) -> np.ndarray:
        p = np.asarray(positions)
        if not np.array_equal(p, np.arange(p.size)):
            raise ValueError("the tokens of an image from its first")
        image = torch.zeros(1, p.size, config.visual_embedding_dim)
        with (
            lookup.looked_up(table) as found,
            torch.no_grad(),
            contextlib.suppress(lookup.Looked),
        ):
            module(torch.ones(1, 1, dtype=torch.int64), visual_embeds=image)
        return np.asarray(rows[found[0].reshape(-1)])

    yield Implementation(call=of, surface="table", name=place.name), Learned(rows)


def cells(place: Place) -> Found:
    """TAPAS: positions that are given, and its own, which start again in every cell."""
    import torch

    yield from lookup.subjects(place)
    module, config = build(place, {"hidden_size": 48, "max_position_embeddings": 50_000})
    kinds = len(config.type_vocab_sizes)

    def restarting(lengths: Any) -> np.ndarray:
        each = torch.as_tensor(np.array(lengths, np.int64))
        tokens = int(each.sum())
        types = torch.zeros(1, tokens, kinds, dtype=torch.int64)
        types[0, :, 1] = torch.arange(len(each)).repeat_interleave(each)
        with (
            lookup.looked_up(module.position_embeddings) as found,
            torch.no_grad(),
            contextlib.suppress(lookup.Looked),
        ):
            module(torch.ones(1, tokens, dtype=torch.int64), token_type_ids=types)
        return np.asarray(found[0].reshape(-1))

    yield Implementation(call=restarting, surface="packed", name=place.name), None


OWN: dict[str, Callable[[Place], Found]] = {
    "levit.LevitAttentionSubsample.attention_biases": subsampled,
    "cpmant.CpmAntSegmentPositionEmbedding.relative_attention_bias": segments,
    "visual_bert.VisualBertEmbeddings.visual_position_embeddings": seen,
    "tapas.TapasEmbeddings.position_embeddings": cells,
}
