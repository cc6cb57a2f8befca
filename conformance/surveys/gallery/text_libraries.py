"""Functions of x-transformers, rotary-embedding-torch, litgpt and torchtune."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import (
    ALiBi,
    GivenFrequencies,
    LinearScaling,
    Llama3Scaling,
    MultiAxisRoPE,
    NTKScaling,
    RoPE,
    Sinusoidal,
    T5Bias,
)
from posenc_ref.conformance.adapters import peers
from posenc_ref.conformance.harness.implementation import Implementation

from .entry import Entry

_INTERLEAVED = partial(RoPE, 64, layout="interleaved")
_HALF = partial(RoPE, 64, layout="half")


def entries() -> list[Entry]:
    """Everything that needs PyTorch and one small library."""
    return [*_x_transformers(), *_rotary_embedding_torch(), *_litgpt(), *_torchtune()]


def _apply(call: Any, name: str, **more: Any) -> Implementation:
    return Implementation(
        **{"call": call, "surface": "apply", "name": name, "backend": "torch", "head_dim": 64}
        | more
    )


# x-transformers


def _x_transformers() -> list[Entry]:
    library, file = "x-transformers", "x_transformers.py: "

    def entry(name: str, functions: str, build: Any, expected: Any, **more: Any) -> Entry:
        return Entry(f"{library} {name}", library, file + functions, build, expected, **more)

    rotary, relative = peers.x_transformers_rotary, peers.x_transformers_relative
    apply = "RotaryEmbedding, apply_rotary_pos_emb"
    return [
        entry("RotaryEmbedding", apply, rotary, _INTERLEAVED(), fast=True),
        entry("RotaryEmbedding, half of the head", apply, partial(rotary, 64, rotary_dim=32),
              _INTERLEAVED(rotary_dim=32)),
        entry("RotaryEmbedding, interpolated", apply,
              partial(rotary, 64, interpolation_factor=4.0),
              _INTERLEAVED(scaling=LinearScaling(4.0))),
        entry("RotaryEmbedding, xPos", apply, _x_xpos, None, unknown="as in xPos",
              says="queries times scale ** ((p - max // 2) / 512): no rotation, and centred by the "
                   "longest position of the call"),
        entry("ScaledSinusoidalEmbedding", "ScaledSinusoidalEmbedding",
              peers.x_transformers_sinusoidal, Sinusoidal(64, layout="concat", scale=64**-0.5)),
        entry("AlibiPositionalBias, slopes", "AlibiPositionalBias._get_slopes",
              partial(peers.x_transformers_alibi, surface="slopes"), ALiBi(12)),
        entry("AlibiPositionalBias", "AlibiPositionalBias.forward", peers.x_transformers_alibi,
              ALiBi(12, causal=False)),
        entry("RelativePositionBias, buckets", "RelativePositionBias._relative_position_bucket",
              relative, T5Bias(np.zeros((32, 1)))),
        entry("RelativePositionBias, causal buckets",
              "RelativePositionBias._relative_position_bucket", partial(relative, causal=True),
              T5Bias(np.zeros((32, 1)), bidirectional=False)),
        entry("RelativePositionBias", "RelativePositionBias.forward",
              partial(relative, surface="bias"), T5Bias(np.zeros((32, 1)))),
    ]  # fmt: skip


def _x_xpos() -> Implementation:
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    module = RotaryEmbedding(64, use_xpos=True)

    def queries(x: Any, positions: Any) -> Any:
        angles, scale = module(positions)
        return apply_rotary_pos_emb(x, angles, scale)

    return _apply(queries, "x-transformers xPos")


# rotary-embedding-torch


def _rotary_embedding_torch() -> list[Entry]:
    library, file = "rotary-embedding-torch", "rotary_embedding_torch.py: "

    def entry(name: str, functions: str, build: Any, expected: Any, **more: Any) -> Entry:
        return Entry(f"{library} {name}", library, file + functions, build, expected, **more)

    rotate = "RotaryEmbedding.rotate_queries_or_keys"
    # torch.linspace(1, max_freq / 2, dim / 2) * pi, with max_freq = 10.
    pixel = GivenFrequencies(tuple(np.linspace(1.0, 5.0, 32) * np.pi))
    return [
        entry("lang", rotate, peers.rotary_embedding_torch, _INTERLEAVED(), fast=True),
        entry("lang, half of the head", rotate,
              partial(peers.rotary_embedding_torch, 64, rotary_dim=32),
              _INTERLEAVED(rotary_dim=32)),
        entry("lang, interpolated", rotate,
              partial(peers.rotary_embedding_torch, 64, interpolate_factor=4.0),
              _INTERLEAVED(scaling=LinearScaling(4.0))),
        entry("lang, rescaled theta", "RotaryEmbedding.__init__ (theta_rescale_factor)",
              partial(_ret_forward, theta_rescale_factor=8.0),
              _INTERLEAVED(scaling=NTKScaling(8.0))),
        entry("pixel", "RotaryEmbedding.forward, apply_rotary_emb",
              partial(_ret_forward, freqs_for="pixel"), _INTERLEAVED(scaling=pixel)),
        entry("axial", "RotaryEmbedding.get_axial_freqs, apply_rotary_emb", _ret_axial,
              MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart")),
        entry("xPos", "RotaryEmbedding.get_scale, apply_rotary_emb", _ret_xpos, None,
              unknown="as in xPos",
              says="the power is centred by the length of the call, (p - S // 2) / 512; at the "
                   "last token that is p / 1024, which is what single calls show",
              remark="rotate_queries_with_cached_keys centres queries by their own number and keys "
                     "by theirs, so the centres do not cancel: with 1024 keys and the last query "
                     "alone, logits of random q and k differ from those of the whole sequence by "
                     "up to 8.8, the largest being 23.8; without xPos they agree to the last bit "
                     "(lucidrains/rotary-embedding-torch#27 is where the method got its scales)."),
    ]  # fmt: skip


def _ret_forward(**settings: Any) -> Implementation:
    """Angles at any positions, without the cache that ``rotate_queries_or_keys`` goes through."""
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    module = RotaryEmbedding(64, **settings)
    return _apply(lambda x, p: apply_rotary_emb(module(p), x), "rotary-embedding-torch")


def _ret_axial() -> Implementation:
    import torch
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    side, module = 160, RotaryEmbedding(32)
    table = module.get_axial_freqs(side, side)

    def apply(x: Any, positions: Any) -> Any:
        if bool((positions < 0).any()) or positions.is_floating_point():
            raise ValueError("rows and columns of a grid only")
        rows = table[positions[0], positions[1]]
        return torch.cat(
            [apply_rotary_emb(row, one[None]) for row, one in zip(rows, x, strict=True)]
        )

    return _apply(apply, "rotary-embedding-torch", axes=2)


def _ret_xpos() -> Implementation:
    from rotary_embedding_torch import RotaryEmbedding

    def queries(x: Any, positions: Any) -> Any:
        end = peers.window_start(positions) + x.shape[-2]
        if end > 4096:
            raise ValueError("every call rotates all that comes before")
        whole = x.new_zeros((*x.shape[:-2], end, x.shape[-1]))
        whole[..., end - x.shape[-2] :, :] = x
        # A fresh module: the cache of scales keeps those of another length.
        module = RotaryEmbedding(64, use_xpos=True, cache_if_possible=False)
        return module.rotate_queries_and_keys(whole, whole)[0][..., end - x.shape[-2] :, :]

    return _apply(queries, "rotary-embedding-torch")


# litgpt


def _litgpt() -> list[Entry]:
    library, file = "litgpt", "model.py: "

    def entry(name: str, functions: str, build: Any, expected: Any, **more: Any) -> Entry:
        return Entry(f"{library} {name}", library, file + functions, build, expected, **more)

    cache = "build_rope_cache, apply_rope"
    llama3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_seq_len": 8192}  # fmt: skip
    return [
        entry("apply_rope", cache, _litgpt_build, _HALF()),
        entry("apply_rope, Llama 3.1", cache,
              partial(_litgpt_build, base=500000, extra_config=llama3),
              _HALF(base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))),
        entry("apply_rope, condensed", cache, partial(_litgpt_build, condense_ratio=4),
              _HALF(scaling=LinearScaling(4.0))),
        entry("apply_rope_interleave", "build_rope_cache, apply_rope_interleave",
              partial(_litgpt_build, interleave=True),
              _INTERLEAVED(output_layout="half")),
        entry("apply_rope, YaRN", cache, partial(_litgpt_build, extra_config=_YARN),
              _HALF(scaling=GivenFrequencies(_inverted_yarn())),
              says="the ramp multiplies the unscaled frequencies: slow pairs keep theirs, and fast "
                   "pairs are divided by the factor",
              remark="YaRN (Peng et al. 2023, section 3.2, and transformers' "
                     "_compute_yarn_parameters) keeps the fast pairs and divides the slow ones; "
                     "here it is the other way round: the fastest pair turns by 0.025 rad per "
                     "position (Lightning-AI/litgpt#2202 brought it in)."),
    ]  # fmt: skip


#: DeepSeek-V3's.
_YARN = {"factor": 40.0, "beta_fast": 32.0, "beta_slow": 1.0, "original_max_seq_len": 4096,
         "mscale": 1.0, "mscale_all_dim": 1.0}  # fmt: skip


def _inverted_yarn() -> tuple[float, ...]:
    """``build_rope_cache`` for 64 channels, in float64: low = 10, high = 23 of base 10000."""
    factor, length, k = 40.0, 4096, np.arange(32)
    low, high = (64 * np.log(length / (b * 2 * np.pi)) / (2 * np.log(1e4)) for b in (32, 1))
    low, high = max(np.floor(low), 0), min(np.ceil(high), 31)
    ramp = np.clip((k - low) / (high - low), 0, 1)
    plain = 1e4 ** (-k / 32)
    return tuple(((plain / factor) * (1 - ramp) + plain * ramp).tolist())


def _litgpt_build(interleave: bool = False, **settings: Any) -> Implementation:
    from litgpt.model import apply_rope, apply_rope_interleave, build_rope_cache

    length = 131072
    cos, sin = build_rope_cache(length, 64, **settings)
    rotate = apply_rope_interleave if interleave else apply_rope

    def apply(x: Any, positions: Any) -> Any:
        if positions.is_floating_point() or bool((positions < 0).any()):
            raise ValueError("rows of a table only")
        rows = positions if positions.ndim > 1 else positions[None]
        return rotate(x, cos[rows], sin[rows])

    return _apply(apply, "litgpt")


# torchtune


def _torchtune() -> list[Entry]:
    library = "torchtune"

    def entry(name: str, file: str, build: Any, expected: Any) -> Entry:
        return Entry(f"{library} {name}", library, f"{file}: {name}", build, expected)

    plain = "RotaryPositionalEmbeddings"
    return [
        entry(plain, "modules/position_embeddings.py",
              partial(_torchtune_build, "modules.position_embeddings", plain), _INTERLEAVED()),
        entry("Llama3ScaledRoPE", "models/llama3_1/_position_embeddings.py",
              partial(_torchtune_build, "models.llama3_1._position_embeddings",
                      "Llama3ScaledRoPE", base=500000),
              _INTERLEAVED(base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))),
        entry("Phi3RotaryPositionalEmbeddings", "models/phi3/_position_embeddings.py",
              partial(_torchtune_build, "models.phi3._position_embeddings",
                      "Phi3RotaryPositionalEmbeddings"), _HALF()),
    ]  # fmt: skip


def _torchtune_build(file: str, name: str, **settings: Any) -> Implementation:
    import importlib

    cls = getattr(importlib.import_module(f"torchtune.{file}"), name)
    module = cls(64, max_seq_len=131072, **settings)

    def apply(x: Any, positions: Any) -> Any:
        if positions.is_floating_point() or bool((positions < 0).any()):
            raise ValueError("rows of a table only")
        rows = positions.expand(x.shape[0], -1) if positions.ndim == 1 else positions
        return module(x, input_pos=rows)

    return _apply(apply, "torchtune", tensor_layout="bshd")
