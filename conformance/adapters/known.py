"""The libraries that can be judged here and now, each in a small configuration.

Every entry names its library, what it should be, and the precisions worth judging. Nothing is
imported, downloaded or built before `build` is called, and only installed libraries are listed.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import posenc_ref
from posenc_ref.conformance.harness.implementation import Implementation

from . import peers

# Distribution name: pip requirement.
LIBRARIES = {
    "transformers": "transformers>=5",
    "x-transformers": "x-transformers",
    "rotary-embedding-torch": "rotary-embedding-torch",
}
TABLES = ("float32",)
VECTORS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Known:
    """A published implementation, and how to build it."""

    library: str
    version: str
    label: str
    build: Callable[[], Implementation]
    dtypes: tuple[str, ...]


def missing_libraries() -> dict[str, str]:
    """Return the known libraries that are not installed, and what to install for each."""
    return {name: pip for name, pip in LIBRARIES.items() if _version(name) is None}


def known_implementations() -> list[Known]:
    """Return what can be built here."""
    entries = [("transformers", *entry) for entry in _transformers()]
    entries += [("x-transformers", *entry) for entry in _x_transformers()]
    entries += [
        ("rotary-embedding-torch", "RotaryEmbedding", peers.rotary_embedding_torch, VECTORS)
    ]
    return [
        Known(library, version, label, build, dtypes)
        for library, label, build, dtypes in entries
        if (version := _version(library)) is not None
    ]


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


Entry = tuple[str, Callable[[], Implementation], tuple[str, ...]]


def _x_transformers() -> list[Entry]:
    return [
        ("RotaryEmbedding", peers.x_transformers_rotary, VECTORS),
        (
            "RotaryEmbedding partial",
            partial(peers.x_transformers_rotary, 64, rotary_dim=32),
            VECTORS,
        ),
        ("ScaledSinusoidal", peers.x_transformers_sinusoidal, TABLES),
        ("ALiBi bias", peers.x_transformers_alibi, TABLES),
        ("ALiBi slopes", partial(peers.x_transformers_alibi, surface="slopes"), TABLES),
        ("T5 buckets", peers.x_transformers_relative, TABLES),
        ("T5 buckets causal", partial(peers.x_transformers_relative, causal=True), TABLES),
        ("T5 bias", partial(peers.x_transformers_relative, surface="bias"), TABLES),
    ]


def _transformers() -> list[Entry]:
    attention = {"hidden_size": 256, "num_attention_heads": 4}
    linear = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
    wide = {"head_dim": 64, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}
    gptj = {"n_embd": 256, "n_head": 4, "rotary_dim": 16, "n_positions": 4096}
    small = {"d_model": 64, "encoder_layers": 1, "encoder_attention_heads": 4, "vocab_size": 9}
    small |= {"decoder_layers": 1, "encoder_ffn_dim": 8}
    small |= {f"{kind}_token_id": 0 for kind in ("pad", "bos", "eos", "decoder_start")}
    t5 = {"d_model": 32, "num_heads": 4, "d_kv": 8}
    paper = partial(posenc_ref.Sinusoidal, 64, layout="concat")
    rotary = "RotaryEmbedding"
    return [
        ("Llama", partial(_rotary, "llama", "Llama", rotary, "half", attention), VECTORS),
        (
            "Llama linear scaling",
            partial(
                _rotary, "llama", "Llama", rotary, "half", attention | {"rope_parameters": linear}
            ),
            VECTORS,
        ),
        (
            "GPT-J partial",
            partial(_rotary, "gptj", "GPTJ", "Attention", "interleaved", gptj, layer_idx=0),
            VECTORS,
        ),
        (
            "GPT-NeoX partial",
            partial(_rotary, "gpt_neox", "GPTNeoX", rotary, "half", attention),
            VECTORS,
        ),
        (
            "Cohere",
            partial(_rotary, "cohere", "Cohere", rotary, "interleaved", attention | wide),
            VECTORS,
        ),
        ("BLOOM slopes", partial(_alibi, "bloom", "build_alibi_tensor", "slopes"), TABLES),
        ("BLOOM bias", partial(_alibi, "bloom", "build_alibi_tensor", "bias"), TABLES),
        ("T5 encoder buckets", partial(_t5, "bucket", t5), TABLES),
        ("T5 decoder buckets", partial(_t5, "bucket", t5 | {"is_decoder": True}), TABLES),
        ("T5 encoder bias", partial(_t5, "bias", t5), TABLES),
        ("Marian", partial(_encoder, "marian", "Marian", paper, small), TABLES),
        (
            "Whisper encoder",
            partial(_encoder, "whisper", "Whisper", partial(paper, denominator="half-1"), small),
            TABLES,
        ),
    ]


def _of(model: str) -> tuple[Any, Any]:
    """Return the modules that hold a model's classes and its configuration."""
    package = f"transformers.models.{model}"
    return (
        importlib.import_module(f"{package}.modeling_{model}"),
        importlib.import_module(f"{package}.configuration_{model}"),
    )


def _rotary(
    model: str, prefix: str, suffix: str, layout: str, settings: dict[str, Any], **more: Any
) -> Implementation:
    from .transformers import from_transformers

    modeling, configuration = _of(model)
    config = getattr(configuration, f"{prefix}Config")(**settings)
    module = getattr(modeling, f"{prefix}{suffix}")(config, **more)
    return from_transformers(module, layout=layout)


def _alibi(model: str, function: str, surface: str) -> Implementation:
    from .transformers import from_transformers

    modeling, _ = _of(model)
    # Twelve heads: not a power of two, where recipes part.
    return from_transformers(getattr(modeling, function), surface=surface, num_heads=12)


def _t5(surface: str, settings: dict[str, Any]) -> Implementation:
    from .transformers import from_transformers

    modeling, configuration = _of("t5")
    config = configuration.T5Config(**settings)
    module = modeling.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    return from_transformers(module, surface=surface)


def _encoder(
    model: str,
    prefix: str,
    declared: Callable[[], posenc_ref.Sinusoidal],
    settings: dict[str, Any],
) -> Implementation:
    from .transformers import from_transformers

    modeling, configuration = _of(model)
    encoder = getattr(modeling, f"{prefix}Encoder")(
        getattr(configuration, f"{prefix}Config")(**settings)
    )
    return from_transformers(encoder, surface="table", encoding=declared())
