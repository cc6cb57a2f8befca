"""diffusers: Kandinsky 5 in float32 rounds its rotated queries and keys to bfloat16."""

import types
from unittest import mock

import torch
from diffusers.models.transformers import transformer_kandinsky as kandinsky

drawn = torch.Generator().manual_seed(0)
x = torch.randn(1, 6, 64, generator=drawn)
table = kandinsky.Kandinsky5RoPE1D(64)(torch.arange(6))
names = ("to_query", "to_key", "to_value", "query_norm", "key_norm", "out_layer")
layer = types.SimpleNamespace(num_heads=1, **dict.fromkeys(names, lambda y: y))
with mock.patch.object(kandinsky, "dispatch_attention_fn", lambda query, key, value, **_: query):
    got = kandinsky.Kandinsky5AttnProcessor()(layer, x, rotary_emb=table)[0]
even, odd = x[0, :, 0::2].double(), x[0, :, 1::2].double()
angles = torch.arange(6)[:, None] * 10000.0 ** (-torch.arange(32, dtype=torch.float64) / 32)
turned = even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()
right = torch.stack(turned, -1).flatten(-2)
print("dtype of the result:", got.dtype)
print("expected", [round(v, 6) for v in right[5, :4].tolist()])
print("got     ", [round(v, 6) for v in got[5, :4].tolist()])
print("every number is a bfloat16:", torch.equal(got, got.bfloat16().float()))
assert got.dtype == torch.float32
assert torch.equal(got, got.bfloat16().float())
