"""Learned positions and padding on the left: a row alone, and the same row in a padded batch.

Runs with torch and transformers alone. OPT counts the tokens that the mask shows, BART all.
"""

import torch
from transformers import BartConfig, BartForCausalLM, OPTConfig, OPTForCausalLM

PADDING = 3
SIZES = {"d_model": 64, "decoder_attention_heads": 4, "decoder_layers": 2, "decoder_ffn_dim": 64}
OPT = {"hidden_size": 64, "word_embed_proj_dim": 64, "ffn_dim": 64, "num_attention_heads": 4}
for config, cls in (
    (OPTConfig(**OPT, num_hidden_layers=2, vocab_size=99), OPTForCausalLM),
    (BartConfig(**SIZES, vocab_size=99), BartForCausalLM),
):
    torch.manual_seed(0)
    model = cls(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
        ids = torch.randint(5, 99, (1, 6))
        row = torch.cat([torch.full((1, PADDING), config.pad_token_id), ids], dim=1)
        mask = (torch.arange(row.shape[1]) >= PADDING).long()[None]
        made = []
        for tokens, seen in ((ids, torch.ones_like(ids)), (row, mask)):
            out = model.generate(
                input_ids=tokens, attention_mask=seen, max_new_tokens=1, do_sample=False,
                output_logits=True, return_dict_in_generate=True,
            )  # fmt: skip
            made.append(out.logits[0])
    largest = (made[0] - made[1]).abs().max()
    print(f"{cls.__name__}: largest difference of logits {largest:.2g}")
    if cls is OPTForCausalLM and largest > 1e-3:
        raise RuntimeError("padding changes the logits of OPT, too")
assert largest > 1e-3
