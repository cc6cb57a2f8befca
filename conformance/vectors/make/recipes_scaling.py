"""Recipes for frequency scaling."""

from __future__ import annotations

from posenc_ref import (
    DynamicNTK,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    NTKByParts,
    NTKScaling,
    Proportional,
    QwenNTK,
    RoPE,
    SuNTK,
    YaRN,
)
from posenc_ref.conformance.exact.recipe import Group, Theme

from .recipes_rope import applied, brief, frequencies_of, half, pairs, standard

PI = "Chen et al. 2023, Positional Interpolation, arXiv:2306.15595, section 2.3, equation (4)"
YARN = "Peng et al. 2023, YaRN, arXiv:2309.00071"
NTK = f"{YARN}, section 3.1, definition 1 (bloc97's NTK-aware scaling)"
BY_PARTS = "jquesnelle/yarn, LlamaPartNTKScaledRotaryEmbedding"
BLEND = f"{YARN}, sections 3.2 and 3.4, with the ramp of jquesnelle/yarn"
DYNAMIC = "emozilla 2023, Dynamically Scaled RoPE; transformers rope_type='dynamic'"
STATIC = "vLLM, DynamicNTKScalingRotaryEmbedding (one table for the longest length)"
QWEN = "Qwen-7B, modeling_qwen.py, get_ntk_alpha"
SU = "Su Jianlin 2023, kexue.fm/archives/9706 (NTK-RoPE-fixed and -mixed)"
GPT_OSS = f"{BLEND}; openai/gpt-oss, torch/model.py, RotaryEmbedding (no rounding)"
DEEPSEEK = f"{BLEND}; deepseek-ai/DeepSeek-V3, inference/model.py (mscale)"
GROK = "xai-org/grok-2 with SGLang's yarn_log: the blend of exponents"
LLAMA = "meta-llama/llama-models, apply_scaling (Llama 3.1, section 3.4.1 of arXiv:2407.21783)"
LONG = (
    "Ding et al. 2024, LongRoPE, arXiv:2402.13753, section 3.3; microsoft/Phi-3, modeling_phi3.py"
)
PROPORTIONAL = "Barbero et al. 2024, Round and Round We Go, arXiv:2410.06205, section 6 (p-RoPE)"

#: Invented LongRoPE factors, which grow from 1 like published ones, LONGER faster than SHORT.
SHORT = tuple(round(1.0 + 0.3 * (j / 47) ** 2, 2) for j in range(48))
LONGER = tuple(round(1.0 + 0.1 * j + 58.0 * (j / 47) ** 3, 2) for j in range(48))


def by_length(ident: str, rope: RoPE, spec: str, *calls: tuple[int, ...]) -> Group:
    """Return calls of different lengths, for frequencies that depend on the length."""
    cases = ((f"to-{max(at)}", f"A call of length {max(at) + 1}.", at) for at in calls)
    return applied(ident, rope, spec, *cases)


def ntk() -> Theme:
    """Return the vectors of linear interpolation and NTK scaling."""
    dynamic, other = half(64, DynamicNTK(4.0, 2048)), half(128, DynamicNTK(2.0, 4096))
    qwen = half(64, QwenNTK(2048))
    static = half(128, DynamicNTK(2.0, 4096, policy="static"))
    parts = half(128, NTKByParts(4.0, 2048))
    groups = (
        standard("rope-64-half-linear", half(64, LinearScaling(4.0)), PI),
        standard("rope-64-half-ntk", half(64, NTKScaling(4.0)), NTK),
        brief("rope-128-half-ntk-by-parts", parts, BY_PARTS),
        by_length("rope-64-half-dynamic", dynamic, DYNAMIC, (0, 1, 2047), (3, 2048), (1, 40959)),
        by_length("rope-128-half-dynamic", other, DYNAMIC, (1, 4095), (1, 4999)),
        frequencies_of("rope-64-half-dynamic", dynamic, DYNAMIC, 1, 2048, 2049, 8192),
        frequencies_of("rope-64-half-qwen", qwen, QWEN, 2048, 2049, 4096, 4097, 16384),
        frequencies_of("rope-128-half-linear-8", half(128, LinearScaling(8.0), base=1e6), PI),
        frequencies_of(
            "rope-128-half-linear-32", half(128, LinearScaling(32.0), base=500000.0), PI
        ),
        frequencies_of("rope-128-interleaved-ntk-8", pairs(128, NTKScaling(8.0)), NTK),
        frequencies_of("rope-128-half-by-parts", parts, BY_PARTS),
        frequencies_of("rope-64-half-su", half(64, SuNTK(8.0)), SU),
        frequencies_of("rope-64-half-su-mixed", half(64, SuNTK(8.0, power=0.625)), SU),
        frequencies_of("rope-128-half-dynamic-static", static, STATIC),
    )
    return Theme("scaling-ntk", "RoPE with linear and NTK-aware scaling", groups)


def yarn() -> Theme:
    """Return the vectors of YaRN: three model families, and its options."""
    oss = half(64, YaRN(32.0, 4096, truncate=False), base=150000.0)
    qwen = half(128, YaRN(4.0, 32768), base=1e6)
    deepseek, lite, split = (
        pairs(64, YaRN(40.0, 4096, mscale=above, mscale_all_dim=below))
        for above, below in ((1.0, 1.0), (0.707, 0.707), (1.0, 0.5))
    )
    betas = YaRN(16.0, 4096, beta_fast=4.0, beta_slow=2.0, attention_factor=1.0)
    given = half(128, YaRN(64.0, 4096, attention_factor=1.0), base=1e6)
    geometric = half(64, YaRN(16.0, 8192, blend="geometric"), base=208533496.0)
    groups = (
        standard("rope-64-half-yarn-gpt-oss", oss, GPT_OSS),
        standard("rope-128-half-yarn-qwen", qwen, BLEND),
        standard("rope-64-interleaved-yarn-deepseek", deepseek, DEEPSEEK),
        brief("rope-64-interleaved-yarn-deepseek-lite", lite, DEEPSEEK),
        brief("rope-128-half-yarn-first-64", half(128, YaRN(8.0, 8192), rotary_dim=64), BLEND),
        brief("rope-64-interleaved-yarn-betas", pairs(64, betas), BLEND),
        brief("rope-64-half-yarn-steep", half(64, YaRN(8.0, 131072, beta_fast=64.0)), BLEND),
        frequencies_of("rope-64-half-yarn-gpt-oss", oss, GPT_OSS),
        frequencies_of("rope-128-half-yarn-qwen", qwen, BLEND),
        frequencies_of("rope-64-interleaved-yarn-deepseek", deepseek, DEEPSEEK),
        frequencies_of("rope-64-interleaved-yarn-split-mscale", split, DEEPSEEK),
        frequencies_of("rope-128-half-yarn-no-factor", given, BLEND),
        frequencies_of("rope-64-half-yarn-geometric", geometric, GROK),
    )
    return Theme("scaling-yarn", "RoPE with YaRN", groups)


def others() -> Theme:
    """Return the vectors of Llama 3.1, LongRoPE and proportional scaling."""
    three, narrow, step = (
        half(128, Llama3Scaling(8.0, low, high, 8192), base=500000.0)
        for low, high in ((1.0, 4.0), (2.0, 3.0), (2.0, 2.0))
    )
    two = half(64, Llama3Scaling(32.0, 1.0, 4.0, 8192), base=500000.0)
    sixteen = half(128, Llama3Scaling(16.0, 1.0, 4.0, 8192), base=1e6)
    phi = half(96, LongRoPE(SHORT, LONGER, 4096, factor=32.0))
    given = half(96, LongRoPE(SHORT, LONGER, 3000, attention_factor=1.24), base=1e6)
    pair = half(96, LongRoPE(SHORT, LONGER, 4096, attention_factor=(1.0, 1.25), policy="long"))
    prope = half(256, Proportional(0.25), base=1e6)
    slower = half(32, Proportional(0.75, factor=8.0))
    groups = (
        standard("rope-128-half-llama-3-1", three, LLAMA),
        standard("rope-64-half-llama-3-2", two, LLAMA),
        brief("rope-128-half-llama-3-narrow", narrow, LLAMA),
        by_length("rope-96-half-longrope", phi, LONG, (0, 1), (37, 4095), (1, 4096), (131071,)),
        by_length("rope-96-half-longrope-told", given, LONG, (1, 2999), (1, 3000)),
        brief("rope-256-half-proportional", prope, PROPORTIONAL),
        brief("rope-32-half-proportional-slower", slower, PROPORTIONAL),
        frequencies_of("rope-128-half-llama-3-1", three, LLAMA),
        frequencies_of("rope-64-half-llama-3-2", two, LLAMA),
        frequencies_of("rope-128-half-llama-3-16", sixteen, LLAMA),
        frequencies_of("rope-128-half-llama-3-step", step, LLAMA),
        frequencies_of("rope-96-half-longrope", phi, LONG, 4096, 4097),
        frequencies_of("rope-96-half-longrope-told", given, LONG, 3000, 3001),
        frequencies_of("rope-96-half-longrope-long", pair, LONG),
        frequencies_of("rope-256-half-proportional", prope, PROPORTIONAL),
    )
    return Theme("scaling-others", "RoPE with Llama 3.1's scaling, LongRoPE and p-RoPE", groups)
