"""Gemma 4, audio: scores of the same offsets change with the length of the blocks."""

import torch
from transformers import Gemma4AudioConfig
from transformers.models.gemma4.modeling_gemma4 import (
    Gemma4AudioAttention,
    Gemma4AudioRelPositionalEncoding,
)


def outputs(block):
    """Of six tokens, which are in one block and see all before them, whatever its length."""
    config = Gemma4AudioConfig(hidden_size=8, num_attention_heads=1, attention_chunk_size=block)
    past = config.attention_context_left - 1
    torch.manual_seed(0)
    attention, x = Gemma4AudioAttention(config, 0).eval(), torch.randn(1, 6, 8)
    rows = Gemma4AudioRelPositionalEncoding(config)(x)
    query, key = torch.arange(block)[:, None], torch.arange(block + past) - past
    hidden = (key > query) | (key < 0)
    with torch.no_grad():
        out, _ = attention(x, position_embeddings=rows, attention_mask=hidden[None, None, None])
    print(f"blocks of {block}, {past} tokens before them: {rows.shape[1]} rows of offsets")
    return out


as_released, longer = outputs(12), outputs(16)
print("the same tokens differ by up to", (longer - as_released).abs().max().item())
assert (longer - as_released).abs().max() > 0.01
