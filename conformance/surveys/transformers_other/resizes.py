"""Grids of patches that models resize, cut or repeat in a way of their own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Learned
from posenc_ref.accuracy import Truth

from .build import build, fill, text_of
from .census import Place
from .frames import whole
from .grids import DIM, OWN_SIZE, PATCH, Found, class_of, grid_of, rows_of
from .image import SIDE, interpolation
from .resized import Resized
from .single_table import entering, keep_only


@dataclass(frozen=True, eq=False, repr=False)
class Squared(Resized):
    """Resized to the square of the longer side, of which the image is a corner."""

    def truth(self, positions: Any) -> Truth:
        """The rows of a whole grid, out of those of the square."""
        rows, columns = np.asarray(positions)
        side = int(max(rows.max(), columns.max())) + 1
        square = super().truth(np.divmod(np.arange(side**2), side))
        at = rows * side + columns
        return Truth(square.value[at], square.terms[at], square.angle[at])


@dataclass(frozen=True, eq=False, repr=False)
class Repeated(Resized):
    """Not resized: the grid again and again, down and to the right."""

    def truth(self, positions: Any) -> Truth:
        """The rows at the places modulo the grid's own size."""
        rows, columns = np.asarray(positions)
        h, w = self.own
        value = self.weight.astype(np.float64)[rows % h * w + columns % w]
        return Truth(value, np.zeros_like(value), np.zeros_like(value))


def backgrounds(place: Place) -> Found:
    """SAM 2: a grid that is resized and one that is repeated, each with the other made zero."""
    import torch

    module, _ = build(place, {"window_positional_embedding_background_size": [SIDE, SIDE]})
    table = getattr(module, place.attribute)
    keep_only(module, table)
    rows = np.ascontiguousarray(np.moveaxis(table.detach().numpy()[0], 0, -1))
    own = rows.shape[:2]
    kind = Repeated if place.attribute == "pos_embed_window" else Resized
    declared = kind(rows.reshape(-1, rows.shape[-1]), own)
    stride = 4

    def ask(height: int, width: int) -> Any:
        if kind is Repeated and (height % own[0] or width % own[1]):
            raise ValueError(f"whole windows of {own[0]} x {own[1]} patches")
        image = torch.zeros(1, 3, stride * height, stride * width)
        return entering(module, lambda: module(image))

    yield grid_of(place, ask, declared)


def changed(place: Place) -> Found:
    """RADIO and SAM 3: what others resize is cut out of a square, or repeated."""
    import torch

    side = SIDE * PATCH
    sizes = {"image_size": side, "max_img_size": side, "patch_size": PATCH}
    sizes["pretrain_image_size"] = side
    more = {"video_patch_dim": None, "video_temporal_patch_size": None}
    module, config = build(place, {**sizes, **more, "patch_dim": 3 * PATCH**2})
    table = getattr(module, place.attribute)
    keep_only(module, table)
    patch = config.patch_size

    def ask(height: int, width: int) -> Any:
        return module(torch.zeros(1, 3, patch * height, patch * width))

    kind = Squared if place.model == "radio" else Repeated
    yield grid_of(place, ask, kind(rows_of(table), OWN_SIZE, mode="bilinear"))


def prompted(place: Place) -> Found:
    """SegGPT: a grid for one size of image, made anew for every size; the prompt has the same."""
    import torch

    sizes = {"pretrain_image_size": SIDE * PATCH, "patch_size": PATCH, "hidden_size": DIM}
    first, _ = build(place, sizes)
    table = first.position_embeddings.detach().clone()

    def ask(height: int, width: int) -> Any:
        size = [PATCH * height, PATCH * width]
        module, _ = build(place, {**sizes, "image_size": size})
        with torch.no_grad():
            module.position_embeddings.copy_(table)
        keep_only(module, module.position_embeddings)
        image = torch.zeros(1, 3, *size)
        out = module(image, image, torch.zeros(1, height * width, dtype=torch.bool))
        if not torch.equal(out[0], out[1]):
            raise RuntimeError("image and prompt get different rows")
        return out[:1]

    yield grid_of(place, ask, Resized(rows_of(table)[1:], OWN_SIZE))


def packed(place: Place) -> Found:
    """PaddleOCR-VL and Inkling 2: patches of an image in a row; Inkling's by squares of a merge."""
    import torch

    square = {"image_size": SIDE * PATCH, "patch_size": PATCH, "posemb_grid_size": SIDE}
    module, config = build(place, {**square, "hidden_size": 48})
    table = getattr(module, place.attribute)
    table = getattr(table, "weight", table)
    keep_only(module, table)
    merge = config.spatial_merge_size if place.model == "inkling2" else 1

    def tokens(height: int, width: int) -> Any:
        count, patch = height * width, config.patch_size
        grid = torch.tensor([[1, height, width]])
        if merge == 1:
            return module(torch.zeros(1, count, 3, patch, patch), grid_thw=grid)
        pixels = torch.zeros(count // merge**2, merge * patch, merge * patch, 3)
        return module(pixels, grid, torch.arange(count) + 1)  # after the class token

    def ask(height: int, width: int) -> Any:
        if height % merge or width % merge:
            raise ValueError(f"patches are merged, {merge} x {merge} to one")
        at = np.arange(height * width).reshape(height // merge, merge, width // merge, merge)
        order = np.argsort(at.transpose(0, 2, 1, 3).reshape(-1))
        return tokens(height, width)[-height * width :][torch.as_tensor(order)]

    if table.ndim == 1:  # that of the class token
        yield whole(place, lambda: tokens(2, 2)[:1].detach(), Learned(rows_of(table[None])))
        return
    declared = Resized(rows_of(table), OWN_SIZE, mode="bilinear", always=True)
    yield grid_of(place, ask, declared)


def masked_images(place: Place) -> Found:
    """ViLT: the part of an image that a mask shows; tokens come in any order, with their places."""
    import torch

    module, _ = build(place, {"image_size": SIDE * PATCH, "patch_size": PATCH})
    table = module.position_embeddings
    keep_only(module, table)

    def of(height: int, width: int, more: int) -> Any:
        image = torch.zeros(1, 3, PATCH * (height + more), PATCH * (width + more))
        mask = torch.zeros(1, *image.shape[2:], dtype=torch.int64)
        mask[:, : PATCH * height, : PATCH * width] = 1
        x, _, (places, _) = module.visual_embed(image, mask, max_image_length=-1)
        rows = {(int(y), int(z)): row for (y, z), row in zip(places[0], x[0, 1:], strict=True)}
        return torch.stack([rows[y, z] for y in range(height) for z in range(width)])

    declared = Resized(rows_of(table)[1:], OWN_SIZE, mode="bilinear", align_corners=True)
    yield grid_of(place, lambda h, w: of(h, w, 0), declared)
    yield grid_of(place, lambda h, w: of(h, w, 2), declared, "grid, in a larger image")


def trained(place: Place) -> Found:
    """Perceiver: a grid of an image, asked for its rows alone."""
    module = fill(class_of(place)(SIDE * SIDE, DIM).eval())

    def ask(height: int, width: int) -> Any:
        return module(1, interpolate_pos_encoding=True, input_size=(height, width))

    yield grid_of(place, ask, Resized(rows_of(module.position_embeddings), OWN_SIZE))


def pyramid(place: Place) -> Found:
    """PVT: at its own size, and at others, which its code says it resizes to."""
    import torch

    file = importlib.import_module(place.file)
    side = SIDE * PATCH
    module = fill(
        class_of(place)(file.PvtConfig(image_size=side), side, PATCH, PATCH, 3, DIM).eval()
    )
    table = module.position_embeddings
    keep_only(module, table)

    def ask(height: int, width: int) -> Any:
        return module(torch.zeros(1, 3, PATCH * height, PATCH * width))[0]

    def other(height: int, width: int) -> Any:
        if (height, width) == OWN_SIZE:
            raise ValueError("its own size, at which nothing is resized")
        return ask(height, width)

    yield whole(place, lambda: ask(*OWN_SIZE).detach(), Learned(rows_of(table)))
    declared = Resized(rows_of(table), OWN_SIZE, mode="bilinear")
    yield grid_of(place, other, declared, "grid, other sizes")


def decoded(place: Place) -> Found:
    """MAE's decoder, at its own size and at others."""
    import torch

    file = importlib.import_module(place.file)
    small = {"hidden_size": DIM, "decoder_hidden_size": DIM, "decoder_num_attention_heads": 2}
    config = file.ViTMAEConfig(**small, decoder_num_hidden_layers=1, decoder_intermediate_size=8)
    module = fill(class_of(place)(config, SIDE * SIDE).eval())
    table = module.decoder_pos_embed
    keep_only(module, table)

    def ask(height: int, width: int) -> Any:
        count = height * width
        states = torch.zeros(1, count + 1, DIM)
        own = (height, width) == OWN_SIZE
        return entering(
            module,
            lambda: module(states, torch.arange(count)[None], interpolate_pos_encoding=not own),
        )

    yield whole(place, lambda: ask(*OWN_SIZE), Learned(rows_of(table)))
    yield grid_of(place, ask, Resized(rows_of(table)[1:], OWN_SIZE))


def between(place: Place) -> Found:
    """YOLOS: what is added between layers, patches between [CLS] and the detection tokens."""
    from types import SimpleNamespace

    patch, detections = 16, 3
    config = SimpleNamespace(
        image_size=[SIDE * patch] * 2, patch_size=patch, num_detection_tokens=detections,
        num_hidden_layers=3, hidden_size=DIM,
    )  # fmt: skip
    module = fill(class_of(place)(config).eval())

    def ask(height: int, width: int) -> Any:
        return module((patch * height, patch * width))[1, 0, 1:-detections]

    rows = rows_of(module.mid_position_embeddings[1, 0, 1:-detections])
    yield grid_of(place, ask, Resized(rows, OWN_SIZE, always=True))


def hybrid(place: Place) -> Found:
    """DPT's hybrid: patches of a small BiT, sixteen pixels each."""
    import torch
    from transformers import BitConfig, DPTConfig

    bit = BitConfig(
        embedding_size=8, hidden_sizes=[8, 8, 8], depths=[1, 1, 1], num_groups=2,
        layer_type="bottleneck", out_features=["stage1", "stage2", "stage3"],
    )  # fmt: skip
    config = DPTConfig(
        is_hybrid=True, backbone_config=bit, image_size=16 * SIDE, hidden_size=DIM,
        num_attention_heads=2, backbone_featmap_shape=[1, 8, SIDE, SIDE],
    )  # fmt: skip
    module = fill(class_of(place)(config).eval())
    table = module.position_embeddings
    keep_only(module, table)

    def ask(height: int, width: int) -> Any:
        image = torch.zeros(1, 3, 16 * height, 16 * width)
        return module(image, interpolate_pos_encoding=True).last_hidden_states

    yield grid_of(place, ask, Resized(rows_of(table)[1:], OWN_SIZE, mode="bilinear"))


def video(place: Place) -> Found:
    """TimeSformer and VideoPrism: the patches of one frame."""
    import torch

    side = {"image_size": SIDE * 16, "patch_size": 16, "num_frames": 1}
    module, _ = build(place, {**side, "tubelet_size": [1, 16, 16]})
    table = module.position_embeddings
    keep_only(module, table)

    def ask(height: int, width: int) -> Any:
        frame = torch.zeros(1, 1, 3, 16 * height, 16 * width)
        if place.model == "timesformer":
            return module(frame)
        return module(frame, interpolate_pos_encoding=(height, width) != OWN_SIZE)

    declared = Resized(rows_of(table)[-SIDE * SIDE :], OWN_SIZE, **interpolation(text_of(place)))
    yield grid_of(place, ask, declared)


OWN: dict[str, Callable[[Place], Found]] = {
    "sam2.Sam2HieraDetModel.pos_embed": backgrounds,
    "sam2.Sam2HieraDetModel.pos_embed_window": backgrounds,
    "radio.RadioPatchEmbeddings.position_embedding": changed,
    "sam3.Sam3ViTEmbeddings.position_embeddings": changed,
    "seggpt.SegGptEmbeddings.position_embeddings": prompted,
    "paddleocr_vl.PaddleOCRVisionEmbeddings.position_embedding": packed,
    "inkling2.Inkling2VisionEmbeddings.position_embedding": packed,
    "inkling2.Inkling2VisionEmbeddings.cls_position_embedding": packed,
    "vilt.ViltEmbeddings.position_embeddings": masked_images,
    "perceiver.PerceiverTrainablePositionEncoding.position_embeddings": trained,
    "pvt.PvtPatchEmbeddings.position_embeddings": pyramid,
    "vit_mae.ViTMAEDecoder.decoder_pos_embed": decoded,
    "yolos.InterpolateMidPositionEmbeddings.mid_position_embeddings": between,
    "dpt.DPTViTHybridEmbeddings.position_embeddings": hybrid,
    "timesformer.TimesformerEmbeddings.position_embeddings": video,
    "videoprism.VideoPrismSpatialEmbeddings.position_embeddings": video,
}
