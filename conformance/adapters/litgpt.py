"""Rotary functions of LitGPT."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import GivenFrequencies, LinearScaling, Llama3Scaling, RoPE
from posenc_ref.conformance.calling.positions import require_indices
from posenc_ref.conformance.harness.implementation import Implementation

from .library import LibraryFunction, functions_of

_HALF = partial(RoPE, 64, layout="half")
#: The scaling of Llama 3.1, and of DeepSeek-V3.
_LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_seq_len": 8192}  # fmt: skip
_YARN = {"factor": 40.0, "beta_fast": 32.0, "beta_slow": 1.0, "original_max_seq_len": 4096,
         "mscale": 1.0, "mscale_all_dim": 1.0}  # fmt: skip


def functions() -> list[LibraryFunction]:
    """Return both rotary functions, with every scaling."""
    function = functions_of("litgpt", "model.py: ")
    cache = "build_rope_cache, apply_rope"
    return [
        function("apply_rope", cache, _build, _HALF()),
        function("apply_rope, Llama 3.1", cache, partial(_build, base=500000, extra_config=_LLAMA3),
                 _HALF(base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))),
        function("apply_rope, condensed", cache, partial(_build, condense_ratio=4),
                 _HALF(scaling=LinearScaling(4.0))),
        function("apply_rope_interleave", "build_rope_cache, apply_rope_interleave",
                 partial(_build, interleave=True),
                 RoPE(64, layout="interleaved", output_layout="half")),
        function("apply_rope, YaRN", cache, partial(_build, extra_config=_YARN),
                 _HALF(scaling=GivenFrequencies(_inverted_yarn())),
                 says="the ramp multiplies the unscaled frequencies: slow pairs keep their "
                      "frequencies, and those of fast pairs are divided by the factor",
                 remark="YaRN (Peng et al. 2023, section 3.2, and transformers' "
                        "_compute_yarn_parameters) keeps fast frequencies and divides slow ones. "
                        "LitGPT divides fast frequencies and keeps slow ones, since "
                        "Lightning-AI/litgpt#2202: the fastest pair turns by 0.025 rad per "
                        "position instead of 1 rad. No configuration that LitGPT ships reaches "
                        "it."),
    ]  # fmt: skip


def _inverted_yarn() -> tuple[float, ...]:
    """Return the frequencies of ``build_rope_cache`` for 64 channels and base 10000, in float64."""
    factor, length, k = 40.0, 4096, np.arange(32)
    low, high = (64 * np.log(length / (b * 2 * np.pi)) / (2 * np.log(1e4)) for b in (32, 1))
    low, high = max(np.floor(low), 0), min(np.ceil(high), 31)
    ramp = np.clip((k - low) / (high - low), 0, 1)
    plain = 1e4 ** (-k / 32)
    return tuple(((plain / factor) * (1 - ramp) + plain * ramp).tolist())


def _build(interleave: bool = False, **settings: Any) -> Implementation:
    from litgpt.model import apply_rope, apply_rope_interleave, build_rope_cache

    cos, sin = build_rope_cache(131072, 64, **settings)
    rotate = apply_rope_interleave if interleave else apply_rope

    def apply(x: Any, positions: Any) -> Any:
        require_indices(positions)
        rows = positions if positions.ndim > 1 else positions[None]
        return rotate(x, cos[rows], sin[rows])

    return Implementation(apply, "apply", "litgpt", backend="torch", head_dim=64)
