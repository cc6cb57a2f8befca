"""Encodings of rotary-embedding-torch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import GivenFrequencies, LinearScaling, MultiAxisRoPE, NTKScaling, RoPE
from posenc_ref.conformance.calling.positions import require_indices, window_start
from posenc_ref.conformance.harness.implementation import Implementation

from .library import VECTORS, LibraryFunction, functions_of

_apply = partial(
    Implementation, surface="apply", name="rotary-embedding-torch", backend="torch", head_dim=64
)


def functions() -> list[LibraryFunction]:
    """Return the functions for text (``freqs_for="lang"``), pixels and grids, and xPos."""
    function = functions_of("rotary-embedding-torch", "rotary_embedding_torch.py: ")
    rope = partial(RoPE, 64, layout="interleaved")
    rotate = "RotaryEmbedding.rotate_queries_or_keys"
    # torch.linspace(1, max_freq / 2, dim / 2) * pi, with max_freq = 10.
    pixel = GivenFrequencies(tuple(np.linspace(1.0, 5.0, 32) * np.pi))
    return [
        function("lang", rotate, rotary, rope(), fast=True, dtypes=VECTORS),
        function("lang, half of the head", rotate, partial(rotary, 32), rope(rotary_dim=32)),
        function("lang, interpolated", rotate, partial(rotary, interpolate_factor=4.0),
                 rope(scaling=LinearScaling(4.0))),
        function("lang, rescaled theta", "RotaryEmbedding.__init__ (theta_rescale_factor)",
                 partial(_forward, theta_rescale_factor=8.0), rope(scaling=NTKScaling(8.0))),
        function("pixel", "RotaryEmbedding.forward, apply_rotary_emb",
                 partial(_forward, freqs_for="pixel"), rope(scaling=pixel)),
        function("axial", "RotaryEmbedding.get_axial_freqs, apply_rotary_emb", _axial,
                 MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart")),
        function("xPos", "RotaryEmbedding.get_scale, apply_rotary_emb", _xpos, None,
                 unknown="as in xPos",
                 says="in a call of S tokens, the exponent of the scale at position p is "
                      "(p - S // 2) / 512; at the last position that is about p / 1024",
                 remark="For scales, rotate_queries_with_cached_keys subtracts half the number of "
                        "queries from query positions, and half the number of keys from key "
                        "positions. The two shifts cancel only if these numbers are equal (see "
                        "lucidrains/rotary-embedding-torch#27). With 1024 keys and the last query "
                        "alone, logits of random q and k differ from those of the whole sequence "
                        "by up to 8.8; the largest logit is 23.8. Without xPos they agree to the "
                        "last bit."),
    ]  # fmt: skip


def rotary(rotary_dim: int = 64, **settings: Any) -> Implementation:
    """Return `RotaryEmbedding.rotate_queries_or_keys` as an `Implementation`.

    It takes an offset. It caches angles between calls, in the dtype of the first queries that
    reach a position.
    """
    from rotary_embedding_torch import RotaryEmbedding

    module = RotaryEmbedding(rotary_dim, **settings)
    return _apply(
        lambda x, positions: module.rotate_queries_or_keys(x, offset=window_start(positions)),
        factory=partial(rotary, rotary_dim, **settings),
    )


def _forward(**settings: Any) -> Implementation:
    """Return a rotation by ``RotaryEmbedding.forward``, at any positions and without the cache."""
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    module = RotaryEmbedding(64, **settings)
    return _apply(lambda x, p: apply_rotary_emb(module(p), x))


def _axial() -> Implementation:
    import torch
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    table = RotaryEmbedding(32).get_axial_freqs(160, 160)

    def apply(x: Any, positions: Any) -> Any:
        require_indices(positions)
        rows = table[positions[0], positions[1]]
        return torch.cat(
            [apply_rotary_emb(row, one[None]) for row, one in zip(rows, x, strict=True)]
        )

    return _apply(apply, axes=2)


def _xpos() -> Implementation:
    from rotary_embedding_torch import RotaryEmbedding

    def queries(x: Any, positions: Any) -> Any:
        end = window_start(positions) + x.shape[-2]
        if end > 4096:
            raise ValueError("positions must be below 4096: a call rotates every token from 0 on")
        whole = x.new_zeros((*x.shape[:-2], end, x.shape[-1]))
        whole[..., end - x.shape[-2] :, :] = x
        # A new module, because the cached scales are those of another length.
        module = RotaryEmbedding(64, use_xpos=True, cache_if_possible=False)
        return module.rotate_queries_and_keys(whole, whole)[0][..., end - x.shape[-2] :, :]

    return _apply(queries)
