"""Grouped-query attention on torch: training, one compiled graph, decoding with a KV cache."""

import sys

try:
    import torch
    from torch import nn
    from torch.nn.functional import scaled_dot_product_attention
except ImportError:
    sys.exit('this example needs PyTorch: pip install "posenc-ref[torch]"')

from posenc_ref import RoPE
from posenc_ref.backends import fused


class Attention(nn.Module):
    """Causal attention with fewer key heads than query heads, and RoPE on both."""

    def __init__(self, width: int, heads: int, key_heads: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.dim = heads, key_heads, width // heads
        self.to_q = nn.Linear(width, heads * self.dim, bias=False)
        self.to_kv = nn.Linear(width, 2 * key_heads * self.dim, bias=False)
        self.to_out = nn.Linear(heads * self.dim, width, bias=False)
        # It has no parameters: it follows the dtype and device of its inputs, also under autocast,
        # and caches the tables of recent positions.
        self.rope = fused(RoPE(self.dim, layout="half", base=500000.0))

    def forward(self, x, start=0, cache=None):
        """Attend; ``x`` (B, S, width) begins at ``start``; ``cache``: rotated keys, and values."""
        batch, length, _ = x.shape
        q = self.to_q(x).view(batch, length, self.heads, self.dim).transpose(1, 2)
        kv = self.to_kv(x).view(batch, length, 2 * self.key_heads, self.dim).transpose(1, 2)
        k, v = kv.chunk(2, dim=1)
        q, k = self.rope.qk(q, k, range(start, start + length))
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
            cache[:] = k, v
        # The queries are the last keys; is_causal would align them with the first.
        seen = torch.ones(length, k.shape[2], dtype=torch.bool).tril(k.shape[2] - length)
        y = scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
        return self.to_out(y.transpose(1, 2).flatten(2))


torch.manual_seed(0)
attention = Attention(256, heads=8, key_heads=2)
x = torch.randn(2, 64, 256)
goal = x.roll(1, dims=1)  # each token repeats the one before it

# Training: the rotation has its own gradient and saves no activations for it.
steps = torch.optim.Adam(attention.parameters(), lr=3e-3)
losses = []
for _ in range(20):
    with torch.autocast("cpu", dtype=torch.bfloat16):  # angles stay exact
        loss = (attention(x) - goal)[:, 1:].square().mean()
    steps.zero_grad()
    loss.backward()
    steps.step()
    losses.append(loss.item())
print(f"loss {losses[0]:.3f} .. {losses[-1]:.3f}")
assert losses[-1] < losses[0] / 2

# Compiled to one graph.  The default backend, Inductor, is faster at run time; this one compiles
# quickly.
whole = attention(x)
compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
print("compiled, difference", (compiled(x) - whole).abs().max().item())

# Decoding: a prompt, then token by token.  Keys are rotated once, before they are cached.
with torch.no_grad():
    cache: list[torch.Tensor] = []
    parts = [attention(x[:, :40], 0, cache)]
    parts += [attention(x[:, n : n + 1], n, cache) for n in range(40, 64)]
print("decoded, difference", (torch.cat(parts, dim=1) - whole).abs().max().item())
