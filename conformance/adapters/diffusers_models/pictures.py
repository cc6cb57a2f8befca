"""Rotary classes of ``diffusers`` that get the size of a picture."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from posenc_ref import MultiAxisRoPE
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.adapters.rotations import on_grids
from posenc_ref.conformance.calling.grids import Grid
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import (
    FLUX,
    LIBRARY,
    MODELS,
    SHARED,
    VIDEO,
    axial,
    class_of,
    image,
    turned,
    turned_complex,
)

_function = functions_of(LIBRARY, "")
#: The side of the only grid of functions whose positions depend on its size.
_SQUARE = 8
#: A square grid that is the crop from row and column 6 to 22 of a larger one: 2 per patch.
_CROP = ((6, 6), (22, 22))
_CROPPED: dict[str, Any] = {"offset": 3.0, "position_scale": 2.0}
#: The axis of each of 32 pairs if the column comes first.
_COLUMN_FIRST = (1,) * 16 + (0,) * 16


def functions() -> list[LibraryFunction]:
    """Return a function for each class, and those of HunyuanDiT, CogVideoX and Lumina."""
    crop = "the grid is cropped: positions go from start to stop, the stop excluded"
    return [
        _function("HunyuanImage", f"{MODELS}hunyuanimage.py: HunyuanImageRotaryPosEmbed",
                  _hunyuan_image, axial((64, 64), 256.0)),
        _function("GLM-Image", f"{MODELS}glm_image.py: GlmImageRotaryPosEmbed", _glm,
                  axial((20, 20), 10000.0, layout="half")),
        _function("Lumina", f"{SHARED}get_2d_rotary_pos_embed_lumina", _lumina,
                  axial((48, 48), 10000.0, arrangement=(0, 1) * 24)),
        *_qwen_functions(),
        _function("HunyuanDiT, cropped", f"{SHARED}get_2d_rotary_pos_embed, apply_rotary_emb",
                  _hunyuan_dit, axial((32, 32), 10000.0, **_CROPPED, arrangement=_COLUMN_FIRST),
                  says=f"{crop}; the column comes first"),
        _function("CogVideoX, cropped", f"{SHARED}get_3d_rotary_pos_embed (grid_type='linspace')",
                  _cogvideo, MultiAxisRoPE(64, sections=(12, 12), rotary_start=16, **_CROPPED,
                                           layout="interleaved", spacing="restart"), says=crop),
    ]  # fmt: skip


def _qwen_functions() -> list[LibraryFunction]:
    centred = MultiAxisRoPE(128, sections=(28, 28), rotary_start=16, layout="interleaved",
                            spacing="restart", offset=-_SQUARE / 2)  # fmt: skip
    classes = [
        ("Qwen-Image", "qwenimage", "QwenEmbedRope"),
        ("Qwen-Image, layers", "qwenimage", "QwenEmbedLayer3DRope"),
        ("Nucleus-Image", "nucleusmoe_image", "NucleusMoEEmbedRope"),
    ]
    found = []
    for name, model, cls in classes:
        source = f"{MODELS}{model}.py: {cls}"
        found += [
            _function(name, source, partial(_qwen, model, cls), axial(FLUX, 10000.0),
                      says="scale_rope=False"),
            _function(f"{name}, scale_rope", source, partial(_qwen_picture, model, cls), centred,
                      says="the middle of the picture is row and column 0"),
        ]  # fmt: skip
    return [
        *found,
        _function("Qwen-Image 2.1", f"{MODELS}qwenimage21.py: QwenImage21Rope", _qwen21, centred,
                  says="the middle of the picture is row and column 0"),
    ]  # fmt: skip


def _hunyuan_image() -> Implementation:
    from diffusers.models.transformers.transformer_hunyuanimage import HunyuanImageRotaryPosEmbed

    module = HunyuanImageRotaryPosEmbed((1, 1), (64, 64))
    return on_grids(LIBRARY, lambda x, sizes: turned(x, module(image(*sizes))), 128)


def _glm() -> Implementation:
    from diffusers.models.transformers.transformer_glm_image import GlmImageRotaryPosEmbed

    module = GlmImageRotaryPosEmbed(40, 2)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        height, width = sizes
        return turned(x, module(image(2 * height, 2 * width)), half=True)

    return on_grids(LIBRARY, call, 40)


def _lumina() -> Implementation:
    from diffusers.models.embeddings import get_2d_rotary_pos_embed_lumina

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        return turned_complex(x, get_2d_rotary_pos_embed_lumina(96, *sizes).flatten(0, 1))

    return on_grids(LIBRARY, call, 96)


def _qwen(model: str, cls: str) -> Implementation:
    """Adapt the rows of a video, the first of the call."""
    module = class_of(model, cls)(10000, list(FLUX))

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        return turned_complex(x, _first(module, sizes))

    return on_grids(LIBRARY, call, 128, VIDEO)


def _qwen_picture(model: str, cls: str) -> Implementation:
    module = class_of(model, cls)(10000, list(FLUX), scale_rope=True)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        return turned_complex(x, _first(module, (1, *sizes)))

    return on_grids(LIBRARY, call, 128, Grid(2, own=(_SQUARE, _SQUARE)))


def _first(module: Any, sizes: tuple[int, ...]) -> Any:
    """Return the table of a video that a picture follows."""
    import torch

    videos = [[sizes, (1, *sizes[1:])]]
    table, _ = module(videos, max_txt_seq_len=1, device=torch.device("cpu"))
    return table[: math.prod(sizes)]


def _qwen21() -> Implementation:
    import torch

    module = class_of("qwenimage21", "QwenImage21Rope")(10000, list(FLUX))

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        every = torch.ones(x.shape[2], dtype=torch.bool)
        return turned_complex(x, module([(1, *sizes)], every, torch.device("cpu")))

    return on_grids(LIBRARY, call, 128, Grid(2, own=(_SQUARE, _SQUARE)))


def _hunyuan_dit() -> Implementation:
    from diffusers.models.embeddings import get_2d_rotary_pos_embed

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        # As the pipelines do: the default was another grid once, and was refused later.
        return turned(x, get_2d_rotary_pos_embed(64, _CROP, sizes, output_type="pt"))

    return on_grids(LIBRARY, call, 64, Grid(2, own=(_SQUARE, _SQUARE)))


def _cogvideo() -> Implementation:
    from diffusers.models.embeddings import get_3d_rotary_pos_embed

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        return turned(x, get_3d_rotary_pos_embed(64, _CROP, sizes, 1))

    return on_grids(LIBRARY, call, 64, Grid(2, own=(_SQUARE, _SQUARE)))
