"""Released models and libraries that follow the convention which a finding names.

The conventions of a model come from its preset. Those of a library come from its source code, or
from a public issue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Convention:
    """A named convention, how to recognise it in a finding, and its models and libraries."""

    name: str
    codes: tuple[str, ...]
    said: str  #: a regular expression for the finding's message
    models: Mapping[str, str]  #: the preset of each model, by name
    libraries: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[str, ...]:
        """Return the names of all models and libraries that follow it, models first."""
        return (*self.models, *self.libraries)


CONVENTIONS: tuple[Convention, ...] = (
    Convention("interleaved pairs", ("layout",), r"pairs are interleaved|for interleaved pairs", {
        "GPT-J": "gpt-j-6b", "RoFormer": "roformer-chinese-base", "Cohere": "command-r",
        "GLM-4": "glm-4-9b-0414", "ERNIE 4.5": "ernie-4.5-0.3b", "Llama 4": "llama-4-scout",
        "FLUX.1": "flux.1",
    }, ("Meta's llama", "torchtune (Llama)", "x-transformers", "rotary-embedding-torch")),
    Convention("half-split pairs", ("layout",), r"pairs are half|for half pairs", {
        "GPT-NeoX": "gpt-neox-20b", "Llama in transformers": "llama-3.1-8b",
        "Falcon": "falcon-7b", "Gemma": "gemma-2-2b",
    }, ("flash-attn, ONNX, MLX and TransformerEngine by default",)),
    Convention("pairs inside a leading slice", ("proportional",),
        r"channels are rotated among themselves",
        {"GPT-NeoX": "gpt-neox-20b", "Phi-2": "phi-2"}),
    Convention("pairs across the whole head", ("proportional",),
        r"pairs of the whole head are rotated", {"Gemma 4": "gemma-4-e2b"}),
    Convention("read interleaved, written half-split", ("output-layout", "harmless-convention"),
        r"read from: read interleaved, written half",
        {"DeepSeek-V3 in transformers": "deepseek-v3", "Mistral Small 4": "mistral-small-4"},
        ("litgpt (rope_interleave)",)),
    Convention("negative angles", ("sign",), r"turns the other way", {},
        ("MusicFlamingo in transformers, whose time angles are negative",)),
    Convention("chunked sections", ("sections",), r"sections are chunked .*declared (?!chunked)",
        {"Qwen2-VL": "qwen2-vl", "Qwen2.5-VL": "qwen2.5-vl"}, ("ggml (MROPE)",)),
    Convention("interleaved sections", ("sections",),
        r"sections are interleaved .*declared (?!interleaved)",
        {"Qwen3-VL": "qwen3-vl-4b", "Qwen3.5": "qwen3.5-27b"}, ("ggml (IMROPE)",)),
    Convention("no factor on cos and sin", ("attention-factor",), r"multiplied by 1,", {},
        ("DeepSeek's own code and torchtitan, which change the scale of the softmax instead",)),
    Convention("no YaRN truncation", ("scaling-parameter",), r"^truncate is False",
        {"gpt-oss": "gpt-oss-20b"}),
    Convention("YaRN truncation", ("scaling-parameter",), r"^truncate is True", {},
        ("vLLM up to 0.11 and llama.cpp, which always truncate the ends of the ramp",)),
    Convention("ramp up to d/2 - 1", ("scaling-formula",), r"clamped to d/2 - 1", {}, ("litgpt",)),
    Convention("geometric blend", ("scaling-formula",), r"blended geometrically", {}, ("Grok-1",)),
    Convention("base times factor", ("scaling-formula",), r"multiplied by the factor itself", {},
        ("diffusers (ntk_factor)",)),
    Convention("static dynamic NTK", ("scaling-parameter",), r"policy is 'static'", {},
        ("SGLang and vLLM, which build one cos and sin table for all lengths",)),
    Convention("always the long factors", ("scaling-parameter",), r"policy is 'long'", {},
        ("mlx-lm",)),
    Convention("interleaved columns, sine first", ("layout",),
        r"columns are interleaved with sin first", {
        "the paper": "sinusoidal-paper", "XLM": "sinusoidal-xlm", "VideoMAE": "sinusoidal-videomae",
    }),
    Convention("sines, then cosines", ("layout",), r"columns are concat with sin first", {
        "tensor2tensor": "sinusoidal-tensor2tensor", "fairseq": "sinusoidal-fairseq",
        "Whisper": "sinusoidal-whisper", "Marian": "sinusoidal-marian",
    }),
    Convention("cosines, then sines", ("layout", "phase-order"),
        r"columns are concat with cos first|cos comes first", {
        "MusicGen": "sinusoidal-musicgen",
        "Stable Diffusion's timesteps": "timesteps-stable-diffusion",
    }),
    Convention("sine first", ("phase-order",), r"sin comes first",
        {"the paper": "sinusoidal-paper", "DDPM's timesteps": "timesteps-ddpm"}),
    Convention("denominator dim/2 - 1", ("denominator",), r"\(dim//2 - 1\)", {
        "tensor2tensor": "sinusoidal-tensor2tensor", "fairseq": "sinusoidal-fairseq",
        "Whisper": "sinusoidal-whisper",
    }),
    Convention("denominator dim/2", ("denominator",), r"\(dim//?2\)",
        {"the paper": "sinusoidal-paper", "Marian": "sinusoidal-marian"}),
    Convention("one series of slopes", ("slopes",), r"the naive series", {},
        ("jaketae/alibi", "attention-gym")),
    Convention("ALiBi inside the scale", ("bias-scale",), r"inside the scale|1/sqrt\(", {},
        ("Falcon-RW in transformers",)),
    Convention("signed ALiBi without a mask", ("bias-sign",), r"the bias is signed, m \(j - i\)",
        {}, ("jaketae/alibi",)),
    Convention("ALiBi with the other sign", ("bias-sign",), r"grows with the distance", {},
        ("PyTorch's tutorial of transformer building blocks",)),
    Convention("logits without a scale", ("softmax-scale",),
        r"not scaled at all|not divided by sqrt", {}, ("T5",)),
    Convention("positions from 1", ("position-origin",),
        r"starts at position 1,|has the angles of position 1,",
        {"FunASR-Nano (a table)": "sinusoidal-fun-asr-nano"}, ("Llama 4's vision tower",)),
)  # fmt: skip


def known(code: str, message: str) -> tuple[str, ...]:
    """Return the models and libraries that follow the convention which the finding names."""
    rows = (c for c in CONVENTIONS if code in c.codes and re.search(c.said, message))
    return tuple(dict.fromkeys(name for row in rows for name in row.known))
