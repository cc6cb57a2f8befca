"""DeepSeek-V4's attention of transformers, called as surface ``attention``.

Its norms are replaced by modules that return given queries and keys, and its output projections by
identities, so that the module's own attention runs on given tensors, unchanged.
"""

import torch
from torch import nn
from transformers.models.deepseek_v4 import DeepseekV4Config
from transformers.models.deepseek_v4.modeling_deepseek_v4 import (
    DeepseekV4Attention,
    DeepseekV4Model,
    DeepseekV4RotaryEmbedding,
)

YARN = {"type": "yarn", "factor": 16, "original_max_position_embeddings": 64,
        "beta_fast": 32, "beta_slow": 1}  # fmt: skip
RATES = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8}


class Given(nn.Module):
    """Return the tensor that was put into it."""

    def forward(self, x):
        return self.value


def config(heads, dim=24, rotary=8, kind="sliding_attention", topk=64):
    """A configuration of one layer."""
    return DeepseekV4Config(
        hidden_size=heads * dim, num_hidden_layers=1, num_attention_heads=heads, head_dim=dim,
        q_lora_rank=16, o_lora_rank=heads * dim, o_groups=1, qk_rope_head_dim=rotary,
        rope_scaling=YARN, layer_types=[kind], compress_rates=RATES, sliding_window=4096,
        index_topk=topk, index_n_heads=2, index_head_dim=16, max_position_embeddings=1024,
        attn_implementation="eager",
    )  # fmt: skip


def built(settings, seed=0):
    """The attention module with random weights, and the rotary module of its model."""
    torch.manual_seed(seed)
    module = DeepseekV4Attention(settings, 0).eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.2)
    return module, DeepseekV4RotaryEmbedding(settings)


def causal(n_q, n_k):
    """The additive mask (1, 1, Q, K) of a causal model."""
    seen = torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)
    return torch.zeros(1, 1, n_q, n_k).masked_fill(~seen, float("-inf"))


def attention(kind):
    """A function of surface ``attention`` that calls the module of this layer type."""
    label = "main" if kind == "sliding_attention" else "compress"

    def call(q, k, v, q_at, k_at, sinks):
        b, h, n, d = q.shape
        if n != k.shape[2]:
            raise ValueError("the module needs a cache for fewer queries than keys")
        module, rotary = built(config(h, d, d // 3))
        module.rope_layer_type, module.compressor = label, None
        module.q_b_norm, module.kv_norm = Given(), Given()
        module.q_b_norm.value, module.kv_norm.value = q, k[:, 0]
        module.o_a_proj, module.o_b_proj = nn.Identity(), nn.Identity()
        module.sinks = nn.Parameter(sinks)
        hidden, at = torch.zeros(b, n, h * d), q_at[None].expand(b, n)
        tables = {label: rotary(hidden, at, layer_type=label)}
        with torch.no_grad():
            out = module(hidden, tables, at, causal(n, n))[0]
        return out.reshape(b, n, h, d).transpose(1, 2).contiguous()

    return call


def run_whole(kind, n, start=0, heads=3):
    """Run a whole module on random hidden states; return what it computed, and its positions.

    The result has queries, keys and compressed keys before their rotation, the output before its
    projection, the sinks, and the positions of queries.
    """
    settings = config(heads, kind=kind)
    module, rotary = built(settings)
    seen = {}
    hooks = {"q": module.q_b_norm, "k": module.kv_norm}
    if module.compressor is not None:
        hooks["compressed"] = module.compressor.kv_norm
    for name, part in hooks.items():
        part.register_forward_hook(lambda m, i, out, name=name: seen.update({name: out}))
    module.o_a_proj.register_forward_pre_hook(lambda m, args: seen.update(out=args[0]))
    hidden, at = torch.randn(2, n, heads * 24), torch.arange(start, start + n)[None].expand(2, n)
    tables = {t: rotary(hidden, at, layer_type=t) for t in ("main", "compress")}
    with torch.no_grad():
        module(hidden, tables, at, causal(n, n).expand(2, 1, n, n))
    seen["out"] = seen["out"].reshape(2, n, heads, 24).transpose(1, 2)
    seen["k"] = seen["k"].reshape(2, 1, n, 24)
    return seen | {"sinks": module.sinks.detach(), "positions": at[0]}


def model(kind):
    """A whole model with one layer of this type and random weights."""
    settings = config(2, kind=kind)
    settings.vocab_size, settings.pad_token_id, settings.mlp_layer_types = 32, 0, ["moe"]
    settings.n_routed_experts = settings.num_experts_per_tok = settings.num_local_experts = 2
    settings.moe_intermediate_size = 16
    torch.manual_seed(0)
    made = DeepseekV4Model(settings).eval()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.2)
    return made
