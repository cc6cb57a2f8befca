"""RoBERTa as a decoder: the rows of its position table in forward and in generate.

Runs with torch and transformers alone. Row padding_idx + 1 belongs to the first token.
"""

import torch
from transformers import BertConfig, BertLMHeadModel, RobertaConfig, RobertaForCausalLM

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 99,
    "is_decoder": True,
    "pad_token_id": 1,
    "eos_token_id": None,
}

for config, cls in ((BertConfig, BertLMHeadModel), (RobertaConfig, RobertaForCausalLM)):
    torch.manual_seed(0)
    model = cls(config(**SIZES)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
        ids = torch.randint(5, 99, (1, 6))
        forward = model(input_ids=ids).logits[:, -1]
        made = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=1,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
    rows = []
    table = next(m for n, m in model.named_modules() if n.endswith(".position_embeddings"))
    hook = table.register_forward_pre_hook(
        lambda _, given, rows=rows: rows.append(given[0].tolist()[0])
    )
    model(input_ids=ids)
    model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=1)
    hook.remove()
    print(
        f"{cls.__name__}: rows {rows[0]} in forward, {rows[1]} in generate; largest difference "
        f"of logits {(made.logits[0] - forward).abs().max():.2g}"
    )
    if cls is BertLMHeadModel and rows[0] != rows[1]:
        raise RuntimeError("BERT takes other rows in generate, too")
assert rows[0] != rows[1]
