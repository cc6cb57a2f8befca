"""Grids of patches in models that make or use them in a way of their own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref import AxialLearned, Learned
from posenc_ref.conformance.harness.implementation import Implementation

from .build import build, fill
from .census import Place
from .frames import whole
from .image import SIDE
from .resized import Resized
from .single_table import entering, keep_only

Found = Iterator[tuple[Implementation, Any]]
#: Columns, and pixels to a patch.
DIM, PATCH = 16, 4
OWN_SIZE = (SIDE, SIDE)


def grid_of(
    place: Place, ask: Callable[[int, int], Any], declared: Any, surface: str = "grid"
) -> tuple[Implementation, Any]:
    """``ask`` gives the tokens of a grid in any shape, those of patches last."""

    def grid(height: int, width: int) -> np.ndarray:
        out = ask(height, width).detach()
        rows = out.reshape(-1, out.shape[-1])[-height * width :]
        return np.asarray(rows.numpy())

    return Implementation(call=grid, surface=surface, name=place.name), declared


def class_of(place: Place) -> Any:
    """The owner, not built."""
    return getattr(importlib.import_module(place.file), place.owner)


def rows_of(table: Any) -> np.ndarray:
    """A table of any shape as rows; channels are last."""
    return np.asarray(table.detach().reshape(-1, table.shape[-1]).numpy())


def axes(place: Place) -> Found:
    """DETR's learned encodings, Florence-2's: columns for x, then columns for y."""
    import torch

    file = importlib.import_module(place.file)
    if place.model == "florence2":
        config = file.Florence2Config()
        config.vision_config.max_position_embeddings = 50
        module = fill(file.Florence2VisionLearnedAbsolutePositionEmbedding2D(config).eval())
    else:
        module = fill(getattr(file, _learned(file))(DIM).eval())

    def ask(height: int, width: int) -> Any:
        if place.model == "florence2":
            out = module(torch.zeros(1, 3, height, width))
        else:
            out = module(torch.Size((1, 3, height, width)), "cpu", torch.float32)
        return out.flatten(2).transpose(1, 2)

    tables = rows_of(module.row_embeddings.weight), rows_of(module.column_embeddings.weight)
    yield grid_of(place, ask, AxialLearned(tables, order=(1, 0)))


def _learned(file: Any) -> str:
    return next(name for name in dir(file) if name.endswith("LearnedPositionEmbedding"))


def sums(place: Place) -> Found:
    """Gemma 4: a row for x and a row for y, added; padding has neither."""
    import torch

    if place.model == "gemma4":
        module, config = build(place, {"position_embedding_size": 40, "patch_size": PATCH})
        table = module.position_embedding_table
        x, y = rows_of(table[0]), rows_of(table[1])
        pixels = 3 * config.patch_size**2
    else:
        file = importlib.import_module(place.file)
        config = file.Gemma4UnifiedVisionConfig(
            mm_posemb_size=40, mm_embed_dim=DIM, output_proj_dims=DIM
        )
        words = file.Gemma4UnifiedTextConfig(hidden_size=DIM)
        module = fill(class_of(place)(config, words).eval())
        table = module.pos_embedding
        x, y = rows_of(table[:, 0]), rows_of(table[:, 1])
        pixels = 3 * config.model_patch_size**2
    keep_only(module, table)

    def ask(height: int, width: int) -> Any:
        down, right = np.divmod(np.arange(height * width), width)
        at = torch.as_tensor(np.stack([right, down], axis=-1))[None]
        patches = torch.full((1, height * width, pixels), 0.5)
        if place.model == "gemma4":
            return module(patches, at, torch.zeros(1, height * width, dtype=torch.bool))
        return module(patches, at).last_hidden_state

    yield grid_of(place, ask, AxialLearned((y, x), combine="sum"))


def rows_and_columns(place: Place) -> Found:
    """TVP: the same for a grid of features, with the other axis made zero."""
    import torch

    sizes = {"max_grid_row_position_embeddings": 40, "max_grid_col_position_embeddings": 41}
    module, _ = build(place, sizes)
    table = getattr(module, place.attribute).weight
    keep_only(module, table)
    tables = (module.row_position_embeddings.weight, module.col_position_embeddings.weight)
    width_of = table.shape[1]

    def ask(height: int, width: int) -> Any:
        return module(torch.zeros(1, 1, height, width, width_of))

    yield grid_of(place, ask, AxialLearned(tuple(rows_of(t) for t in tables), combine="sum"))


def only_size(place: Place) -> Found:
    """Llama 4 and Molmo 2: tables for one size of image, and never another one."""
    import torch

    if place.model == "llama4":
        module, config = build(place, {"image_size": 8 * PATCH, "patch_size": PATCH})
        given, first = torch.zeros(1, 3, 8 * PATCH, 8 * PATCH), module.model
    else:
        module, config = build(place, {"num_position_embeddings": 64, "patch_size": PATCH})
        given, first = torch.zeros(1, 64, 3 * config.patch_size**2), None
    table = getattr(module, place.attribute)
    keep_only(module, table)
    yield whole(
        place, lambda: entering(module, lambda: module(given), first), Learned(rows_of(table))
    )


def tiles(place: Place) -> Found:
    """Mllama: a gate between the rows of patches and those of the tiles, at either end."""
    import torch

    name = place.made.partition("(")[0]
    file = importlib.import_module(place.file)
    config = file.MllamaVisionConfig(image_size=4 * PATCH, patch_size=PATCH, hidden_size=DIM)
    module = fill(getattr(file, name)(config).eval())
    patches = 17 if name.endswith("PositionEmbedding") else 1
    states = torch.zeros(1, config.max_num_tiles, patches, DIM)

    def added(aspect: int, gate: float) -> Any:
        with torch.no_grad():
            module.gate.fill_(gate)
            return module(states, torch.tensor([[aspect]]))

    if patches > 1:
        own = rows_of(module.embedding)
        yield whole(place, lambda: added(1, 0.0)[0, 0], Learned(own), "table, gate at 0")
    parts = module.tile_embedding if patches > 1 else module.embedding
    each = rows_of(parts.weight.reshape(len(parts.weight), -1, DIM))
    aspects = range(len(parts.weight))

    def tiled() -> Any:
        return torch.cat([added(a, 30.0).reshape(-1, DIM) for a in aspects])

    yield whole(place, tiled, Learned(each), "table, of tiles")


def windows_of(place: Place) -> Found:
    """Granite 4 Vision: a row for each patch of a window, the same in all windows."""
    import torch

    file = importlib.import_module(place.file)
    config = file.Granite4VisionConfig(downsample_rate="4/8")
    config.vision_config.image_size = 16 * config.vision_config.patch_size
    config.qformer_config.num_hidden_layers = 1
    module = fill(class_of(place)(config).eval())
    table = module.image_positions
    keep_only(module, table)
    image = torch.zeros(1, 256, table.shape[-1])

    def added() -> Any:
        return entering(module, lambda: module(image), module.qformer)

    yield whole(place, added, Learned(np.tile(rows_of(table), (4, 1))))


def masked_units(place: Place) -> Found:
    """Hiera: patches overlap, an image has as many as strides; its decoder has no other size."""
    import torch

    size = [SIDE * PATCH] * 2
    given = {
        "image_size": size, "patch_stride": [PATCH, PATCH], "masked_unit_size": [7, 7],
        "embed_dim": DIM, "depths": [1], "num_heads": [2], "num_query_pool": 0,
        "decoder_hidden_size": DIM, "decoder_depth": 1, "decoder_num_heads": 2,
    }  # fmt: skip
    module, _ = build(place, given)
    table = getattr(module, place.attribute)
    keep_only(module, table)
    if place.owner == "HieraDecoder":
        units = torch.zeros(1, 4, 7, 7, module.decoder_embeddings.in_features)
        kept = torch.ones(1, 4, dtype=torch.bool)
        block = module.decoder_block
        yield whole(
            place,
            lambda: entering(module, lambda: module(units, kept), block),
            Learned(rows_of(table)),
        )
        return

    def ask(height: int, width: int) -> Any:
        image = torch.zeros(1, 3, PATCH * height, PATCH * width)
        return module(image, interpolate_pos_encoding=True)[0]

    yield grid_of(place, ask, Resized(rows_of(table), OWN_SIZE))


OWN: dict[str, Callable[[Place], Found]] = {
    "detr.DetrModel.position_embedding": axes,
    "conditional_detr.ConditionalDetrModel.position_embedding": axes,
    "deformable_detr.DeformableDetrModel.position_embedding": axes,
    "florence2.Florence2MultiModalProjector.image_position_embed": axes,
    "gemma4.Gemma4VisionPatchEmbedder.position_embedding_table": sums,
    "gemma4_unified.Gemma4UnifiedVisionEmbedder.pos_embedding": sums,
    "tvp.TvpVisualInputEmbedding.row_position_embeddings": rows_and_columns,
    "tvp.TvpVisualInputEmbedding.col_position_embeddings": rows_and_columns,
    "llama4.Llama4VisionModel.positional_embedding_vlm": only_size,
    "molmo2.Molmo2VisionModel.positional_embedding": only_size,
    "mllama.MllamaVisionModel.gated_positional_embedding": tiles,
    "mllama.MllamaVisionModel.pre_tile_positional_embedding": tiles,
    "granite4_vision.Granite4VisionWindowQFormerDownsampler.image_positions": windows_of,
    "hiera.HieraEmbeddings.position_embeddings": masked_units,
    "hiera.HieraDecoder.decoder_position_embeddings": masked_units,
}
