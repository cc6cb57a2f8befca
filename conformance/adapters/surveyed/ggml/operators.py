"""The positional operators of ggml, the library of llama.cpp, by the bindings of ggml-python."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import (
    ALiBi,
    DecomposedRelative,
    Encoding,
    LinearScaling,
    Llama3Scaling,
    MultiAxisRoPE,
    Proportional,
    RoPE,
    Sinusoidal,
    YaRN,
)
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.adapters.mlx import always_long
from posenc_ref.conformance.adapters.transformers_rotary import LONG
from posenc_ref.conformance.harness.implementation import Implementation

from .graph import compute, int32

LIBRARY = "ggml-python"
#: GGML_ROPE_TYPE_NORMAL and the others of ggml.h.
_NORMAL, _NEOX, _MROPE, _VISION, _IMROPE = 0, 2, 8, 24, 40
#: In float16 the rotations of wide heads are `inaccurate` (docs/libraries.md).
_DTYPES = ("float32",)
_INTERLEAVED = partial(RoPE, 64, layout="interleaved")
_HALF = partial(RoPE, 64, layout="half")
_GRID = (5, 5)
_ops = functions_of(LIBRARY, "ggml/src/ggml-cpu/ops.cpp: ")


def functions() -> list[LibraryFunction]:
    """Return the rotations, then ALiBi, the embedding of time steps and SAM's positions."""
    return [*_rotations(), *_several_axes(), *_others()]


def _rotations() -> list[LibraryFunction]:
    def function(name: str, expected: RoPE, says: str = "", **settings: Any) -> LibraryFunction:
        mode = _NEOX if expected.layout == "half" else _NORMAL
        build = partial(_rope, expected, mode, **settings)
        return _ops(name, "ggml_compute_forward_rope_flt", build, expected, says=says,
                    dtypes=_DTYPES)  # fmt: skip

    yarn: dict[str, Any] = {
        "ext_factor": 1.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "n_ctx_orig": 4096,
    }
    return [
        function("ggml_rope_ext, normal", _INTERLEAVED()),
        function("ggml_rope_ext, neox", _HALF()),
        function("ggml_rope_ext, normal, 256 channels", RoPE(256, layout="interleaved")),
        function("ggml_rope_ext, neox, base 1e6", RoPE(128, layout="half", base=1e6)),
        function("ggml_rope_ext, normal, half of the head", _INTERLEAVED(rotary_dim=32)),
        function("ggml_rope_ext, neox, half of the head", _HALF(rotary_dim=32)),
        function("ggml_rope_ext, freq_scale 1/4", _HALF(scaling=LinearScaling(4.0)),
                 freq_scale=0.25),
        function("ggml_rope_ext, YaRN", _HALF(scaling=YaRN(4.0, 4096)), freq_scale=0.25, **yarn),
        function("ggml_rope_ext, YaRN, attn_factor", _INTERLEAVED(
                     scaling=YaRN(40.0, 4096, attention_factor=1.0)), freq_scale=1 / 40,
                 attn_factor=1 / (1 + 0.1 * np.log(40)), **yarn,
                 says="the kernel multiplies attn_factor by 1 + 0.1 ln factor; llama.cpp divides "
                      "by it before"),
        function("ggml_rope_ext, gpt-oss",
                 _HALF(base=150000.0, scaling=YaRN(32.0, 4096, truncate=False)),
                 freq_scale=1 / 32, **yarn,
                 says="the configuration of gpt-oss has truncate: false"),
        function("ggml_rope_ext, Llama 3",
                 _INTERLEAVED(base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
                 factors="llama3", says="with the divisors that llama.cpp's converter writes"),
        function("ggml_rope_ext, Phi-3", RoPE(96, layout="half", scaling=always_long()),
                 factors="longrope", attn_factor=always_long().attention_factor,
                 says="with the long divisors, which llama.cpp chooses by the size of its cache"),
        function("ggml_rope_ext, Gemma 4",
                 RoPE(128, layout="half", base=1e6, scaling=Proportional(0.25)),
                 factors="proportional",
                 says="with the divisor 1e30 of pairs that do not turn, as llama.cpp's converter "
                      "writes it"),
        function("ggml_rope_ext_back", _INTERLEAVED(sign=-1), call="ggml_rope_ext_back",
                 says="the gradient turns the other way"),
    ]  # fmt: skip


def _several_axes() -> list[LibraryFunction]:
    def function(name: str, expected: MultiAxisRoPE, mode: int, says: str = "") -> LibraryFunction:
        return _ops(name, "ggml_mrope_cache_init", partial(_rope, expected, mode), expected,
                    says=says, dtypes=_DTYPES)  # fmt: skip

    fourth = "the fourth position is 0, as llama.cpp gives it for text and images"
    chunked, woven = partial(MultiAxisRoPE, layout="half"), "interleaved"
    return [
        function("ggml_rope_multi, MROPE, Qwen2-VL", chunked(128, sections=(16, 24, 24), base=1e6),
                 _MROPE, fourth),
        function("ggml_rope_multi, IMROPE, Qwen3-VL",
                 chunked(128, sections=(24, 20, 20), base=5e6, arrangement=woven), _IMROPE, fourth),
        function("ggml_rope_multi, IMROPE, Qwen3.5",
                 chunked(256, sections=(11, 11, 10), base=1e7, arrangement=woven),
                 _IMROPE, fourth),
        function("ggml_rope_multi, VISION", chunked(64, sections=(16, 16), spacing="restart"),
                 _VISION, "four sections of a quarter of the head, as in clip.cpp; positions are "
                 "row, column, row, column"),
    ]  # fmt: skip


def _others() -> list[LibraryFunction]:
    softmax, steps = "ggml_compute_forward_soft_max_f32", "ggml_compute_forward_timestep_embedding"

    def function(
        name: str, source: str, build: Any, expected: Encoding, says: str = ""
    ) -> LibraryFunction:
        return _ops(name, source, build, expected, says=says)

    return [
        function("ggml_soft_max_ext, slopes", softmax, _slopes, ALiBi(12),
                 says="slopes are read from a softmax of two logits; max_bias is 8"),
        function("ggml_soft_max_ext, ALiBi", softmax, partial(_attention, 12), ALiBi(12),
                 says="between two calls of ggml_mul_mat, with the mask -|i - j|, as in llama.cpp"),
        function("ggml_soft_max_ext, ALiBi, 8 heads", softmax, partial(_attention, 8), ALiBi(8)),
        function("ggml_timestep_embedding", steps, _timesteps,
                 Sinusoidal(64, layout="concat", first="cos")),
        function("ggml_timestep_embedding, odd", steps, partial(_timesteps, 65),
                 Sinusoidal(65, layout="concat", first="cos", denominator=32.0,
                            odd="zero-pad")),
        function("ggml_add_rel_pos", "ggml_compute_forward_get_rel_pos_f16, "
                 "ggml_compute_forward_add_rel_pos_f32", _relative,
                 DecomposedRelative(*(np.zeros((9, 8)),) * 2, grid=_GRID),
                 says="tables are float16; products of gathered rows and queries as in sam.cpp, "
                      "in float32"),
    ]  # fmt: skip


def _divisors(kind: str, expected: RoPE) -> np.ndarray:
    """Return the tensor freq_factors, as llama.cpp's converter writes it."""
    pairs = expected.head_dim // 2
    if kind == "longrope":
        return np.array(LONG, np.float32)
    if kind == "proportional":
        return np.array([1.0] * (pairs // 4) + [1e30] * (pairs - pairs // 4), np.float32)
    # conversion/llama.py, generate_extra_tensors
    waves = 2 * np.pi * expected.base ** (np.arange(pairs) / pairs)
    smooth = np.clip((8192 / waves - 1.0) / (4.0 - 1.0), 0, 1)
    return (1 / ((1 - smooth) / 8.0 + smooth)).astype(np.float32)


def _rope(
    expected: RoPE | MultiAxisRoPE,
    mode: int,
    call: str = "",
    factors: str = "",
    n_ctx_orig: int = 0,
    freq_scale: float = 1.0,
    ext_factor: float = 0.0,
    attn_factor: float = 1.0,
    beta_fast: float = 0.0,
    beta_slow: float = 0.0,
) -> Implementation:
    import ggml

    sections = expected.sections if isinstance(expected, MultiAxisRoPE) else ()
    function = getattr(ggml, call or ("ggml_rope_multi" if sections else "ggml_rope_ext"))
    divisors = [_divisors(factors, expected)] if isinstance(expected, RoPE) and factors else []
    turned = expected.head_dim // 2 if mode == _VISION else expected.rotary_dim
    settings = (n_ctx_orig, expected.base, freq_scale, ext_factor, attn_factor, beta_fast,
                beta_slow)  # fmt: skip

    def apply(x: Any, positions: Any) -> Any:
        def build(context: Any, x: Any, at: Any, divisors: Any = None) -> Any:
            four = (_sections(sections, mode),) if sections else ()
            return function(context, x, at, divisors, turned, *four, mode, *settings)

        at = int32(positions)
        if at.shape[-1] != len(x):  # ggml would end the process
            raise ValueError(f"{len(x)} tokens need as many positions, got {at.shape[-1]}")
        return compute(build, x, _four(at, mode) if sections else at, *divisors)[0]

    return Implementation(apply, "apply", LIBRARY, tensor_layout="thd",
                          head_dim=expected.head_dim, axes=len(sections) or 1)  # fmt: skip


def _sections(sections: Any, mode: int) -> Any:
    import ctypes

    every = (*sections, *sections) if mode == _VISION else (*sections, 0)
    return (ctypes.c_int * 4)(*every)


def _four(at: np.ndarray, mode: int) -> np.ndarray:
    """Return the four positions of every token in a row: (4 T,)."""
    axes = 2 if mode == _VISION else 3
    rows = np.broadcast_to(at, (axes, at.shape[-1]))
    fourth = rows if mode == _VISION else np.zeros_like(rows[:1])
    return np.concatenate([rows, fourth]).reshape(-1)


def _softmax(logits: Any, mask: Any) -> Any:
    """Return ``ggml_soft_max_ext`` of logits (H, Q, K) and a mask, with max_bias 8."""
    import ggml

    def build(context: Any, logits: Any, mask: Any) -> Any:
        return ggml.ggml_soft_max_ext(context, logits, mask, 1.0, 8.0)

    return compute(build, logits, mask)[0]


def _slopes() -> Implementation:
    def slopes(num_heads: int) -> Any:
        # The mask of head h is (0, -m): exp(-slope m) = p_1 / p_0.  A first call with m = 1 finds
        # the m of the second, which makes slope m about 32, so that rounding the p does not matter.
        m: Any = np.ones(num_heads)
        for _ in range(2):
            mask = np.stack([np.zeros(num_heads), -m], -1)[:, None].astype(np.float32)
            p = _softmax(np.zeros_like(mask), mask)[:, 0].astype(np.float64)
            found = np.log(p[:, 0] / p[:, 1]) / m
            m = 2.0 ** np.round(np.log2(32 / found))
        return found

    return Implementation(slopes, "slopes", LIBRARY)


def _attention(num_heads: int) -> Implementation:
    import ggml

    def attention(q: Any, k: Any, v: Any, q_positions: Any, k_positions: Any) -> Any:
        scale = float(q.shape[-1]) ** -0.5
        rows, columns = (np.asarray(one, np.int64) for one in (q_positions, k_positions))
        distance = np.abs(rows[..., :, None] - columns[..., None, :])
        seen = columns[..., None, :] <= rows[..., :, None]
        mask = np.where(seen, -distance, -np.inf).astype(np.float32)
        masks = np.broadcast_to(mask, (q.shape[0], *mask.shape[-2:]))[:, None]

        def build(context: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
            logits = ggml.ggml_mul_mat(context, k, q)
            weights = ggml.ggml_soft_max_ext(context, logits, mask, scale, 8.0)
            return ggml.ggml_mul_mat(context, v, weights)

        return compute(build, q, k, v.swapaxes(-1, -2), masks)

    return Implementation(attention, "attention", LIBRARY, head_dim=64, num_heads=num_heads)


def _timesteps(dim: int = 64) -> Implementation:
    import ggml

    def rows(positions: Any) -> Any:
        def build(context: Any, steps: Any) -> Any:
            return ggml.ggml_timestep_embedding(context, steps, dim, 10000)

        given = np.asarray(positions)
        found = compute(build, given.reshape(-1).astype(np.float32))[0, 0]
        return found.reshape(*given.shape, found.shape[-1])

    return Implementation(rows, "table", LIBRARY)


def _relative() -> Implementation:
    """Adapt the scores of a whole grid, from queries that are not scaled."""
    import ggml

    drawn = np.random.default_rng(0)
    height, width = (drawn.standard_normal((2 * n - 1, 8)).astype(np.float16) for n in _GRID)
    tokens = _GRID[0] * _GRID[1]

    def build(context: Any, logits: Any, q: Any, turned: Any, height: Any, width: Any) -> Any:
        gathered = [ggml.ggml_get_rel_pos(context, one, n, n)
                    for one, n in zip((width, height), _GRID, strict=True)]  # fmt: skip
        wide, high = (ggml.ggml_cast(context, one, ggml.GGML_TYPE_F32) for one in gathered)
        across = ggml.ggml_mul_mat(context, wide, turned)
        across = ggml.ggml_cont(context, ggml.ggml_permute(context, across, 0, 2, 1, 3))
        return ggml.ggml_add_rel_pos(context, logits, across, ggml.ggml_mul_mat(context, high, q))

    def scores(q: Any, k: Any) -> Any:
        if q.shape[2] != tokens or k.shape[2] != tokens:
            raise ValueError(f"q and k must have {tokens} tokens, those of the whole grid")
        logits = (q @ k.swapaxes(-1, -2)) * np.float32(q.shape[-1] ** -0.5)
        grid = q.reshape(-1, *_GRID, q.shape[-1])
        flat = logits.reshape(1, -1, tokens, tokens)
        found = compute(build, flat, grid, grid.swapaxes(1, 2), height, width)
        return found.reshape(logits.shape)

    encoding = DecomposedRelative(height.astype(float), width.astype(float), grid=_GRID)
    return Implementation(scores, "scores", LIBRARY, encoding, head_dim=8)
