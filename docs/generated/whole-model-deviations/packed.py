"""Packed sequences in one row: whether the second one sees the first.

Runs with torch and transformers alone. transformers reads packed sequences from position ids that
begin again (masking_utils.find_packed_sequence_indices), if neither a mask nor a cache is given.
"""

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "head_dim": 16,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 99,
    "pad_token_id": 0,
}
SPARSE = {
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "layer_types": ["sliding_attention", "full_attention"],
}

wrong = [name for name in ("gpt_oss", "afmoe") if name in CONFIG_MAPPING]
if not wrong:
    raise LookupError("this release has none of the models")
for name in ("llama", *wrong):
    more = {} if name == "llama" else SPARSE
    config = CONFIG_MAPPING[name](**SIZES, **more, attn_implementation="eager")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
        first, second = torch.randint(3, 99, (1, 5)), torch.randint(3, 99, (1, 6))
        positions = torch.cat([torch.arange(5), torch.arange(6)])[None]
        row = torch.cat([first, second], dim=1)
        packed = model(input_ids=row, position_ids=positions, use_cache=False).logits[:, 5:]
        alone = model(input_ids=second, use_cache=False).logits
    largest = (packed - alone).abs().max()
    print(
        f"{name:8} first logit of the second sequence: {packed[0, 0, 0]:+.4f} packed, "
        f"{alone[0, 0, 0]:+.4f} alone; largest difference {largest:.2g}"
    )
    if name == "llama" and largest > 1e-3:
        raise RuntimeError("this release reads no packed sequences from position ids")
    assert largest > 1e-3 or name == "llama"
