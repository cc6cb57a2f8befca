"""Gemma 4, audio: scores of the same offsets change with the length of the blocks."""

import torch
from transformers import Gemma4AudioConfig
from transformers.models.gemma4.modeling_gemma4 import (
    Gemma4AudioAttention,
    Gemma4AudioRelPositionalEncoding,
)


def rows_of(block):
    """Return the rows of offsets that a model with blocks of this length makes."""
    config = Gemma4AudioConfig(hidden_size=8, attention_chunk_size=block)
    return Gemma4AudioRelPositionalEncoding(config)(torch.zeros(1))


def outputs(block, rows):
    """Return outputs and weights of six tokens that are in one block and see all before them."""
    config = Gemma4AudioConfig(hidden_size=8, num_attention_heads=1, attention_chunk_size=block)
    past = config.attention_context_left - 1
    torch.manual_seed(4)
    attention, x = Gemma4AudioAttention(config, 0).eval(), torch.randn(1, 6, 8)
    query, key = torch.arange(block)[:, None], torch.arange(block + past) - past
    seen = (key <= query) & (key >= 0)
    with torch.no_grad():
        for weight in attention.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
        for mask in (seen, ~seen):  # releases differ in which of the two a mask means
            out, weights = attention(
                x, position_embeddings=rows, attention_mask=mask[None, None, None]
            )
            if weights[0, 0, 0, 0, past] == 1:  # the first token sees itself alone
                return out, weights[0, 0, 0, :6, past : past + 6]
    raise RuntimeError("no mask hides later tokens")


def largest(found):
    """Return by how much outputs and weights differ from the released setting, token by token."""
    pairs = zip(found, (released, weights), strict=True)
    return [(a - b).abs().amax(-1).flatten() for a, b in pairs]


released, weights = outputs(12, rows_of(12))
counts = [rows_of(block).shape[1] for block in (12, 16)]
print(
    "rows of offsets with blocks of 12 and 16:", counts, "of which the furthest seen is offset 12"
)
right, _ = largest(outputs(16, rows_of(12)))
wrong, moved = largest(outputs(16, rows_of(16)))
print("blocks of 16 with the rows of the offsets 12 to 0: outputs differ by", right.max().item())
print("blocks of 16 with their own rows: outputs differ, token by token:", wrong.tolist())
print("attention weights differ by up to", moved.max().item())
assert right.max() < 1e-6
assert wrong[0] < 1e-6  # the first token sees one key
assert wrong[1:].min() > 1e-3
assert moved.max() > 0.01
