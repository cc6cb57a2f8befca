"""The learned tables of axial-positional-embedding."""

from __future__ import annotations

from functools import partial

import numpy as np

from posenc_ref import AxialLearned
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import rows_of

_LIBRARY = "axial-positional-embedding"
_SHAPE, _DIM = (8, 16), 24


def functions() -> list[LibraryFunction]:
    """Return the sum and the concatenation of the rows of two axes, for tokens and images."""
    function = functions_of(_LIBRARY, "axial_positional_embedding.py: ")
    summed = AxialLearned(tuple(np.zeros((n, _DIM)) for n in _SHAPE), combine="sum", flat=True)
    joined = AxialLearned(tuple(np.zeros((n, _DIM // 2)) for n in _SHAPE), flat=True)
    halves = partial(_table, axial_dims=(_DIM // 2, _DIM // 2))
    return [
        function("AxialPositionalEmbedding", "AxialPositionalEmbedding", _table, summed,
                 dtypes=("float32",)),
        function("AxialPositionalEmbedding, axial_dims", "AxialPositionalEmbedding", halves,
                 joined, dtypes=("float32",)),
        function("AxialPositionalEmbeddingImage", "AxialPositionalEmbeddingImage",
                 partial(_table, image=True), summed, dtypes=("float32",),
                 says="channels before rows and columns"),
    ]  # fmt: skip


def _table(image: bool = False, axial_dims: tuple[int, ...] | None = None) -> Implementation:
    import torch
    from axial_positional_embedding import (
        AxialPositionalEmbedding,
        AxialPositionalEmbeddingImage,
    )

    cls = AxialPositionalEmbeddingImage if image else AxialPositionalEmbedding
    module = cls(_DIM, _SHAPE, axial_dims)
    with torch.no_grad():
        if image:
            rows = module(torch.zeros(1, _DIM, *_SHAPE))[0].flatten(1).T
        else:
            rows = module(torch.zeros(1, _SHAPE[0] * _SHAPE[1], _DIM))[0]
    weights = module.pos_emb.weights if image else module.weights
    tables = tuple(weight.detach().flatten(0, -2).numpy() for weight in weights)
    declared = AxialLearned(tables, combine="concat" if axial_dims else "sum", flat=True)
    return Implementation(rows_of(rows), "table", _LIBRARY, declared, backend="torch")
