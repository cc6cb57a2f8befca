"""RoBERTa and its kin as decoders: the rows of the position table in forward and in generate.

Runs with torch and transformers alone. Row padding_idx + 1 belongs to the first token.
"""

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

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
KIN = "roberta roberta-prelayernorm camembert data2vec-text xlm-roberta xlm-roberta-xl xmod"

equal = []
for name in ("bert", *KIN.split()):
    more = {"default_language": "en_XX"} if name == "xmod" else {}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[name](**SIZES, **more)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
        ids = torch.randint(5, 99, (1, 6))
        rows = []
        table = next(m for n, m in model.named_modules() if n.endswith(".position_embeddings"))
        table.register_forward_pre_hook(
            lambda _, given, rows=rows: rows.append(given[0].tolist()[0])
        )
        forward = model(input_ids=ids).logits[:, -1]
        made = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=1,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
    print(
        f"{name}: rows {rows[0]} in forward, {rows[1]} in generate; largest difference "
        f"of logits {(made.logits[0] - forward).abs().max():.2g}"
    )
    if rows[0] == rows[1]:
        equal.append(name)
if "bert" not in equal:
    raise RuntimeError("BERT takes other rows in generate, too")
# Before transformers 5, XLM-RoBERTa-XL made position ids for generate itself.
older = int(transformers.__version__.split(".")[0]) < 5
assert equal == (["bert", "xlm-roberta-xl"] if older else ["bert"])
