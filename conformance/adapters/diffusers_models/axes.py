"""Rotary classes of ``diffusers`` that get the position of every token on every axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import MixedRoPE, MultiAxisRoPE
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.adapters.rotations import row_by_row
from posenc_ref.conformance.calling.positions import require_indices
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import FLUX, LIBRARY, MODELS, axial, class_of, turned_complex

_function = functions_of(LIBRARY, "")


def functions() -> list[LibraryFunction]:
    """Return the classes that FLUX's was copied to, those with complex tables, and M-RoPE's."""
    complexes = "apply_rotary_emb (use_real=False)"
    return [
        _flux("bria", "BriaEmbedND", 10000, FLUX),
        _flux("bria", "BriaPosEmbed", 10000, FLUX),
        _flux("bria_fibo", "BriaFiboEmbedND", 10000, FLUX),
        _flux("flux2", "Flux2PosEmbed", 2000, (32, 32, 32, 32)),
        _flux("flux3", "Flux3PosEmbed", 10000, (32, 32, 32, 32)),
        _flux("krea2", "Krea2RotaryPosEmbed", 1000, (32, 48, 48)),
        _flux("longcat_image", "LongCatImagePosEmbed", 10000, FLUX),
        _flux("ovis_image", "OvisImagePosEmbed", 10000, FLUX),
        _function("Z-Image", f"{MODELS}z_image.py: RopeEmbedder, apply_rotary_emb",
                  partial(_z_image, "z_image"), axial((32, 48, 48), 256.0)),
        _function("Fibo 2", f"{MODELS}bria_fibo2.py: RopeEmbedder, apply_rotary_emb",
                  partial(_z_image, "bria_fibo2"), axial((32, 48, 48), 256.0)),
        _function("Lumina 2", f"{MODELS}lumina2.py: Lumina2RotaryPosEmbed._get_freqs_cis; "
                  f"models/embeddings.py: {complexes}", _lumina2,
                  axial((32, 32, 32), 10000.0)),
        _function("ERNIE-Image", f"{MODELS}ernie_image.py: ErnieImageEmbedND3, apply_rotary_emb",
                  _ernie, axial((32, 48, 48), 256.0, layout="half"),
                  says="rotate_half of Megatron; the table repeats every angle twice, as for "
                       "interleaved pairs"),
        _function("HiDream", f"{MODELS}hidream_image.py: HiDreamImageEmbedND, apply_rope",
                  _hidream, axial((64, 32, 32), 10000.0)),
        _function("PRX", f"{MODELS}prx.py: PRXEmbedND, apply_rope", _prx,
                  axial((32, 32), 10000.0)),
        _function("Cosmos 3", f"{MODELS}cosmos3.py: Cosmos3VLTextRotaryEmbedding", _cosmos3,
                  _mrope(128, 5e6)),
        _function("Ideogram 4", f"{MODELS}ideogram4.py: Ideogram4MRoPE", _ideogram,
                  _mrope(256, 5e6), says="pairs past 3 * 20 belong to the time axis"),
        _function("MiniMax H3", f"{MODELS}minimax_h3.py: MiniMaxH3RotaryPosEmbed, "
                  "_apply_rotary_emb", _minimax,
                  MultiAxisRoPE(128, sections=(16, 16, 16), layout="half", spacing="restart")),
        _function("MiniMax H3, decoder", "models/autoencoders/autoencoder_kl_minimax_h3.py: "
                  "MiniMaxH3VideoRotaryPosEmbed", _minimax_decoder,
                  MultiAxisRoPE(64, sections=(8, 8, 8), layout="half", spacing="restart",
                                base=100.0, position_scale=2 * np.pi),
                  says="the caller divides positions by the size of the video"),
    ]  # fmt: skip


def _flux(model: str, cls: str, theta: int, channels: tuple[int, ...]) -> LibraryFunction:
    """Return a class that takes (S, A) positions and makes tables for ``apply_rotary_emb``."""
    return _function(cls, f"{MODELS}{model}.py: {cls}; models/embeddings.py: apply_rotary_emb",
                     partial(_nd, model, cls, theta, channels),
                     axial(channels, float(theta)))  # fmt: skip


def _implementation(call: Callable[[Any, Any], Any], head_dim: int, axes: int) -> Implementation:
    """Adapt ``call(x, positions)`` with x (B, H, S, D) and positions (A, S)."""
    apply = row_by_row(call, axes)
    return Implementation(apply, "apply", LIBRARY, backend="torch", head_dim=head_dim, axes=axes)


def _nd(model: str, cls: str, theta: int, channels: tuple[int, ...]) -> Implementation:
    from diffusers.models.embeddings import apply_rotary_emb

    module = class_of(model, cls)(theta, list(channels))
    return _implementation(
        lambda x, p: apply_rotary_emb(x, module(p.T)), sum(channels), len(channels)
    )


def _z_image(model: str) -> Implementation:
    module = class_of(model, "RopeEmbedder")(256.0, (32, 48, 48), (4096, 512, 512))

    def call(x: Any, positions: Any) -> Any:
        require_indices(positions)
        return turned_complex(x, module(positions.T))

    return _implementation(call, 128, 3)


def _lumina2() -> Implementation:
    module = class_of("lumina2", "Lumina2RotaryPosEmbed")(10000, (32, 32, 32))

    def call(x: Any, positions: Any) -> Any:
        require_indices(positions)
        if positions.numel() and int(positions.max()) >= 300:
            raise ValueError("positions must be below axes_lens, of which the least is 300")
        return turned_complex(x, module._get_freqs_cis(positions.T[None])[0])

    return _implementation(call, 96, 3)


def _ernie() -> Implementation:
    module = class_of("ernie_image", "ErnieImageEmbedND3")(128, 256, (32, 48, 48))

    def call(x: Any, positions: Any) -> Any:
        import torch

        angles = module(positions.T[None])[0, :, 0]
        first, last = x.chunk(2, dim=-1)
        turned = torch.cat((-last, first), dim=-1)
        return x * angles.cos().to(x.dtype) + turned * angles.sin().to(x.dtype)

    return _implementation(call, 128, 3)


def _hidream() -> Implementation:
    from diffusers.models.transformers.transformer_hidream_image import apply_rope

    module = class_of("hidream_image", "HiDreamImageEmbedND")(10000, [64, 32, 32])

    def call(x: Any, positions: Any) -> Any:
        q = x.transpose(1, 2)
        return apply_rope(q, q, module(positions.T[None]))[0].transpose(1, 2)

    return _implementation(call, 128, 3)


def _prx() -> Implementation:
    from diffusers.models.transformers.transformer_prx import apply_rope

    module = class_of("prx", "PRXEmbedND")(64, 10000, [32, 32])
    return _implementation(lambda x, p: apply_rope(x, module(p.T[None])), 64, 2)


def _mrope(dim: int, base: float) -> MixedRoPE:
    """Return M-RoPE with interleaved axes and sections (24, 20, 20), of ``dim // 2`` pairs."""
    pairs = np.arange(dim // 2)
    axis = np.where(pairs < 60, pairs % 3, 0)
    weight = np.where(axis == np.arange(3)[:, None], base ** (-2.0 * pairs / dim), 0.0)
    return MixedRoPE(dim, weight, layout="half")


def _half(x: Any, cos: Any, sin: Any) -> Any:
    """Return x rotated by tables (S, D), as the attention of both models does."""
    import torch

    first, last = x.chunk(2, dim=-1)
    return x * cos.to(x.dtype) + torch.cat((-last, first), dim=-1) * sin.to(x.dtype)


def _cosmos3() -> Implementation:
    import torch

    module = class_of("cosmos3", "Cosmos3VLTextRotaryEmbedding")(128, 5e6, (24, 20, 20))

    def call(x: Any, positions: Any) -> Any:
        cos, sin = module(positions[:, None], x.device, torch.float32)
        return _half(x, cos[0], sin[0])

    return _implementation(call, 128, 3)


def _ideogram() -> Implementation:
    module = class_of("ideogram4", "Ideogram4MRoPE")(256, 5000000, (24, 20, 20))

    def call(x: Any, positions: Any) -> Any:
        cos, sin = module(positions.T[None])
        return _half(x, cos[0], sin[0])

    return _implementation(call, 256, 3)


def _minimax() -> Implementation:
    from diffusers.models.transformers.transformer_minimax_h3 import _apply_rotary_emb

    module = class_of("minimax_h3", "MiniMaxH3RotaryPosEmbed")()

    def call(x: Any, positions: Any) -> Any:
        return _apply_rotary_emb(x.transpose(1, 2), *module(positions.T)).transpose(1, 2)

    return _implementation(call, 128, 3)


def _minimax_decoder() -> Implementation:
    from diffusers.models.autoencoders.autoencoder_kl_minimax_h3 import (
        MiniMaxH3VideoRotaryPosEmbed,
    )
    from diffusers.models.transformers.transformer_minimax_h3 import _apply_rotary_emb

    module = MiniMaxH3VideoRotaryPosEmbed(48)

    def call(x: Any, positions: Any) -> Any:
        cos, sin = module(positions.T[None])
        return _apply_rotary_emb(x.transpose(1, 2), cos[0, :, 0], sin[0, :, 0]).transpose(1, 2)

    return _implementation(call, 64, 3)
