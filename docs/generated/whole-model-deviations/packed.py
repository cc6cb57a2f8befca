"""Packed sequences in one row: whether the second one sees the first.

Runs with torch and transformers alone. transformers reads packed sequences from position ids that
begin again (masking_utils.find_packed_sequence_indices), if neither a mask nor a cache is given.
Models that a release lacks are left out.
"""

import importlib

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
    "xmod": {"is_decoder": True, "default_language": "en_XX"},
}
DECODERS = (
    "bert bert-generation electra ernie roc_bert roberta roberta-prelayernorm camembert "
    "data2vec-text xlm-roberta xlm-roberta-xl"
)
MODELS |= {name: {"is_decoder": True} for name in DECODERS.split()}
PROTEINS = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2}
PROTEINS |= {"vocab_size": 30, "intermediate_size": 32, "max_position_embeddings": 64}
RESAMPLER = {
    "protein_encoder_config": PROTEINS,
    "resampler_depth": 1,
    "resampler_dim_head": 8,
    "resampler_num_latents": 4,
}
GPT = {"n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4}
LAYERS = {"embed_dim": 64, "layers": 2, "ffn_dim": 64, "attention_heads": 4}
#: The class of models that AutoModelForCausalLM does not make, and the name of its configuration.
CLASSES = {
    "imagegpt": ("ImageGPTForCausalImageModeling", "ImageGPTConfig", GPT),
    "clip": ("CLIPTextModel", "CLIPTextConfig", {}),
    "evolla": ("EvollaModel", "EvollaConfig", {"num_key_value_heads": 4, **RESAMPLER}),
    "kosmos-2.5": ("Kosmos2_5TextForCausalLM", "Kosmos2_5TextConfig", LAYERS),
}
MODELS |= {name: more for name, (_, _, more) in CLASSES.items()}


def built(name, more):
    """Return a model with random weights."""
    given = {**SIZES, **more, "attn_implementation": "eager"}
    if name not in CLASSES:
        return AutoModelForCausalLM.from_config(CONFIG_MAPPING[name](**given))
    folder = name.replace("-2.", "2_")
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    settings = importlib.import_module(f"transformers.models.{folder}.configuration_{folder}")
    return getattr(module, CLASSES[name][0])(getattr(settings, CLASSES[name][1])(**given))


def last(model, **given):
    """Return the logits, or the hidden states of a model without a head."""
    found = model(**given, **({} if name == "clip" else {"use_cache": False}))
    return found.logits if "logits" in found else found.last_hidden_state


seen = {}
for name, more in MODELS.items():
    if name not in CONFIG_MAPPING:
        continue
    torch.manual_seed(0)
    model = built(name, more).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
        first, other, second = (torch.randint(3, 99, (1, n)) for n in (5, 5, 6))
        positions = torch.cat([torch.arange(5), torch.arange(6)])[None]
        rows = (torch.cat([begin, second], dim=1) for begin in (first, other))
        packed, changed = (
            last(model, input_ids=row, position_ids=positions)[:, 5:] for row in rows
        )
        alone = last(model, input_ids=second, position_ids=positions[:, 5:])
    largest, seen[name] = (packed - alone).abs().max(), (packed - changed).abs().max()
    print(
        f"{name:20} second sequence: {largest:.2g} from its logits alone; by {seen[name]:.2g} "
        "other logits after another first sequence"
    )
    if name == "llama" and max(largest, seen[name]) > 1e-3:
        raise RuntimeError("this release reads no packed sequences from position ids")
wrong = [name for name, value in seen.items() if value > 1e-3]
right = [name for name in seen if name not in wrong]
assert right == ["llama"]
