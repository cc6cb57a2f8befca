"""The names of encodings and scalings, and how a mistyped name is found."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import posenc_ref
from posenc_ref import Encoding, Scaling

#: Names of encodings and scalings in configurations and papers.
ALIASES = {
    "linear": "LinearScaling", "pi": "LinearScaling", "ntk": "NTKScaling", "ntkaware": "NTKScaling",
    "dynamic": "DynamicNTK", "dynamicntk": "DynamicNTK", "llama3": "Llama3Scaling",
    "su": "LongRoPE", "prope": "Proportional", "mrope": "MultiAxisRoPE", "axial": "MultiAxisRoPE",
    "partial": "RoPE", "partialrotary": "RoPE", "t5": "T5Bias", "learnedfrequencies":
    "GivenFrequencies", "conformer": "TransformerXL", "funnel": "TransformerXL",
    "musictransformer": "Shaw", "swin": "SwinBias", "swinv2": "LogCPB", "beit": "BEiTBias",
    "levit": "LeViTBias", "mvit": "DecomposedRelative", "sam": "DecomposedRelative",
    "perceiver": "FourierFeatures", "fourier": "FourierFeatures", "detr": "DETRSine",
    "dabdetr": "BoxSine", "conditionaldetr": "BoxSine", "wavlm": "GatedBias",
    "fox": "ForgettingBias", "cable": "ForgettingBias", "convit": "ConViTBias",
    "patchtst": "StandardizedSinusoidal", "espnet": "TransformerXL", "neox": "RoPE",
    "gptneox": "RoPE", "gptj": "RoPE", "crossformer": "DynamicWindowBias",
    "sincos2d": "Sinusoidal2D", "mae": "Sinusoidal2D", "reformer": "AxialLearned",
}  # fmt: skip


def encodings() -> list[type[Encoding]]:
    """Return the public encodings that can be declared."""
    return _dataclasses(Encoding)


def scalings() -> list[type[Scaling]]:
    """Return the public scalings of rotary encodings."""
    return _dataclasses(Scaling)


def _dataclasses(base: type) -> list[type[Any]]:
    found = [getattr(posenc_ref, name) for name in posenc_ref.__all__]
    classes = [c for c in found if isinstance(c, type) and issubclass(c, base)]
    return [c for c in classes if "__dataclass_fields__" in vars(c)]  # no abstract base


def key(name: str) -> str:
    """Return a name in lower case, without hyphens, underscores and blanks."""
    return "".join(c for c in name.lower() if c not in "-_ ")


def find(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that equals ``name`` apart from case and punctuation, or None."""
    return {key(one): one for one in known}.get(key(name))


def near(name: str, known: Iterable[str], n: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return the known names that are similar to ``name``, the most similar first."""
    keys = {key(one): one for one in sorted(known)}
    return [keys[k] for k in difflib.get_close_matches(key(name), keys, n=n, cutoff=cutoff)]
