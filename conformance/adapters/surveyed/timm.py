"""Rotary embeddings, sinusoidal tables and convolutional positions of timm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import (
    DETRSine,
    GivenFrequencies,
    MixedRoPE,
    MultiAxisRoPE,
    Sinusoidal2D,
)
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.adapters.rotations import on_grids, row_by_row
from posenc_ref.conformance.calling.grids import Grid
from posenc_ref.conformance.harness.implementation import Implementation

from . import timm_bias

LIBRARY = "timm"
_SINCOS = "layers/pos_embed_sincos.py: "
_function = functions_of(LIBRARY, "")
_axial = partial(MultiAxisRoPE, 64, sections=(16, 16), spacing="restart")
_PAIRS = _axial(layout="interleaved")
#: The axis of each pair if the column comes first.
_COLUMN_FIRST = (1,) * 16 + (0,) * 16
#: A grid for modules whose frequencies depend on its size, and a square one.
_GRID, _SQUARE = (12, 20), 14


def functions() -> list[LibraryFunction]:
    """Return the rotary classes, the tables, the convolutions and the biases."""
    return [*_rotary(), *_tables(), *timm_bias.functions()]


def _rotary() -> list[LibraryFunction]:
    def cat(name: str, expected: MultiAxisRoPE, **more: Any) -> LibraryFunction:
        says, own = more.pop("says", ""), more.pop("own", ())
        build = partial(_module, "RotaryEmbeddingCat", own, **{"in_pixels": False} | more)
        what = "RotaryEmbeddingCat, apply_rot_embed_cat"
        return _function(f"RotaryEmbeddingCat{name}", f"{_SINCOS}{what}", build, expected,
                         says=says)  # fmt: skip

    periods = 0.5 * 180 ** np.linspace(0, 1, 16)
    pixels = 2.0 ** np.linspace(0, np.log2(224) - 1, 16) * np.pi
    centred: dict[str, Any] = {"offset": -(_SQUARE - 1) / 2}
    mixed = "RotaryEmbeddingMixed, apply_rot_embed_cat"
    return [
        _function("RotaryEmbedding", f"{_SINCOS}RotaryEmbedding, apply_rot_embed", _tuple, _PAIRS),
        cat("", _PAIRS),
        cat(", rotate_half", _axial(layout="half"), rotate_half=True,
            says="Qwen3-VL's and DeepSeek's towers, in qwen3_vit.py and deepseek_vit.py"),
        cat(", xy", _PAIRS.replace(arrangement=_COLUMN_FIRST), grid_indexing="xy"),
        cat(", grid_offset", _PAIRS.replace(offset=1.0), grid_offset=1.0,
            says="Perception Encoder counts from 1"),
        cat(", ref_feat_shape", _PAIRS.replace(position_scale=(16 / 12, 16 / 20)), own=_GRID,
            ref_feat_shape=(16, 16), says="EVA-02: row r of n is at r / n * 16"),
        cat(", pixels", _PAIRS.replace(scaling=GivenFrequencies(tuple(pixels.tolist())), **centred,
                                       position_scale=2 / (_SQUARE - 1)),
            own=(_SQUARE, _SQUARE), in_pixels=True,
            says="the default: row r of n is at 2 r / (n - 1) - 1"),
        cat(", cached", _PAIRS, own=_GRID, feat_shape=_GRID),
        _function("RotaryEmbeddingCat.get_batch_embeds", f"{_SINCOS}"
                  "RotaryEmbeddingCat.get_batch_embeds", _batch, _PAIRS,
                  says="the embedding of the second of two grids, cut from a larger one"),
        _function("RotaryEmbeddingDinoV3", f"{_SINCOS}RotaryEmbeddingDinoV3, apply_rot_embed_cat",
                  partial(_module, "RotaryEmbeddingDinoV3", (_SQUARE, _SQUARE), half=True),
                  _axial(layout="half", base=100.0, position_scale=4 * np.pi / _SQUARE, **centred),
                  says="the centre of patch r of n is at (2 r + 1) / n - 1, a turn is 1"),
        _function("RotaryEmbeddingDinoV3, min", f"{_SINCOS}RotaryEmbeddingDinoV3",
                  partial(_module, "RotaryEmbeddingDinoV3", (_SQUARE, _SQUARE), half=True,
                          normalize_coords="min", min_period=0.5, max_period=90.0),
                  _axial(layout="half", position_scale=4 * np.pi / _SQUARE, **centred,
                         scaling=GivenFrequencies(tuple((1 / periods).tolist())))),
        _function("RotaryEmbeddingMRope", f"{_SINCOS}RotaryEmbeddingMRope, apply_rot_embed_cat",
                  partial(_module, "RotaryEmbeddingMRope", (), half=True), _mrope(),
                  says="pairs of the time axis do not turn"),
        _function("RotaryEmbeddingMixed", f"{_SINCOS}{mixed}", _mixed, _mixed_zeros(),
                  says="grid_indexing 'xy', the default: the first table belongs to the column"),
        _function("RotaryEmbeddingMixed, ij", f"{_SINCOS}{mixed}",
                  partial(_mixed, grid_indexing="ij"), _mixed_zeros()),
        _function("RotaryEmbeddingMixed.get_batch_embeds", f"{_SINCOS}"
                  "RotaryEmbeddingMixed.get_batch_embeds", partial(_mixed, batch=True),
                  _mixed_zeros()),
        _function("Gemma4RotaryEmbedding2D", "models/gemma4_vit.py: Gemma4RotaryEmbedding2D, "
                  "apply_multidimensional_rope", _gemma4, _axial(layout="blockwise", base=100.0),
                  says="position axis 0 is the column"),
    ]  # fmt: skip


def _tables() -> list[LibraryFunction]:
    build, sines = "build_sincos2d_pos_embed", partial(Sinusoidal2D, 64)
    norm = DETRSine(64, eps=1e-6)

    def table(name: str, expected: Sinusoidal2D, **settings: Any) -> LibraryFunction:
        says = settings.pop("says", "")
        return _function(f"{build}{name}", f"{_SINCOS}{build}", partial(_sincos, **settings),
                         expected, says=says)  # fmt: skip

    return [
        table("", sines(layout="grouped")),
        table(", interleave_sin_cos", sines(), interleave_sin_cos=True),
        table(", reverse_coord", sines(layout="grouped", axis_order="wh"), reverse_coord=True,
              says="the documentation: stack grid order W, H instead of H, W"),
        _function("XCiT", "models/xcit.py: PositionalEncodingFourier", partial(_fourier, "xcit"),
                  norm, says="the projection after it is the identity here"),
        _function("EdgeNeXt", "models/edgenext.py: PositionalEncodingFourier",
                  partial(_fourier, "edgenext"), norm,
                  says="the projection after it is the identity here"),
        _function("FourierEmbed", f"{_SINCOS}FourierEmbed", partial(_undriven, "it concatenates "
                  "its table to the image, for a grid of its own"), None, unknown="-",
                  says="Perceiver's features of a grid from -1 to 1; only the whole grid is made"),
    ]  # fmt: skip


def _undriven(reason: str) -> Implementation:
    raise ValueError(reason)


def _module(
    cls: str, own: tuple[int, ...], half: bool = False, **settings: Any
) -> Implementation:  # fmt: skip
    """Adapt a rotary class with concatenated sines and cosines."""
    from timm.layers import pos_embed_sincos as layers

    half = half or settings.get("rotate_half", False)
    module = getattr(layers, cls)(64, **settings)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        table = module.get_embed(None if "feat_shape" in settings else list(sizes))
        return layers.apply_rot_embed_cat(x, table, half=half)

    return on_grids(LIBRARY, call, grid=Grid(2, own=own))


def _tuple() -> Implementation:
    from timm.layers.pos_embed_sincos import RotaryEmbedding, apply_rot_embed

    module = RotaryEmbedding(64, in_pixels=False)
    return on_grids(LIBRARY, lambda x, sizes: apply_rot_embed(x, *module.get_embed(list(sizes))))


def _batch() -> Implementation:
    from timm.layers.pos_embed_sincos import RotaryEmbeddingCat, apply_rot_embed_cat

    module = RotaryEmbeddingCat(64, in_pixels=False)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        height, width = sizes
        _, table = module.get_batch_embeds([(height + 1, width + 2), (height, width)])
        return apply_rot_embed_cat(x, table)

    return on_grids(LIBRARY, call)


def _mrope() -> MixedRoPE:
    """Return the rotation of ``RotaryEmbeddingMRope``, with a weight of 0 for pairs of time.

    Of 32 pairs, those at 1, 4, 7, ... belong to the row and those at 2, 5, 8, ... to the column.
    """
    weight, frequencies = np.zeros((2, 32)), 10000.0 ** (-np.arange(32) / 32)
    for axis in (0, 1):
        pairs = slice(1 + axis, 3 * 12, 3)
        weight[axis, pairs] = frequencies[pairs]
    return MixedRoPE(64, weight, layout="half")


def _mixed_zeros() -> MixedRoPE:
    """Return the declaration of a module whose weights are drawn when it is built."""
    return MixedRoPE(64, np.zeros((2, 2, 32)), layout="interleaved")


def _mixed(grid_indexing: str = "xy", batch: bool = False) -> Implementation:
    import torch
    from timm.layers.pos_embed_sincos import RotaryEmbeddingMixed, apply_rot_embed_cat

    torch.manual_seed(0)
    module = RotaryEmbeddingMixed(128, depth=2, num_heads=2, grid_indexing=grid_indexing)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        height, width = sizes
        with torch.no_grad():
            if batch:
                _, table = module.get_batch_embeds([(height + 1, width + 2), (height, width)])
            else:
                table = module.get_embed([height, width])
        return apply_rot_embed_cat(x, table[1])

    weight = module.freqs[:, 1].detach().numpy().transpose(1, 0, 2)
    if grid_indexing == "xy":
        weight = weight[:, ::-1]
    found = on_grids(LIBRARY, call, num_heads=2)
    return _declared(found, MixedRoPE(64, weight, layout="interleaved"))


def _declared(found: Implementation, encoding: Any) -> Implementation:
    import dataclasses

    return dataclasses.replace(found, encoding=encoding)


def _gemma4() -> Implementation:
    from timm.models.gemma4_vit import Gemma4RotaryEmbedding2D, apply_multidimensional_rope

    module = Gemma4RotaryEmbedding2D(64)

    def call(x: Any, positions: Any) -> Any:
        cos, sin = module(x, positions.T[None])
        return apply_multidimensional_rope(x.transpose(1, 2), cos, sin).transpose(1, 2)

    apply = row_by_row(call, axes=2)
    return Implementation(apply, "apply", LIBRARY, backend="torch", head_dim=64, axes=2)


def _grid(rows: Callable[[int, int], Any]) -> Implementation:
    return Implementation(rows, "grid", LIBRARY, backend="torch")


def _sincos(**settings: Any) -> Implementation:
    from timm.layers import build_sincos2d_pos_embed

    return _grid(lambda height, width: build_sincos2d_pos_embed([height, width], 64, **settings))


def _fourier(model: str) -> Implementation:
    import importlib

    import torch

    cls = importlib.import_module(f"timm.models.{model}").PositionalEncodingFourier
    module = cls(hidden_dim=32, dim=64)
    with torch.no_grad():
        module.token_projection.weight.copy_(torch.eye(64)[:, :, None, None])
        module.token_projection.bias.zero_()

    def rows(height: int, width: int) -> Any:
        with torch.no_grad():
            image = module(1, height, width) if model == "xcit" else module((1, height, width))
        return image[0].flatten(1).T

    return _grid(rows)
