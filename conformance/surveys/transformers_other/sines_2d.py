"""Sines over the patches of an image, over boxes and coordinates: declared, and asked."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import BoxSine, DETRSine, FourierFeatures, Sinusoidal2D, Table
from posenc_ref.conformance.harness.implementation import Implementation

from .build import MissingArgument, build, call, takes
from .census import Place
from .image import SIDE

#: Columns for each axis, where a class asks.
HALF = 16
ARGUMENTS: dict[str, Any] = {
    "num_position_features": HALF,
    "embedding_dim": HALF,
    "embed_dim": 2 * HALF,
    "normalize": True,
}
#: Half a pixel before the normalisation: the authors' code of Deformable DETR.
SHIFTED = ("deformable_detr",)

#: Where the sines of patches are made by a function of the file, and the order of the axes there.
BUILT = {"aimv2": "wh", "granite_docling": "wh", "omdet_turbo": "wh", "vit_mae": "wh"}


def subjects(place: Place) -> Iterator[tuple[Implementation, Any]]:
    """What is judged about sines of images."""
    thing: Any = getattr(importlib.import_module(place.file), place.owner)
    if place.model in BUILT:
        yield from _built(place, thing)
    elif place.kind == "fourier":
        yield _fourier(place, thing)
    elif not inspect.isclass(thing):
        yield from _boxes(place, thing)
    elif takes(made := thing.__dict__["forward"], "height", "width"):
        yield _patches(place, thing)
    elif takes(made, "shape") or takes(made, "pixel_mask"):
        yield from _detr(place, thing)
    else:
        raise MissingArgument(
            "its sines are made inside another class, from what that has computed"
        )


def _module(place: Place, cls: type) -> tuple[Any, Any]:
    if any("config" in name for name in inspect.signature(cls).parameters):
        return build(place, {}, random=False)
    return call(cls, ARGUMENTS).eval(), None


def _one(place: Place, surface: str, fn: Any) -> Implementation:
    return Implementation(call=fn, surface=surface, name=place.name)


def _built(place: Place, cls: type) -> Iterator[tuple[Implementation, Table]]:
    """What the class keeps, for one size, or adds to an image; columns first in AIMv2, Granite."""
    import torch

    file = importlib.import_module(place.file)
    encoding = Sinusoidal2D(2 * HALF, axis_order=BUILT[place.model])
    if place.model == "granite_docling":
        table = file.GraniteDoclingPositionEmbedding(2 * HALF, SIDE).pos_embed.numpy()
    elif place.model == "omdet_turbo":
        make = file.OmDetTurboHybridEncoder.build_2d_sincos_position_embedding

        def columns(height: int, width: int) -> np.ndarray:
            given = {"embed_dim": 2 * HALF, "device": "cpu", "dtype": torch.float32}
            return np.asarray(make(width, height, **given)[0].numpy())

        yield _one(place, "grid", columns), encoding.replace(flatten="columns")
        return
    elif place.model == "vit_mae":
        yield from _vit_mae(place, cls, encoding)
        return
    else:
        settings = {"is_native": True, "hidden_size": 2 * HALF, "num_attention_heads": 2}
        module, config = build(place, settings, random=False)
        with torch.no_grad():
            for p in module.parameters():
                p.zero_()

        def added(height: int, width: int) -> np.ndarray:
            size = height * config.patch_size, width * config.patch_size
            with torch.no_grad():
                return np.asarray(module(torch.zeros(1, 3, *size))[0].numpy())

        yield _one(place, "grid", added), encoding
        return

    yield _one(place, "grid", _kept(table)), encoding


def _kept(table: Any) -> Any:
    """Return the function of a table for one size."""

    def kept(height: int, width: int) -> np.ndarray:
        if (height, width) != (SIDE, SIDE):
            raise ValueError(f"the table is one of {SIDE} x {SIDE} patches")
        return np.asarray(table)

    return kept


def _vit_mae(place: Place, cls: type, encoding: Table) -> Iterator[tuple[Implementation, Table]]:
    """What the class itself writes into its frozen table, and what a model made anew has there."""
    import torch

    file = importlib.import_module(place.file)
    sizes = {"num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1}
    mine = {"decoder_num_attention_heads": 2, "decoder_intermediate_size": 8}
    mine |= {"decoder_hidden_size": 2 * HALF, "decoder_num_hidden_layers": 1}
    image = {"image_size": SIDE, "patch_size": 1, "hidden_size": 2 * HALF}
    config = file.ViTMAEConfig(**sizes, **mine, **image)
    with torch.no_grad():
        model = file.ViTMAEForPreTraining(config)
        if place.owner == "ViTMAEDecoder":
            alone, fresh = cls(config, SIDE**2).decoder_pos_embed, model.decoder.decoder_pos_embed
        else:
            own = cls(config)
            own.initialize_weights()
            alone, fresh = own.position_embeddings, model.vit.embeddings.position_embeddings
        yield _one(place, "grid", _kept(alone[0, 1:].numpy())), encoding
        yield _one(place, "grid, a new model", _kept(fresh[0, 1:].numpy())), encoding


def _patches(place: Place, cls: type) -> tuple[Implementation, Table]:
    """RT-DETR's kin: rows and columns, counted from 0."""
    import torch

    module, _ = _module(place, cls)

    def grid(height: int, width: int) -> np.ndarray:
        given = {
            "height": height,
            "width": width,
            "device": torch.device("cpu"),
            "dtype": torch.float32,
        }
        return np.asarray(call(module.forward, given)[0].numpy())

    return _one(place, "grid", grid), Sinusoidal2D(grid(1, 1).shape[1])


def _detr(place: Place, cls: type) -> Iterator[tuple[Implementation, Table]]:
    """DETR's kin: a mask is counted; without one, and with the right and lower part hidden."""
    import torch

    module, config = _module(place, cls)

    def made(mask: Any) -> np.ndarray:
        height, width = mask.shape
        given: dict[str, Any] = {
            "shape": torch.Size((1, 3, height, width)),
            "pixel_values": torch.zeros(1, 3, height, width),
            "pixel_mask": mask[None],
            "mask": None if mask.all() else mask[None],
            "device": torch.device("cpu"),
            "dtype": torch.float32,
        }
        with torch.no_grad():
            out = call(module.forward, given)
        if out.ndim == 4:
            out = out.flatten(2).transpose(1, 2)
        return np.asarray(out[0].numpy())

    def grid(height: int, width: int) -> np.ndarray:
        return made(torch.ones(height, width, dtype=torch.bool))

    def hidden(height: int, width: int) -> np.ndarray:
        """An image of this size in the corner of a larger one, what is beside it hidden."""
        mask = torch.zeros(height + 2, width + 3, dtype=torch.bool)
        mask[:height, :width] = True
        rows = made(mask).reshape(height + 2, width + 3, -1)
        return np.asarray(rows[:height, :width].reshape(height * width, -1))

    dim = grid(1, 1).shape[1]
    bases: dict[str, Any] = {
        name: float(getattr(config, key))
        for name, key in (("base", "temperature_height"), ("width_base", "temperature_width"))
        if hasattr(config, key)
    }
    if hasattr(config, "positional_embedding_temperature"):
        bases["base"] = float(config.positional_embedding_temperature)
    if bases.get("width_base") == bases.get("base"):
        bases.pop("width_base", None)
    encoding = DETRSine(dim, shift=-0.5 if place.model in SHIFTED else 0.0, **bases)
    yield _one(place, "grid", grid), encoding
    yield _one(place, "grid, in a larger image", hidden), encoding


def _boxes(place: Place, function: Any) -> Iterator[tuple[Implementation, Table]]:
    """Points and boxes between 0 and 1, the same function."""
    import torch

    if list(inspect.signature(function).parameters)[:1] != ["pos_tensor"]:
        raise MissingArgument("no function of points or boxes")
    for axes, order in (("xy", "yx"), ("xywh", "yxwh")):

        def rows(positions: np.ndarray) -> np.ndarray:
            at = torch.as_tensor(np.asarray(positions).T, dtype=torch.float32)
            return np.asarray(function(at, num_pos_feats=HALF).numpy())

        encoding = BoxSine(len(axes) * HALF, axes=axes, axis_order=order)
        yield _one(place, f"table, {'points' if axes == 'xy' else 'boxes'}", rows), encoding


def _fourier(place: Place, thing: Any) -> tuple[Implementation, Table]:
    """SAM's random features of coordinates (x, y) between 0 and 1; Perceiver's of -1 .. 1."""
    import torch

    if not inspect.isclass(thing):
        bands, resolution = 6, (20, 32)

        def perceiver(positions: np.ndarray) -> np.ndarray:
            at = torch.as_tensor(np.asarray(positions).T, dtype=torch.float32)
            return np.asarray(thing(at[None], bands, resolution)[0].numpy())

        return _one(place, "table", perceiver), FourierFeatures.perceiver(bands, resolution)
    module, _ = build(place, {"num_pos_feats": HALF}, random=False)

    def sam(positions: np.ndarray) -> np.ndarray:
        at = torch.as_tensor(np.asarray(positions).T, dtype=torch.float32)
        with torch.no_grad():
            return np.asarray(module(at[None, None])[0, 0].numpy())

    matrix = module.positional_embedding.detach().T.numpy()
    return _one(place, "table", sam), FourierFeatures(
        matrix, unit="turn", offset=-0.5, position_scale=2.0
    )
