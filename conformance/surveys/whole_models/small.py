"""Small configurations of model types, and models with random weights."""

from __future__ import annotations

import copy
import re
from typing import Any

from posenc_ref.conformance.surveys.record import one_line
from posenc_ref.conformance.surveys.transformers.build import SETTINGS as CONSISTENT
from posenc_ref.conformance.surveys.transformers.case import Unjudged

#: Small values of sizes; an entry is used if the configuration class has it.
_SIZES: dict[str, Any] = {
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers",
         "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(
        ("hidden_size", "n_embd", "d_model", "dim", "emb_dim", "attention_hidden_size"), 64),
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
         "decoder_attention_heads"), 4),
    "num_key_value_heads": 2, "head_dim": 16, "attention_head_dim": 16, "d_kv": 16,
    "global_head_dim": 32, "vocab_size": 99, "rotary_dim": 8, "embedding_size": 64,
    **dict.fromkeys(
        ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim",
         "ffn_hidden_size"), 64),
    **dict.fromkeys(
        ("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_hidden_size"), 32),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(
        ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "num_kv_shared_layers"), 2),
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "sliding_window": 5, "attention_chunk_size": 5, "attention_window_size": 5,
    "local_attention": 8, "entity_vocab_size": 9,
    "entity_emb_size": 16,
    **dict.fromkeys(
        ("kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"), 16),
    "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 99, "floor_scale": 4,
    "mamba_n_heads": 4, "mamba_num_heads": 4, "mamba_d_head": 32, "mamba_head_dim": 32,
    "mamba_d_state": 8, "ssm_state_size": 8, "mamba_chunk_size": 8, "chunk_size": 8,
    "mamba_d_ssm": 128, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "linear_head_dim": 16, "linear_num_heads": 4, "n_groups": 1, "mamba_n_groups": 1,
    "mamba_ngroups": 1,
    "linear_num_key_heads": 4, "linear_num_value_heads": 4,
}  # fmt: skip
#: Sizes that are set even if the default configuration leaves them None.
_ALWAYS = {
    "head_dim", "num_key_value_heads", "num_experts", "n_routed_experts", "num_experts_per_tok",
    "pad_token_id", "bos_token_id", "eos_token_id", "vocab_size",
}  # fmt: skip
#: Settings of one model type beside the sizes, because it needs them to be built.
_OWN: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {"num_experts": 16},
    "bamba": {"attn_layer_indices": [1]},
    "dbrx": {
        "attn_config": {"clip_qkv": 8.0, "kv_n_heads": 2, "rope_theta": 1e4},
        "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 2, "moe_top_k": 1},
    },
    "dots1": {"n_shared_experts": 1},
    "dots3_note_text": {
        "layer_types": ["indexed_attention", "indexed_attention"], "per_layer_config": {},
    },
    "esmc": {"num_key_value_heads": 4},
    "gemma3n_text": {
        "num_hidden_layers": 4, "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "activation_sparsity_pattern": [0.0] * 4, "intermediate_size": [64] * 4,
    },
    "gemma4_text": {
        "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "gemma4_unified_text": {
        "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 5},
    "granitemoehybrid": {
        "layer_types": ["mamba", "attention"], "position_embedding_type": "rope",
    },
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "llama4_text": {
        "intermediate_size_mlp": 64,
        "num_hidden_layers": 4, "layer_types": ["chunked_attention"] * 3 + ["full_attention"],
        "no_rope_layers": [1, 1, 1, 0], "moe_layers": [],
    },
    "mimo_v2_flash": {"head_dim": 48},
    "qwen2": {"use_sliding_window": True, "max_window_layers": 1},
    "qwen2_moe": {"use_sliding_window": True, "max_window_layers": 1},
    "qwen3": {"use_sliding_window": True, "max_window_layers": 1},
    "qwen3_moe": {"use_sliding_window": True, "max_window_layers": 1},
    "qwen3_5_text": {"head_dim": 64},
    "qwen3_5_moe_text": {"head_dim": 64},
    "qwen4_exp_text": {
        "head_dim": 64, "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 64,
        "indexer_budget": 64, "indexer_compress_ratio": 4, "hc_lowrank": 8,
    },
    "recurrent_gemma": {
        "block_types": ["recurrent", "attention"], "lru_width": 64,
    },
    "reformer": {"is_decoder": True},
    "smollm3": {"no_rope_layers": [1, 0]},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "num_hidden_layers": 4, "layers_block_type": ["linear_attention", "hybrid"] * 2,
        "attention_head_dim": 32, "num_key_value_heads": 4, "attention_hidden_size": 128,
    },
    "zamba2": {
        "layers_block_type": ["linear_attention", "hybrid"], "attention_head_dim": 32,
        "num_key_value_heads": 4, "attention_hidden_size": 128,
    },
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip
_LARGEST = 20_000_000  # parameters


def small_config(model_type: str, causal: bool = True) -> Any:
    """Return a configuration of two layers, or one layer of each type, with small widths.

    Raises :class:`Unjudged` if the configuration class accepts no such sizes.
    """
    from transformers import CONFIG_MAPPING

    cls = CONFIG_MAPPING[model_type]
    try:
        default = cls()
        parts = (getattr(default, name, None) for name in default.sub_configs)
        types = sorted({getattr(part, "model_type", "") for part in parts} - {""})
        if types and "num_hidden_layers" not in default.to_dict():
            reason = f"it consists of other models: {', '.join(types)}"
            raise Unjudged("undrivable", reason)
        config = cls(**_settings(model_type, default))
    except Unjudged:
        raise
    except Exception as error:
        raise Unjudged("undrivable", f"no small configuration: {one_line(error)}") from error
    if config.is_encoder_decoder and not causal:
        raise Unjudged("undrivable", "its masked model has an encoder and a decoder")
    if hasattr(config, "is_decoder"):
        config.is_decoder = causal
    return config


def _settings(model_type: str, default: Any) -> dict[str, Any]:
    """Return the entries of a small configuration that differ from the default."""
    have = default.to_dict()
    given = {
        key: value
        for key, value in _SIZES.items()
        if key in have and (key in _ALWAYS or isinstance(have[key], int | float))
        and not isinstance(have[key], bool)
    }  # fmt: skip
    if "kv_lora_rank" in have:  # latent attention has as many keys as queries
        given["num_key_value_heads"] = 4
    for name, entry in have.items():
        if name.endswith("layer_types") and isinstance(entry, list) and entry:
            kinds = list(dict.fromkeys(entry))
            given[name] = (kinds * 2)[: max(2, len(kinds))]
            count = len(given[name])
            given |= {k: count for k in ("num_hidden_layers", "n_layer") if k in given}
    given |= copy.deepcopy(CONSISTENT.get(type(default).__name__, ({}, ""))[0])
    given |= {"head_dim": 16} if "head_dim" in given else {}
    return given | copy.deepcopy(_OWN.get(model_type, {}))


def small_model(config: Any, causal: bool = True) -> Any:
    """Return a language model with random weights that make logits of about 1."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    make = AutoModelForCausalLM if causal else AutoModelForMaskedLM
    config._attn_implementation = "eager"
    with torch.device("meta"):
        empty = make.from_config(copy.deepcopy(config))
    size = sum(p.numel() for p in empty.parameters())
    if size > _LARGEST:
        raise Unjudged("undrivable", f"its small configuration has {size:,} parameters")
    model = make.from_config(config).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
            elif re.search("sink", name):
                weight.normal_()
    return model
