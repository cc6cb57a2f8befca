"""Functions of MLX on a CPU: its kernel and layers, and the scaled layers of mlx-lm."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import (
    ALiBi,
    DynamicNTK,
    GivenFrequencies,
    LinearScaling,
    Llama3Scaling,
    Proportional,
    RoPE,
    Sinusoidal,
    YaRN,
)
from posenc_ref.conformance.calling.positions import window_start
from posenc_ref.conformance.harness.implementation import Implementation

from .library import LibraryFunction, functions_of
from .transformers_rotary import LONG, SHORT

_INTERLEAVED = partial(RoPE, 64, layout="interleaved")
_HALF = partial(RoPE, 64, layout="half")


def functions() -> list[LibraryFunction]:
    """Return the functions of MLX, then those of mlx-lm."""
    fast, layers = "mlx/fast.cpp: fast::rope", "nn/layers/positional_encoding.py: "
    function = functions_of("mlx", "")
    return [
        function("fast.rope", fast, _mlx_rope, _HALF(), fast=True),
        function("fast.rope, traditional", fast, partial(_mlx_rope, traditional=True),
                 _INTERLEAVED()),
        function("fast.rope, half of the head", fast, partial(_mlx_rope, dims=32),
                 _HALF(rotary_dim=32)),
        function("fast.rope, scale 1/4", fast, partial(_mlx_rope, scale=0.25),
                 _HALF(scaling=LinearScaling(4.0))),
        function("fast.rope, freqs", fast, partial(_mlx_rope, base=None, freqs=True),
                 _HALF(scaling=GivenFrequencies(tuple(1 / _periods()))),
                 says="the argument freqs holds 1 / frequency of each pair"),
        function("SinusoidalPositionalEncoding", f"{layers}SinusoidalPositionalEncoding",
                 _mlx_table,
                 Sinusoidal(64, layout="concat", denominator="half-1", scale=(2 / 64) ** 0.5)),
        function("ALiBi, slopes", f"{layers}ALiBi.create_alibi_slope",
                 partial(_mlx_alibi, "slopes"), ALiBi(12)),
        function("ALiBi", f"{layers}ALiBi.create_alibi_matrix, as ALiBi.__call__ uses it",
                 partial(_mlx_alibi, "bias"), ALiBi(12, causal=False)),
        *_mlx_lm(),
    ]  # fmt: skip


def _periods() -> np.ndarray:
    """Return 1 / frequency of 32 pairs: exact in float32, and not those of a known rule."""
    return np.asarray(1.0 + np.arange(32.0) ** 2 / 8)


def _mlx_rope(
    dims: int = 64, traditional: bool = False, base: float | None = 10000.0, scale: float = 1.0,
    freqs: bool = False,
) -> Implementation:  # fmt: skip
    import mlx.core as mx

    given = mx.array(_periods().astype(np.float32)) if freqs else None

    def call(x: Any, offset: int) -> Any:
        return mx.fast.rope(
            x, dims, traditional=traditional, base=base, scale=scale, offset=offset, freqs=given
        )

    return adapt_offset(call)


def adapt_offset(call: Any, head_dim: int = 64) -> Implementation:
    """Adapt a function that takes an offset instead of positions."""
    import mlx.core as mx

    def apply(x: Any, positions: Any) -> Any:
        given = np.ascontiguousarray(x)  # MLX takes no negative strides
        return np.array(call(mx.array(given), offset=window_start(positions)))

    return Implementation(apply, "apply", "mlx", head_dim=head_dim)


def _mlx_table() -> Implementation:
    import mlx.core as mx
    from mlx.nn import SinusoidalPositionalEncoding

    module = SinusoidalPositionalEncoding(64)
    return Implementation(lambda at: np.array(module(mx.array(at))), "table", "mlx")


def _mlx_alibi(surface: str) -> Implementation:
    from mlx.nn import ALiBi as Layer

    def slopes(num_heads: int) -> Any:
        return np.array(Layer.create_alibi_slope(num_heads)).reshape(-1)

    def bias(q_len: int, k_len: int) -> Any:
        return np.array(Layer.create_alibi_matrix(k_len, k_len, 12, offset=k_len - q_len))

    call = slopes if surface == "slopes" else bias
    return Implementation(call=call, surface=surface, name="mlx", num_heads=12)


# mlx-lm


def _mlx_lm() -> list[LibraryFunction]:
    def function(name: str, config: dict[str, Any], expected: RoPE, **more: Any) -> LibraryFunction:
        cls, _, _ = name.partition(",")
        base = more.pop("base", expected.base)
        longest = more.pop("longest", 131072)
        build = partial(_initialize_rope, config, expected.head_dim, expected.layout, base, longest)
        of_mlx_lm = functions_of("mlx-lm", "models/rope_utils.py: ")
        return of_mlx_lm(name, f"{cls}, initialize_rope", build, expected, **more)

    yarn = {"rope_type": "yarn", "original_max_position_embeddings": 4096}
    deepseek = yarn | {"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0}
    gpt_oss = yarn | {"factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}
    llama3 = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }  # fmt: skip
    su = {
        "rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG,
        "original_max_position_embeddings": 4096,
    }  # fmt: skip
    return [
        function("Llama3RoPE", llama3,
                 _HALF(base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))),
        function("YarnRoPE, DeepSeek-V3", deepseek,
                 _INTERLEAVED(scaling=YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0))),
        function("YarnRoPE, gpt-oss", gpt_oss, _HALF(base=150000.0, scaling=YaRN(32.0, 4096)),
                 says="truncate is ignored: the correction range is always rounded",
                 remark="The configuration of gpt-oss has `truncate: false`: transformers and "
                     "OpenAI's own code do not round the correction range. vllm-project/vllm#27722 "
                     "and sgl-project/sglang#14270 fixed this mistake in other libraries."),
        function("SuScaledRoPE, Phi-3", su,
                 RoPE(96, layout="half", scaling=always_long()), base=10000.0,
                 says="short_factor is ignored: long_factor and the attention factor apply at "
                     "every length",
                 remark="Phi-3's own code and transformers use short_factor for sequences up to "
                     "the original length. ml-explore/mlx-lm#660 brought this to mlx-lm too, and "
                     "#707 took it out again."),
        function("ProportionalRoPE", {"rope_type": "proportional", "partial_rotary_factor": 0.25},
                 RoPE(128, layout="half", base=1e6, scaling=Proportional(0.25))),
        function("DynamicNTKScalingRoPE", {"rope_type": "dynamic", "factor": 2.0},
                 _HALF(scaling=DynamicNTK(2.0, 2048)), longest=2048),
    ]  # fmt: skip


def always_long() -> GivenFrequencies:
    """Return ``SuScaledRoPE``'s 48 frequencies, for a model extended from 4096 to 131072."""
    frequencies = 1 / (np.array(LONG) * 1e4 ** (np.arange(48) / 48))
    factor = float(np.sqrt(1 + np.log(131072 / 4096) / np.log(4096)))
    return GivenFrequencies(tuple(frequencies.tolist()), attention_factor=factor)


def _initialize_rope(
    config: dict[str, Any], dims: int, layout: str, base: float, longest: int
) -> Implementation:
    from mlx_lm.models.rope_utils import initialize_rope

    rope = initialize_rope(dims, base, layout == "interleaved", config, longest)
    return adapt_offset(rope, dims)
