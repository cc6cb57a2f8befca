"""Rotary classes of ``diffusers`` for text and sound, and those of LTX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from posenc_ref import LongRoPE, MixedRoPE, RoPE
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.adapters.rotations import row_by_row
from posenc_ref.conformance.adapters.transformers_rotary import LONG, SHORT
from posenc_ref.conformance.calling.positions import require_indices
from posenc_ref.conformance.harness.implementation import Implementation

LIBRARY = "diffusers"
_MODELS = "models/transformers/"
_function = functions_of(LIBRARY, "")
_HALF = partial(RoPE, 64, layout="half")
_INTERLEAVED = partial(RoPE, 64, layout="interleaved")
#: The rows of the tables that functions of a length make.
_ROWS = 2**15


def functions() -> list[LibraryFunction]:
    """Return the classes of one axis, then those of LTX."""
    partly = "_apply_rotary_partial"
    ltx = "LTXVideoRotaryPosEmbed, apply_rotary_emb"
    ltx2 = f"{_MODELS}transformer_ltx2.py: LTX2AudioVideoRotaryPosEmbed"
    fraction = "positions are 2 c - 1 for the coordinate c, a fraction of the largest video"
    return [
        _function("Stable Audio 3", f"{_MODELS}transformer_stable_audio3.py: "
                  f"StableAudio3RotaryEmbedding, {partly}", _stable_audio3, _HALF(rotary_dim=32)),
        _function("Stable Audio 3, loaded in float16", f"{_MODELS}transformer_stable_audio3.py: "
                  f"StableAudio3DiTModel.rotary_pos_emb, {partly}", _stable_audio3_loaded,
                  _HALF(rotary_dim=32),
                  says="the model of from_pretrained(..., torch_dtype=torch.float16), as the "
                       "pipeline's documentation loads it"),
        _function("SAME", f"models/autoencoders/autoencoder_same.py: RotaryEmbedding, {partly}",
                  _same, _HALF(rotary_dim=32)),
        _function("Anima", "models/condition_embedders/condition_embedder_anima.py: "
                  "AnimaRotaryEmbedding, _apply_rotary_pos_emb", _anima, _HALF()),
        _function("MiniMax Music 3", f"{_MODELS}transformer_minimax_music3.py: "
                  "MiniMaxMusic3RotaryEmbedding, _apply_partial_rotary_emb", _music,
                  _HALF(rotary_dim=32)),
        _function("LongCat AudioDiT", f"{_MODELS}transformer_longcat_audio_dit.py: "
                  "AudioDiTRotaryEmbedding, _apply_rotary_emb", _audio_dit, _HALF(base=100000.0)),
        _function("ACE-Step", f"{_MODELS}ace_step_transformer.py: _ace_step_rotary_freqs", _ace,
                  RoPE(128, layout="half", base=1e6)),
        _function("Kandinsky 6, text", f"{_MODELS}transformer_kandinsky6.py: Kandinsky6RoPE1D, "
                  "apply_rotary", _kandinsky6, _INTERLEAVED()),
        _function("Kolors", "pipelines/kolors/text_encoder.py: RotaryEmbedding, "
                  "apply_rotary_pos_emb", _kolors, _INTERLEAVED(rotary_dim=32)),
        _function("OmniGen", f"{_MODELS}transformer_omnigen.py: OmniGenSuScaledRotaryEmbedding; "
                  "models/embeddings.py: apply_rotary_emb", _omnigen,
                  RoPE(96, layout="half", scaling=LongRoPE(SHORT, LONG, 4096,
                                                           factor=32.0)),
                  says="positions (B, S), as OmniGenTransformer2DModel passes them"),
        _function("LTX", f"{_MODELS}transformer_ltx.py: {ltx}", partial(_ltx, 60),
                  MixedRoPE.fractional(60), says=fraction),
        _function("LTX, padded", f"{_MODELS}transformer_ltx.py: {ltx}", partial(_ltx, 64),
                  MixedRoPE.fractional(64), says=f"{fraction}; the first channels do not turn"),
        _function("LTX-2", f"{ltx2}, apply_interleaved_rotary_emb",
                  partial(_ltx2, "interleaved"), MixedRoPE.fractional(64), says=fraction),
        _function("LTX-2, split", f"{ltx2}, apply_split_rotary_emb", partial(_ltx2, "split"),
                  MixedRoPE.fractional(128, num_heads=2), says=fraction),
    ]  # fmt: skip


def _indexed(rotate: Callable[[Any, Any], Any], head_dim: int = 64) -> Implementation:
    """Adapt ``rotate(x, positions)`` with x (B, H, S, D), which reads rows of a table."""

    def call(x: Any, positions: Any) -> Any:
        require_indices(positions)
        if positions.numel() and int(positions.max()) >= _ROWS:
            raise ValueError(f"positions must be below {_ROWS}, the rows of the table made here")
        return rotate(x, positions)

    return Implementation(row_by_row(call), "apply", LIBRARY, backend="torch", head_dim=head_dim)


def _swapped(rotate: Callable[[Any], Any], x: Any) -> Any:
    """Return ``rotate`` of x (B, H, S, D) in the layout (B, S, H, D)."""
    return rotate(x.transpose(1, 2)).transpose(1, 2)


def _stable_audio3() -> Implementation:
    from diffusers.models.transformers.transformer_stable_audio3 import StableAudio3RotaryEmbedding

    return _partly(StableAudio3RotaryEmbedding(32))


def _partly(module: Any) -> Implementation:
    import torch
    from diffusers.models.transformers.transformer_stable_audio3 import _apply_rotary_partial

    table = module(_ROWS, torch.device("cpu"))
    return _indexed(lambda x, p: _swapped(lambda y: _apply_rotary_partial(y, table[p]), x))


def _stable_audio3_loaded() -> Implementation:
    import tempfile

    import accelerate  # noqa: F401  # without it the model is loaded in another way
    import torch
    from diffusers import StableAudio3DiTModel

    names = ("io_channels", "cond_token_dim", "global_cond_dim", "local_add_cond_dim")
    small = dict.fromkeys((*names, "timestep_features_dim"), 4)
    model = StableAudio3DiTModel(embed_dim=64, depth=1, num_heads=1, **small)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = StableAudio3DiTModel.from_pretrained(folder, torch_dtype=torch.float16)
    return _partly(loaded.rotary_pos_emb)


def _same() -> Implementation:
    from diffusers.models.autoencoders.autoencoder_same import RotaryEmbedding

    return _partly(RotaryEmbedding(32))


def _anima() -> Implementation:
    from diffusers.models.condition_embedders import condition_embedder_anima as anima

    module = anima.AnimaRotaryEmbedding(64)

    def call(x: Any, positions: Any) -> Any:
        return anima._apply_rotary_pos_emb(x, *module(x, positions[None]))

    return Implementation(row_by_row(call), "apply", LIBRARY, backend="torch", head_dim=64)


def _music() -> Implementation:
    import torch
    from diffusers.models.transformers import transformer_minimax_music3 as music

    cos, sin = music.MiniMaxMusic3RotaryEmbedding(32)(_ROWS, torch.device("cpu"))

    def rotate(x: Any, p: Any) -> Any:
        return _swapped(lambda y: music._apply_partial_rotary_emb(y, (cos[p], sin[p])), x)

    return _indexed(rotate)


def _audio_dit() -> Implementation:
    import torch
    from diffusers.models.transformers import transformer_longcat_audio_dit as audio

    module = audio.AudioDiTRotaryEmbedding(64)
    cos, sin = module(torch.zeros(1, 1), _ROWS)

    def rotate(x: Any, p: Any) -> Any:
        return _swapped(lambda y: audio._apply_rotary_emb(y, (cos[p], sin[p])), x)

    return _indexed(rotate)


def _ace() -> Implementation:
    import torch
    from diffusers.models.embeddings import apply_rotary_emb
    from diffusers.models.transformers.ace_step_transformer import _ace_step_rotary_freqs

    cos, sin = _ace_step_rotary_freqs(_ROWS, 128, 1e6, torch.device("cpu"), torch.float32)

    def rotate(x: Any, p: Any) -> Any:
        return apply_rotary_emb(x, (cos[p], sin[p]), use_real_unbind_dim=-2)

    return _indexed(rotate, 128)


def _kandinsky6() -> Implementation:
    from diffusers.models.transformers.transformer_kandinsky6 import Kandinsky6RoPE1D, apply_rotary

    module = Kandinsky6RoPE1D(64, max_pos=_ROWS)
    return _indexed(lambda x, p: _swapped(lambda y: apply_rotary(y, module(p)), x))


def _kolors() -> Implementation:
    import torch
    from diffusers.pipelines.kolors.text_encoder import RotaryEmbedding, apply_rotary_pos_emb

    cache = RotaryEmbedding(32, dtype=torch.float32)(_ROWS)

    def rotate(x: Any, p: Any) -> Any:
        y = apply_rotary_pos_emb(x.permute(2, 0, 1, 3), cache[p][:, None])
        return y.permute(1, 2, 0, 3)

    return _indexed(rotate)


def _omnigen() -> Implementation:
    import torch
    from diffusers.models.embeddings import apply_rotary_emb
    from diffusers.models.transformers.transformer_omnigen import OmniGenSuScaledRotaryEmbedding

    module = OmniGenSuScaledRotaryEmbedding(
        96, rope_scaling={"short_factor": SHORT, "long_factor": LONG}
    )

    def apply(x: Any, positions: Any) -> Any:
        rows = positions if positions.ndim > 1 else positions.expand(len(x), -1)
        return apply_rotary_emb(x, module(torch.zeros(1), rows), use_real_unbind_dim=-2)

    return Implementation(apply, "apply", LIBRARY, backend="torch", head_dim=96)


def _ltx(dim: int) -> Implementation:
    import torch
    from diffusers.models.transformers.transformer_ltx import (
        LTXVideoRotaryPosEmbed,
        apply_rotary_emb,
    )

    module = LTXVideoRotaryPosEmbed(dim)
    extents = torch.tensor([20.0, 2048.0, 2048.0])

    def call(x: Any, positions: Any) -> Any:
        coords = (positions + 1) / 2 * extents[:, None]
        tables = module(x, video_coords=coords[None])
        return apply_rotary_emb(x.flatten(0, 1), tables).reshape(x.shape)

    return Implementation(
        row_by_row(call, 3), "apply", LIBRARY, backend="torch", head_dim=dim, axes=3
    )


def _ltx2(kind: str) -> Implementation:
    import torch
    from diffusers.models.transformers import transformer_ltx2 as ltx2

    heads = 2 if kind == "split" else None
    dim = 128 if heads else 64
    module = ltx2.LTX2AudioVideoRotaryPosEmbed(dim, rope_type=kind, num_attention_heads=heads or 1)
    extents = torch.tensor([20.0, 2048.0, 2048.0])

    def call(x: Any, positions: Any) -> Any:
        tables = module(((positions + 1) / 2 * extents[:, None])[None])
        if heads:
            return ltx2.apply_split_rotary_emb(x, tables)
        return ltx2.apply_interleaved_rotary_emb(x.flatten(0, 1), tables).reshape(x.shape)

    return Implementation(row_by_row(call, 3), "apply", LIBRARY, backend="torch", head_dim=64,
                          num_heads=heads, axes=3)  # fmt: skip
