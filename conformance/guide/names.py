"""The names of encodings and scalings."""

from __future__ import annotations

from typing import Any

import posenc_ref
from posenc_ref import Attention, ConvPositions, Encoding, PositionRule, QueryScale, Scaling
from posenc_ref.encoding import Value

#: Names of encodings and scalings in configurations and papers.
ALIASES = {
    "linear": "LinearScaling", "pi": "LinearScaling", "ntk": "NTKScaling", "ntkaware": "NTKScaling",
    "dynamic": "DynamicNTK", "dynamicntk": "DynamicNTK", "llama3": "Llama3Scaling",
    "su": "LongRoPE", "mrope": "MultiAxisRoPE", "axial": "MultiAxisRoPE",
    "partial": "RoPE", "partialrotary": "RoPE", "t5": "T5Bias", "learnedfrequencies":
    "GivenFrequencies", "conformer": "TransformerXL", "funnel": "TransformerXL",
    "musictransformer": "Shaw", "swin": "SwinBias", "swinv2": "LogCPB", "beit": "BEiTBias",
    "levit": "LeViTBias", "mvit": "DecomposedRelative", "sam": "DecomposedRelative",
    "perceiver": "FourierFeatures", "fourier": "FourierFeatures", "detr": "DETRSine",
    "dabdetr": "BoxSine", "conditionaldetr": "BoxSine", "wavlm": "GatedBias",
    "fox": "ForgettingBias", "cable": "ForgettingBias", "convit": "ConViTBias",
    "patchtst": "StandardizedSinusoidal", "espnet": "TransformerXL", "neox": "RoPE",
    "gptneox": "RoPE", "gptj": "RoPE", "crossformer": "DynamicWindowBias",
    "alphafold": "ResidueBias", "alphafold2": "ResidueBias", "esmfold": "ResidueBias",
    "alphafold3": "ChainBias", "multimer": "ChainBias", "boltz": "ChainBias",
    "dca": "DualChunk", "leakyrerope": "ReRoPE",
    "sincos2d": "Sinusoidal2D", "mae": "Sinusoidal2D", "reformer": "AxialLearned",
}  # fmt: skip


def encodings() -> list[type[Encoding]]:
    """Return the public encodings that can be declared."""
    return _dataclasses(Encoding)


def scalings() -> list[type[Scaling]]:
    """Return the public scalings of rotary encodings."""
    return _dataclasses(Scaling)


def rules() -> list[type[PositionRule]]:
    """Return the public rules of position ids."""
    return _dataclasses(PositionRule)


def query_scales() -> list[type[QueryScale]]:
    """Return the public factors on queries."""
    return _dataclasses(QueryScale)


def others() -> list[type[Value]]:
    """Return the public declarations that are neither an encoding nor a scaling."""
    return [Attention, ConvPositions, *rules(), *query_scales()]


def _dataclasses(base: type) -> list[type[Any]]:
    found = [getattr(posenc_ref, name) for name in posenc_ref.__all__]
    classes = [c for c in found if isinstance(c, type) and issubclass(c, base)]
    return [c for c in classes if "__dataclass_fields__" in vars(c)]  # no abstract base
