"""Position tables and biases of ``transformers``."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import ALiBi, Learned, Sinusoidal, T5Bias
from posenc_ref.conformance.harness.implementation import Implementation

from .library import TABLES, LibraryFunction, functions_of
from .transformers import from_transformers
from .transformers_config import file_of

#: Random rows in place of trained ones.
ROWS = np.random.default_rng(0).integers(-127, 128, (512, 64)).astype(np.float32) / 8


def functions() -> list[LibraryFunction]:
    """Return sinusoids, learned rows, ALiBi and T5's buckets and biases."""
    return [*_tables(), *_biases()]


def _function(name: str, model: str, *rest: Any, **more: Any) -> LibraryFunction:
    file = f"models/{model}/modeling_{model}.py: "
    return functions_of("transformers", file)(name, *rest, **more)


def _tables() -> list[LibraryFunction]:
    halves = partial(Sinusoidal, 64, layout="concat")
    small = {"vocab_size": 9, "num_hidden_layers": 1}

    def fairseq(name: str, model: str, cls: str) -> LibraryFunction:
        """Return a table with 1024 rows and padding token 1."""
        return _function(name, model, f"{cls}.get_embedding", partial(_table, model, cls, 1024, 64,
                         1), halves(denominator="half-1", offset=2),
                         says="the first token is padding_idx + 1 = 2")  # fmt: skip

    music = "MusicgenSinusoidalPositionalEmbedding"
    return [
        _function("Marian", "marian", "MarianSinusoidalPositionalEmbedding.create_weight", _marian,
                  halves(), fast=True, dtypes=TABLES),
        _function("Whisper, encoder", "whisper", "sinusoids", _whisper,
                  halves(denominator="half-1"), dtypes=TABLES),
        fairseq("M2M-100", "m2m_100", "M2M100SinusoidalPositionalEmbedding"),
        fairseq("Speech2Text", "speech_to_text", "Speech2TextSinusoidalPositionalEmbedding"),
        _function("FSMT", "fsmt", "SinusoidalPositionalEmbedding.get_embedding", _fsmt,
                  halves(denominator="half-1", offset=2),
                  says="the first token is padding_idx + 1 = 2"),
        _function("MusicGen", "musicgen", f"{music}.get_embedding",
                  partial(_table, "musicgen", music, 1024, 64),
                  halves(denominator="half-1", first="cos"), says="cosines first"),
        _function("GPT-2", "gpt2", "GPT2Model.wpe",
                  partial(_model, "gpt2", "GPT2", "wpe",
                          {"n_embd": 64, "n_head": 2, "n_layer": 1, "vocab_size": 9,
                           "n_positions": 512}), Learned(ROWS)),
        _function("OPT", "opt", "OPTLearnedPositionalEmbedding", _opt, Learned(ROWS, offset=2),
                  says="the first two rows are for padding"),
        _function("BERT", "bert", "BertEmbeddings.position_embeddings",
                  partial(_model, "bert", "Bert", "embeddings.position_embeddings",
                          {**small, "hidden_size": 64, "num_attention_heads": 2,
                           "intermediate_size": 8, "max_position_embeddings": 512}),
                  Learned(ROWS)),
    ]  # fmt: skip


def _table(model: str, cls: str, *arguments: Any) -> Implementation:
    return from_transformers(getattr(file_of(model), cls)(*arguments), surface="table")


def _fsmt() -> Implementation:
    """Build the table as the model does: since transformers 5 it fills the module's weight."""
    module = file_of("fsmt").SinusoidalPositionalEmbedding(1024, 64, 1)
    if "past_key_values_length" not in inspect.signature(module.forward).parameters:
        raise ValueError("its forward takes no offset in this release: it counts from token 0")
    module.make_weight(1024, 64, 1)
    return from_transformers(module, surface="table")


def _opt() -> Implementation:
    made = file_of("opt").OPTLearnedPositionalEmbedding(510, 64)
    return _filled(made, made, ROWS)


def _model(model: str, prefix: str, path: str, settings: dict[str, Any]) -> Implementation:
    """Build a small model with :data:`ROWS` as its position table."""
    config = getattr(file_of(model, "configuration"), f"{prefix}Config")(**settings)
    made = getattr(file_of(model), f"{prefix}Model")(config)
    return _filled(made, made.get_submodule(path), ROWS)


def _filled(module: Any, table: Any, rows: Any) -> Implementation:
    """Write ``rows`` to the table of ``module``, like loading a checkpoint; adapt the module."""
    import torch

    with torch.no_grad():
        table.weight.copy_(torch.as_tensor(rows))
    return from_transformers(module, surface="table")


def _marian() -> Implementation:
    made = file_of("marian").MarianSinusoidalPositionalEmbedding(1536, 64)
    if hasattr(made, "create_weight"):  # since transformers 5
        return _filled(made, made, made.create_weight())
    if not inspect.signature(made._init_weight).parameters:  # before 4.48 it is a static method
        made._init_weight()
    return from_transformers(made, surface="table")


def _whisper() -> Implementation:
    config = file_of("whisper", "configuration").WhisperConfig(
        d_model=64, encoder_layers=1, encoder_attention_heads=4, encoder_ffn_dim=8,
        max_source_positions=1500,
    )  # fmt: skip
    file = file_of("whisper")
    encoder = file.WhisperEncoder(config)
    return _filled(encoder, encoder.embed_positions, file.sinusoids(1500, 64))


def _biases() -> list[LibraryFunction]:
    heads = 12  # not a power of two, for which slopes are defined differently
    bucket, bias = "T5Attention._relative_position_bucket", "T5Attention.compute_bias"
    encoder, decoder = (T5Bias(np.zeros((32, 1)), bidirectional=both) for both in (True, False))

    def alibi(name: str, surface: str, builder: str, **more: Any) -> LibraryFunction:
        model = name.lower()
        build = partial(_alibi, model, builder, surface, heads)
        more = {"expected": ALiBi(heads), **more}
        return _function(f"{name}, {surface}", model, builder, build, **more)

    bloom, mpt = "build_alibi_tensor", "build_mpt_alibi_tensor"
    return [
        alibi("BLOOM", "slopes", bloom, dtypes=TABLES),
        alibi("BLOOM", "bias", bloom, dtypes=TABLES),
        alibi("Falcon", "bias", bloom, fast=True,
              says="ALiBi in bfloat16 for every dtype: slopes and biases are rounded",
              remark="The bias of a key is rounded to eight bits, in float32 models too. With "
                     "slope 2**-0.5, after key 1448, 7 to 16 neighbouring keys have the same bias, "
                     "and the next bias differs by 8: one logit, after the division by "
                     "sqrt(64) of Falcon-RW. The original model code has the same line, "
                     "`slopes[..., None].bfloat16() * arange_tensor`; the paper's formula gives "
                     "other logits than Falcon."),
        alibi("MPT", "slopes", mpt, fast=True),
        alibi("MPT", "bias", mpt),
        _function("T5 encoder, buckets", "t5", bucket, partial(_t5, "bucket", False), encoder,
                  fast=True, dtypes=TABLES),
        _function("T5 decoder, buckets", "t5", bucket, partial(_t5, "bucket", True), decoder,
                  fast=True, dtypes=TABLES),
        _function("T5 encoder, bias", "t5", bias, partial(_t5, "bias", False), encoder,
                  dtypes=TABLES),
        _function("T5 decoder, bias", "t5", bias, partial(_t5, "bias", True), decoder),
    ]  # fmt: skip


def _alibi(model: str, builder: str, surface: str, heads: int) -> Implementation:
    function = getattr(file_of(model), builder)
    return from_transformers(function, surface=surface, num_heads=heads)


def _t5(surface: str, decoder: bool) -> Implementation:
    config = file_of("t5", "configuration").T5Config(
        d_model=32, num_heads=4, d_kv=8, is_decoder=decoder
    )
    made = file_of("t5").T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    return from_transformers(made, surface=surface)
