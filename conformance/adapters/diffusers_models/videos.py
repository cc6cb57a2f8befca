"""Rotary classes of ``diffusers`` that get the size of a video."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import MixedRoPE, MultiAxisRoPE
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.adapters.rotations import on_grids, row_by_row
from posenc_ref.conformance.calling.grids import Grid
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import FLUX, LIBRARY, MODELS, SHARED, VIDEO, axial, class_of, image, turned

_function = functions_of(LIBRARY, "")
#: The channels of time, height and width of 128, a third each.
_THIRDS = (44, 42, 42)


def functions() -> list[LibraryFunction]:
    """Return a function for each class, and those of Allegro and Mochi."""
    return [
        _video("SkyReels-V2", "skyreels_v2.py: SkyReelsV2RotaryPosEmbed", _wan_like, _THIRDS),
        _video("ChronoEdit", "chronoedit.py: ChronoEditRotaryPosEmbed", _wan_like, _THIRDS,
               own=(8, 16, 16), says="two frames, an edited picture, are 0 and 7; here are eight"),
        _video("SANA-Video", "sana_video.py: WanRotaryPosEmbed", _wan_like, _THIRDS,
               says="copied from Wan"),
        _video("AnyFlow", "anyflow.py: AnyFlowRotaryPosEmbed, apply_rotary_emb", _anyflow, _THIRDS),
        _video("SANA-WM", "sana_wm.py: SanaWMRotaryPosEmbed, _apply_rotary_emb", _sana_wm,
               (40, 36, 36)),
        _video("SANA-WM, fhw_dim", "sana_wm.py: SanaWMRotaryPosEmbed",
               partial(_sana_wm, "", "", VIDEO, fhw_dim=(16, 48, 48)), (16, 48, 48),
               says="its documentation: the split is configurable through fhw_dim"),
        _video("HunyuanVideo", "hunyuan_video.py: HunyuanVideoRotaryPosEmbed", _hunyuan, FLUX,
               256.0),
        _video("HunyuanVideo 1.5", "hunyuan_video15.py: HunyuanVideo15RotaryPosEmbed", _hunyuan,
               FLUX, 256.0),
        _video("Motif-Video", "motif_video.py: MotifVideoRotaryPosEmbed", _hunyuan, FLUX,
               256.0),
        _video("FramePack", "hunyuan_video_framepack.py: HunyuanVideoFramepackRotaryPosEmbed",
               _framepack, FLUX, 256.0),
        _video("Helios", "helios.py: HeliosRotaryPosEmbed, apply_rotary_emb_transposed", _helios,
               _THIRDS),
        _video("Kandinsky 5", "kandinsky.py: Kandinsky5RoPE3D, apply_rotary", _kandinsky5,
               (16, 24, 24)),
        _video("Kandinsky 6", "kandinsky6.py: Kandinsky6RoPE3D, apply_rotary", _kandinsky6,
               (16, 24, 24)),
        _function("LTX-2, decoder", "models/autoencoders/ltx2_diffusion_decoder.py: "
                  "LTX2VideoVaeRotaryPosEmbed3D", _ltx2_decoder, axial((16, 24, 24), 10000.0)),
        _video("Wan-Animate 2", "wan_animate_2.py: rope_params, rope_apply", _wan_animate_2,
               _THIRDS),
        _function("Cosmos", f"{MODELS}cosmos.py: CosmosRotaryPosEmbed", _cosmos, _cosmos_axes(),
                  says="NTK-aware scaling by 2 of the time axis"),
        _function("Allegro", f"{SHARED}get_3d_rotary_pos_embed_allegro, apply_rotary_emb_allegro",
                  _allegro, axial((32, 32, 32), 10000.0, layout="blockwise"),
                  says="without interpolation"),
        _function("Mochi", f"{MODELS}mochi.py: MochiRoPE._create_rope", _mochi, _mochi_zeros(),
                  says="the frequencies are learned, and the positions are arguments here"),
    ]  # fmt: skip


def _video(
    name: str, source: str, build: Any, channels: tuple[int, ...], base: float = 10000.0,
    **more: Any,
) -> LibraryFunction:  # fmt: skip
    """Return a class of time, height and width with interleaved pairs."""
    says, own = more.pop("says", ""), more.pop("own", ())
    model, _, names = source.partition(".py: ")
    if not isinstance(build, partial):
        build = partial(build, model, names.partition(",")[0], Grid(3, own=own))
    return _function(name, f"{MODELS}{source}", build, axial(channels, base), says=says)


def _wan_like(model: str, cls: str, grid: Grid) -> Implementation:
    module = class_of(model, cls)(128, (1, 2, 2), 1024)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        frames, height, width = sizes
        cos, sin = module(image(frames, 2 * height, 2 * width))
        return turned(x, (cos[0, :, 0], sin[0, :, 0]))

    return on_grids(LIBRARY, call, 128, grid)


def _anyflow(model: str, cls: str, grid: Grid) -> Implementation:
    import torch
    from diffusers.models.transformers.transformer_anyflow import apply_rotary_emb

    module = class_of(model, cls)(128, (1, 2, 2), 1024)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        layout = {"total_frames": sizes[0], "full_frame_shape": sizes[1:]}
        return apply_rotary_emb(x, module(layout, torch.device("cpu"))["query"])

    return on_grids(LIBRARY, call, 128, grid)


def _sana_wm(model: str, cls: str, grid: Grid, **settings: Any) -> Implementation:
    from diffusers.models.transformers.transformer_sana_wm import (
        SanaWMRotaryPosEmbed,
        _apply_rotary_emb,
    )

    module = SanaWMRotaryPosEmbed(112, (1, 1, 1), 1024, **settings)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        return _apply_rotary_emb(x.transpose(2, 3), module(sizes)).transpose(2, 3)

    return on_grids(LIBRARY, call, 112, grid)


def _hunyuan(model: str, cls: str, grid: Grid) -> Implementation:
    module = class_of(model, cls)(2, 1, list(FLUX), 256.0)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        frames, height, width = sizes
        return turned(x, module(image(frames, 2 * height, 2 * width)))

    return on_grids(LIBRARY, call, 128, grid)


def _framepack(model: str, cls: str, grid: Grid) -> Implementation:
    import torch

    module = class_of(model, cls)(2, 1, list(FLUX), 256.0)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        frames, height, width = sizes
        tables = module(torch.arange(frames), 2 * height, 2 * width, torch.device("cpu"))
        return turned(x, tables)

    return on_grids(LIBRARY, call, 128, grid)


def _helios(model: str, cls: str, grid: Grid) -> Implementation:
    import torch
    from diffusers.models.transformers.transformer_helios import apply_rotary_emb_transposed

    module = class_of(model, cls)(_THIRDS, 10000.0)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        frames, height, width = sizes
        table = module(torch.arange(frames)[None], height, width, torch.device("cpu"))
        rows = table.flatten(2).transpose(1, 2)
        return apply_rotary_emb_transposed(x.transpose(1, 2), rows).transpose(1, 2)

    return on_grids(LIBRARY, call, 128, grid)


def _kandinsky5(model: str, cls: str, grid: Grid) -> Implementation:
    """Adapt the attention, whose rotation is a function inside its processor."""
    import types
    from unittest import mock

    import torch
    from diffusers.models.transformers import transformer_kandinsky as kandinsky

    module, processor = (
        kandinsky.Kandinsky5RoPE3D((16, 24, 24)),
        kandinsky.Kandinsky5AttnProcessor(),
    )

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        table = module((1, *sizes), [torch.arange(n) for n in sizes]).flatten(1, 3)
        same = lambda y: y  # noqa: E731
        names = ("to_query", "to_key", "to_value", "query_norm", "key_norm", "out_layer")
        layer = types.SimpleNamespace(num_heads=x.shape[1], **dict.fromkeys(names, same))
        tokens = x.transpose(1, 2).flatten(2)
        with mock.patch.object(kandinsky, "dispatch_attention_fn") as attention:
            attention.side_effect = lambda query, key, value, **more: query
            y = processor(layer, tokens, rotary_emb=table)
        return y.unflatten(-1, (x.shape[1], -1)).transpose(1, 2)

    return on_grids(LIBRARY, call, 64, grid)


def _kandinsky6(model: str, cls: str, grid: Grid) -> Implementation:
    import torch
    from diffusers.models.transformers.transformer_kandinsky6 import apply_rotary

    module = class_of(model, cls)((16, 24, 24))

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        table = module(tuple(torch.arange(n) for n in sizes)).flatten(0, 2)
        return apply_rotary(x.transpose(1, 2), table).transpose(1, 2)

    return on_grids(LIBRARY, call, 64, grid)


def _ltx2_decoder() -> Implementation:
    from diffusers.models.autoencoders.ltx2_diffusion_decoder import LTX2VideoVaeRotaryPosEmbed3D

    module = LTX2VideoVaeRotaryPosEmbed3D(64)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        video = x.transpose(1, 2).unflatten(1, sizes)
        return module(video).flatten(1, 3).transpose(1, 2)

    return on_grids(LIBRARY, call, 64, VIDEO)


def _wan_animate_2(model: str, cls: str, grid: Grid) -> Implementation:
    import torch
    from diffusers.models.transformers.transformer_wan_animate_2 import rope_apply, rope_params

    table = torch.cat([rope_params(1024, n) for n in _THIRDS], dim=1)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        rows = torch.tensor([sizes] * len(x))
        return rope_apply(x.transpose(1, 2), rows, table).transpose(1, 2).to(x.dtype)

    return on_grids(LIBRARY, call, 128, grid)


def _cosmos_axes() -> MultiAxisRoPE:
    return axial(_THIRDS, (10000.0 * 2.0 ** (44 / 42), 10000.0, 10000.0), layout="half")


def _cosmos() -> Implementation:
    from diffusers.models.transformers.transformer_cosmos import CosmosRotaryPosEmbed

    module = CosmosRotaryPosEmbed(128)

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        frames, height, width = sizes
        return turned(x, module(image(frames, 2 * height, 2 * width)), half=True)

    return on_grids(LIBRARY, call, 128, VIDEO)


def _allegro() -> Implementation:
    import torch
    from diffusers.models.embeddings import (
        apply_rotary_emb_allegro,
        get_3d_rotary_pos_embed_allegro,
    )

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        frames, *picture = sizes
        *tables, _, _, _ = get_3d_rotary_pos_embed_allegro(96, ((0, 0), picture), picture, frames)
        rows = torch.cartesian_prod(*(torch.arange(n) for n in sizes)).T
        return apply_rotary_emb_allegro(x, tables, rows[:, None])

    return on_grids(LIBRARY, call, 96, VIDEO)


def _mochi_zeros() -> MixedRoPE:
    return MixedRoPE(64, np.zeros((2, 3, 32)), layout="interleaved")


def _mochi() -> Implementation:
    import torch
    from diffusers.models.transformers.transformer_mochi import MochiRoPE

    weight = torch.randn(3, 2, 32, generator=torch.Generator().manual_seed(0))
    module = MochiRoPE()

    def call(x: Any, positions: Any) -> Any:
        cos, sin = module._create_rope(weight, positions.T)
        cos, sin = cos.transpose(0, 1), sin.transpose(0, 1)
        even, odd = x[..., 0::2].float(), x[..., 1::2].float()
        turned = even * cos - odd * sin, even * sin + odd * cos
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)

    encoding = MixedRoPE(64, weight.numpy().transpose(1, 0, 2), layout="interleaved")
    return Implementation(row_by_row(call, 3), "apply", LIBRARY, encoding, backend="torch",
                          head_dim=64, num_heads=2, axes=3)  # fmt: skip
