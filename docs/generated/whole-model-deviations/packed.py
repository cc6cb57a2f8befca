"""Packed sequences in one row: whether the second one sees the first.

Runs with torch and transformers alone. transformers reads packed sequences from position ids that
begin again (masking_utils.find_packed_sequence_indices), if neither a mask nor a cache is given.
Models that a release lacks are left out.
"""

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 99,
    "pad_token_id": 0,
}
SPARSE = {
    "head_dim": 16,
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "layer_types": ["sliding_attention", "full_attention"],
}
HYBRID = {"position_embedding_type": "rope", "num_local_experts": 4, "num_experts_per_tok": 2}
MODELS = {
    "llama": {},
    "gpt_oss": SPARSE,
    "afmoe": SPARSE,
    "granitemoehybrid": {
        **HYBRID,
        "layer_types": ["attention"] * 2,
        "shared_intermediate_size": 64,
    },
    "falcon": {"alibi": False, "ffn_hidden_size": 64},
    "opt": {"word_embed_proj_dim": 64, "ffn_dim": 64},
    "biogpt": {},
    "xglm": {"d_model": 64, "ffn_dim": 64, "attention_heads": 4, "num_layers": 2},
}

seen = {}
for name, more in MODELS.items():
    if name not in CONFIG_MAPPING:
        continue
    config = CONFIG_MAPPING[name](**SIZES, **more, attn_implementation="eager")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
        first, other, second = (torch.randint(3, 99, (1, n)) for n in (5, 5, 6))
        positions = torch.cat([torch.arange(5), torch.arange(6)])[None]
        rows = (torch.cat([begin, second], dim=1) for begin in (first, other))
        packed, changed = (
            model(input_ids=row, position_ids=positions, use_cache=False).logits[:, 5:]
            for row in rows
        )
        alone = model(input_ids=second, use_cache=False).logits
    largest, seen[name] = (packed - alone).abs().max(), (packed - changed).abs().max()
    print(
        f"{name:16} second sequence: {largest:.2g} from its logits alone; by {seen[name]:.2g} "
        "other logits after another first sequence"
    )
    if name == "llama" and max(largest, seen[name]) > 1e-3:
        raise RuntimeError("this release reads no packed sequences from position ids")
wrong = [name for name, value in seen.items() if value > 1e-3]
right = [name for name in seen if name not in wrong]
assert right == ["llama"]
