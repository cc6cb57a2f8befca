"""Learned positions and padding on the left: a row alone, and the same row in a padded batch.

Runs with torch and transformers alone.  OPT counts the tokens that the mask shows, and RoBERTa
those that are not padding; the models that follow each of them count all.
"""

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForMaskedLM

PADDING = 3
BOTH = {"vocab_size": 99, "pad_token_id": 1, "eos_token_id": None}
DECODER = {"d_model": 64, "decoder_attention_heads": 4, "decoder_layers": 2, "decoder_ffn_dim": 64}
DECODER |= {"hidden_size": 64, "word_embed_proj_dim": 64, "ffn_dim": 64}  # OPT's names
DECODER |= {"num_hidden_layers": 2, "num_attention_heads": 4}
ENCODER = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
ENCODER |= {"intermediate_size": 64, "embedding_size": 64}
DISTIL = {"dim": 64, "n_heads": 4, "n_layers": 2, "hidden_dim": 64}
DECODERS = "opt bart bigbird_pegasus blenderbot blenderbot-small marian mbart pegasus plbart"
ENCODERS = "roberta albert bert distilbert electra ernie layoutlm roc_bert"


def generated(model, ids, mask):
    """Return the logits of the first generated token."""
    made = model.generate(
        input_ids=ids, attention_mask=mask, max_new_tokens=1, do_sample=False,
        output_logits=True, return_dict_in_generate=True,
    )  # fmt: skip
    return made.logits[0]


def forward(model, ids, mask):
    """Return the logits of the last token."""
    return model(input_ids=ids, attention_mask=mask).logits[:, -1]


differ = {}
for names, auto, sizes, logits in (
    (DECODERS, AutoModelForCausalLM, DECODER, generated),
    (ENCODERS, AutoModelForMaskedLM, ENCODER, forward),
):
    for name in names.split():
        own = DISTIL if name == "distilbert" else sizes
        torch.manual_seed(0)
        model = auto.from_config(CONFIG_MAPPING[name](**own, **BOTH)).eval()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.ndim > 1:
                    weight.normal_(std=weight.shape[-1] ** -0.5)
            ids = torch.randint(5, 99, (1, 6))
            row = torch.cat([torch.full((1, PADDING), 1), ids], dim=1)
            mask = (torch.arange(row.shape[1]) >= PADDING).long()[None]
            alone, padded = logits(model, ids, torch.ones_like(ids)), logits(model, row, mask)
        differ[name] = (alone - padded).abs().max().item()
        print(f"{name:16} {logits.__name__}: largest difference of logits {differ[name]:.2g}")
right = [name for name, value in differ.items() if value < 1e-3]
if not {"opt", "roberta"} <= set(right):
    raise RuntimeError("padding changes the logits of OPT or RoBERTa, too")
assert right == ["opt", "roberta"]
