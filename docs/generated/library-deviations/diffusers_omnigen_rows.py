"""diffusers: OmniGen rotates every row of a batch by the positions of the first row."""

import torch
from diffusers.models.embeddings import apply_rotary_emb
from diffusers.models.transformers.transformer_omnigen import OmniGenSuScaledRotaryEmbedding
from diffusers.pipelines.omnigen.processor_omnigen import OmniGenCollator

# Two prompts of 3 and 8 tokens, padded on the left, and a picture of 4 tokens.
mask = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1], [1] * 8])
positions = OmniGenCollator().create_position(mask, [4, 4])
print("positions of row 0", positions[0].tolist())
print("positions of row 1", positions[1].tolist())
factors = {"short_factor": [1.0] * 48, "long_factor": [1.0] * 48}
rope = OmniGenSuScaledRotaryEmbedding(96, max_position_embeddings=4096, rope_scaling=factors)
drawn = torch.Generator().manual_seed(0)
q, k = (torch.randn(2, 1, positions.shape[1], 96, generator=drawn) for _ in range(2))


def logits(q, k, positions):
    """Return the logits (B, S, S) of queries and keys at positions (B, S)."""
    tables = rope(q, positions)
    q, k = (apply_rotary_emb(x, tables, use_real_unbind_dim=-2) for x in (q, k))
    return (q @ k.transpose(-1, -2))[:, 0] / 96**0.5


together = logits(q, k, positions)
alone = logits(q[1:], k[1:], positions[1:])
print("logits of the last token of row 1, together:", together[1, -1, :6].tolist())
print("logits of the same token, row 1 alone:      ", alone[0, -1, :6].tolist())
worst = (together[1] - alone[0]).abs().max().item()
print(f"largest difference {worst:.3f}")
assert worst > 0.5
