"""Published mistakes of long-context scaling, each caught and named.

    python examples/long_context_mistakes.py
    posenc check examples/long_context_mistakes.py:yarn_betas_swapped --preset gpt-oss-20b

Every function below rotates as a model does, except for one mistake that short prompts hide.
"""

from __future__ import annotations

import math

import numpy as np

import posenc_ref
from posenc_ref.conformance import check


def rotate(x, positions, frequencies, m=1.0, axes=None):
    """Rotate half-split pairs at positions (S,) or (B, S); (A, B, S) if pairs follow ``axes``."""
    f = np.asarray(frequencies, dtype=np.float32)
    p = positions[..., None] if axes is None else np.moveaxis(positions[axes], 0, -1)
    angle = p.astype(np.float32) * f
    angle = angle[:, None] if angle.ndim == 3 else angle
    cos, sin = m * np.cos(angle), m * np.sin(angle)
    n = f.size
    x1, x2, rest = x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin, rest], axis=-1).astype(x.dtype)


def geometric(base, dim, denominator=None):
    return base ** (-np.arange(0, dim, 2) / (denominator or dim))


# -- YaRN, as gpt-oss has it -----------------------------------------------------------------------


def yarn(factor=32.0, original=4096, fast=32.0, slow=1.0, truncate=False, reverse=False):
    base, dim = 150000.0, 64
    low, high = (
        dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
        for turns in (fast, slow)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
    ramp = 1 - ramp if reverse else ramp
    f = geometric(base, dim)
    return f * (1 - ramp) + f / factor * ramp


M = 0.1 * math.log(32.0) + 1


def yarn_right(x, positions):
    return rotate(x, positions, yarn(), M)


def yarn_factor_twice(x, positions):
    return rotate(x, positions, yarn(factor=32.0**2), M)


def yarn_without_attention_factor(x, positions):
    return rotate(x, positions, yarn())


def yarn_betas_swapped(x, positions):
    return rotate(x, positions, yarn(fast=1.0, slow=32.0), M)


def yarn_truncated(x, positions):
    return rotate(x, positions, yarn(truncate=True), M)


def yarn_ramp_reversed(x, positions):
    return rotate(x, positions, yarn(reverse=True), M)


def yarn_wrong_original_length(x, positions):
    return rotate(x, positions, yarn(original=131072), M)


# -- Llama 3.1, LongRoPE, partial rotary, M-RoPE ---------------------------------------------------


def llama3_unscaled(x, positions):
    return rotate(x, positions, geometric(500000.0, 128))


SHORT, LONG = np.ones(48), np.linspace(1.0, 60.0, 48)
PHI = posenc_ref.RoPE(
    96, layout="half", scaling=posenc_ref.LongRoPE(SHORT, LONG, 4096, attention_factor=1.19)
)


def longrope_one_token_early(x, positions):
    length = int(positions.max(initial=0)) + 1
    factors = LONG if length >= 4096 else SHORT
    return rotate(x, positions, geometric(10000.0, 96) / factors, 1.19)


def partial_rotary_over_the_head(x, positions):
    return rotate(x, positions, geometric(10000.0, 24, denominator=96))


def partial_rotary_of_the_whole_head(x, positions):
    return rotate(x, positions, geometric(10000.0, 96))


QWEN3_VL = posenc_ref.MultiAxisRoPE(
    128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=5e6
)


def mrope_right(x, positions):
    axes = np.zeros(64, dtype=int)
    axes[1:60:3], axes[2:60:3] = 1, 2
    return rotate(x, positions, geometric(5e6, 128), axes=axes)


def mrope_without_sections(x, positions):
    return rotate(x, positions, geometric(5e6, 128), axes=np.zeros(64, dtype=int))


def mrope_chunked(x, positions):
    return rotate(x, positions, geometric(5e6, 128), axes=np.repeat([0, 1, 2], [24, 20, 20]))


GPT_OSS = posenc_ref.preset("gpt-oss-20b").encodings["full_attention"]
#: Each function, its declared encoding, and the code of its mistake.
EXPECTED = {
    yarn_right: (GPT_OSS, None),
    yarn_factor_twice: (GPT_OSS, "scaling-parameter"),
    yarn_without_attention_factor: (GPT_OSS, "attention-factor"),
    yarn_betas_swapped: (GPT_OSS, "scaling-parameter"),
    yarn_truncated: (GPT_OSS, "scaling-parameter"),
    yarn_ramp_reversed: (GPT_OSS, "scaling-parameter"),  # the same as swapped betas, untruncated
    yarn_wrong_original_length: (GPT_OSS, "scaling-parameter"),
    llama3_unscaled: (posenc_ref.preset("llama-3.1-8b").only, "scaling-missing"),
    longrope_one_token_early: (PHI, "scaling-parameter"),
    partial_rotary_over_the_head: (posenc_ref.preset("gpt-neox-20b").only, "denominator"),
    partial_rotary_of_the_whole_head: (posenc_ref.preset("gpt-neox-20b").only, "rotary-dim"),
    mrope_right: (QWEN3_VL, None),
    mrope_without_sections: (QWEN3_VL, "sections"),
    mrope_chunked: (QWEN3_VL, "sections"),
}


def main() -> None:
    for function, (encoding, code) in EXPECTED.items():
        report = check(function, encoding, "apply")
        first = report.findings[0] if report.findings else None
        print(f"{function.__name__:34}{report.verdict:10}{first.message if first else ''}")
        if report.codes[:1] != ([code] if code else []):
            raise SystemExit(f"expected {code}:\n{report}")


if __name__ == "__main__":
    main()
