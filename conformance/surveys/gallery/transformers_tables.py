"""Position tables and biases of ``transformers``."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import ALiBi, Learned, Sinusoidal, T5Bias
from posenc_ref.conformance.harness.implementation import Implementation

from .entry import Entry

LIBRARY = "transformers"
#: Rows that stand for a trained table.
ROWS = np.random.default_rng(0).integers(-127, 128, (512, 64)).astype(np.float32) / 8


def _module(model: str, name: str) -> Any:
    return getattr(importlib.import_module(f"transformers.models.{model}.modeling_{model}"), name)


def _table(model: str, cls: str, *arguments: Any, **more: Any) -> Implementation:
    from posenc_ref.conformance.adapters import from_transformers

    made = _module(model, cls)(*arguments, **more)
    return from_transformers(made, surface="table")


def _learned(model: str, cls: str, *arguments: Any) -> Implementation:
    """A table with :data:`ROWS` in it."""
    from posenc_ref.conformance.adapters import from_transformers

    made = _module(model, cls)(*arguments)
    _fill(made)
    return from_transformers(made, surface="table")


def _model(model: str, cls: str, path: str, settings: dict[str, Any]) -> Implementation:
    """A small model with :data:`ROWS` in its table."""
    from posenc_ref.conformance.adapters import from_transformers

    configuration = importlib.import_module(f"transformers.models.{model}.configuration_{model}")
    config = getattr(configuration, f"{cls.removesuffix('Model')}Config")(**settings)
    made = _module(model, cls)(config)
    _fill(made.get_submodule(path))
    return from_transformers(made, surface="table")


def _fill(table: Any) -> None:
    import torch

    with torch.no_grad():
        table.weight.copy_(torch.from_numpy(ROWS))


def _function(model: str, name: str, surface: str) -> Implementation:
    from posenc_ref.conformance.adapters import from_transformers

    # Twelve heads: not a power of two, where recipes part.
    return from_transformers(_module(model, name), surface=surface, num_heads=12)


def _t5(surface: str, decoder: bool) -> Implementation:
    from transformers.models.t5.configuration_t5 import T5Config

    from posenc_ref.conformance.adapters import from_transformers

    config = T5Config(d_model=32, num_heads=4, d_kv=8, is_decoder=decoder)
    attention = _module("t5", "T5Attention")(config, has_relative_attention_bias=True, layer_idx=0)
    return from_transformers(attention, surface=surface)


def _buckets(bidirectional: bool) -> T5Bias:
    """T5's constants; no table is compared."""
    return T5Bias(np.zeros((32, 1)), bidirectional=bidirectional)


def entries() -> list[Entry]:
    """Sinusoids, learned rows, ALiBi, T5."""
    return [*_tables(), *_biases()]


def _entry(name: str, model: str, functions: str, build: Any, expected: Any, **more: Any) -> Entry:
    source = f"models/{model}/modeling_{model}.py: {functions}"
    return Entry(f"transformers {name}", LIBRARY, source, build, expected, **more)


def _tables() -> list[Entry]:
    halves = partial(Sinusoidal, 64, layout="concat")
    fairseq = halves(denominator="half-1", offset=2)
    small = {"vocab_size": 9, "num_hidden_layers": 1}
    whisper = {"d_model": 64, "encoder_layers": 1, "encoder_attention_heads": 4,
               "encoder_ffn_dim": 8, "max_source_positions": 1500}  # fmt: skip
    counts = "the first token is padding_idx + 1 = 2"
    return [
        _entry(
            "Marian",
            "marian",
            "MarianSinusoidalPositionalEmbedding.create_weight",
            partial(_marian, 1536),
            halves(),
            fast=True,
        ),
        _entry(
            "Whisper, encoder",
            "whisper",
            "sinusoids",
            partial(_whisper, whisper),
            halves(denominator="half-1"),
        ),
        _entry(
            "M2M-100",
            "m2m_100",
            "M2M100SinusoidalPositionalEmbedding.get_embedding",
            partial(_table, "m2m_100", "M2M100SinusoidalPositionalEmbedding", 1024, 64, 1),
            fairseq,
            says=counts,
        ),
        _entry(
            "Speech2Text",
            "speech_to_text",
            "Speech2TextSinusoidalPositionalEmbedding.get_embedding",
            partial(_table, "speech_to_text", "Speech2TextSinusoidalPositionalEmbedding",
                    1024, 64, 1),
            fairseq,
            says=counts,
        ),
        _entry(
            "FSMT",
            "fsmt",
            "SinusoidalPositionalEmbedding.get_embedding",
            partial(_table, "fsmt", "SinusoidalPositionalEmbedding", 1024, 64, 1),
            fairseq,
            says=counts,
        ),
        _entry(
            "MusicGen",
            "musicgen",
            "MusicgenSinusoidalPositionalEmbedding.get_embedding",
            partial(_table, "musicgen", "MusicgenSinusoidalPositionalEmbedding", 1024, 64),
            halves(denominator="half-1", first="cos"),
            says="cosines first",
        ),
        _entry(
            "GPT-2",
            "gpt2",
            "GPT2Model.wpe",
            partial(_model, "gpt2", "GPT2Model", "wpe",
                    {"n_embd": 64, "n_head": 2, "n_layer": 1, "vocab_size": 9,
                     "n_positions": 512}),
            Learned(ROWS),
        ),
        _entry(
            "OPT",
            "opt",
            "OPTLearnedPositionalEmbedding",
            partial(_learned, "opt", "OPTLearnedPositionalEmbedding", 510, 64),
            Learned(ROWS, offset=2),
            says="the first two rows are for padding",
        ),
        _entry(
            "BERT",
            "bert",
            "BertEmbeddings.position_embeddings",
            partial(_model, "bert", "BertModel", "embeddings.position_embeddings",
                    {**small, "hidden_size": 64, "num_attention_heads": 2,
                     "intermediate_size": 8, "max_position_embeddings": 512}),
            Learned(ROWS),
        ),
    ]  # fmt: skip


def _marian(rows: int) -> Implementation:
    from posenc_ref.conformance.adapters import from_transformers

    made = _module("marian", "MarianSinusoidalPositionalEmbedding")(rows, 64)
    made.weight.data.copy_(made.create_weight())  # as loading a checkpoint does
    return from_transformers(made, surface="table")


def _whisper(settings: dict[str, Any]) -> Implementation:
    import torch
    from transformers.models.whisper.configuration_whisper import WhisperConfig

    from posenc_ref.conformance.adapters import from_transformers

    encoder = _module("whisper", "WhisperEncoder")(WhisperConfig(**settings))
    with torch.no_grad():
        encoder.embed_positions.weight.copy_(_module("whisper", "sinusoids")(1500, 64))
    return from_transformers(encoder, surface="table")


def _biases() -> list[Entry]:
    alibi = ALiBi(12)
    build = "build_alibi_tensor"
    return [
        _entry("BLOOM, slopes", "bloom", build, partial(_function, "bloom", build, "slopes"),
               alibi),
        _entry("BLOOM, bias", "bloom", build, partial(_function, "bloom", build, "bias"), alibi),
        _entry(
            "Falcon, bias", "falcon", build, partial(_function, "falcon", build, "bias"), None,
            unknown="what it depends on beside key minus query",
            fast=True,
            says="ALiBi, whose slopes and products are rounded to bfloat16 whatever the dtype",
            remark="The bias of a key is rounded to eight bits, in float32 models too: with slope "
                   "2**-0.5, from key 1448 on 7 to 16 keys share one value, and the next is "
                   "eight logits away. It is a line of the original model code, `slopes[..., "
                   "None].bfloat16() * arange_tensor`; Falcon by the paper's formula differs.",
        ),
        _entry("MPT, slopes", "mpt", "build_mpt_alibi_tensor",
               partial(_function, "mpt", "build_mpt_alibi_tensor", "slopes"), alibi, fast=True),
        _entry("MPT, bias", "mpt", "build_mpt_alibi_tensor",
               partial(_function, "mpt", "build_mpt_alibi_tensor", "bias"), alibi),
        _entry("T5 encoder, buckets", "t5", "T5Attention._relative_position_bucket",
               partial(_t5, "bucket", False), _buckets(True), fast=True),
        _entry("T5 decoder, buckets", "t5", "T5Attention._relative_position_bucket",
               partial(_t5, "bucket", True), _buckets(False), fast=True),
        _entry("T5 encoder, bias", "t5", "T5Attention.compute_bias",
               partial(_t5, "bias", False), _buckets(True)),
        _entry("T5 decoder, bias", "t5", "T5Attention.compute_bias",
               partial(_t5, "bias", True), _buckets(False)),
    ]  # fmt: skip
