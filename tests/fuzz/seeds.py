"""Valid inputs, which the fuzzers change."""

import functools
import json
from pathlib import Path

import posenc_ref as pr
from posenc_ref._registry import CLASSES
from posenc_ref.models.config_facts import table

ROOT = Path(__file__).parents[2]
#: A configuration with an entry of each kind, for models that state none of their own.
_COMMON = {
    "num_hidden_layers": 8,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "max_position_embeddings": 4096,
}
_SCALINGS = (
    None,
    {"rope_type": "linear", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
    {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1024,
    },
    {
        "rope_type": "longrope", "short_factor": [1.0] * 32, "long_factor": [2.0] * 32,
        "original_max_position_embeddings": 1024,
    },
    {"type": "default", "mrope_section": [8, 12, 12]},
)  # fmt: skip


@functools.cache
def configurations():
    """Return a configuration of every known model type, and of Llama with every scaling."""
    facts = table("config_defaults")["models"]
    names = [*table("text_models")["models"], *table("vision_models")["models"]]
    found = [{"model_type": n, **_COMMON, **facts.get(n, {}).get("defaults", {})} for n in names]
    found += [{"model_type": n, **_COMMON} for n in (*names, *table("other_models")["models"])]
    found += [
        {"model_type": n, **_COMMON, "rope_theta": 5e5, "rope_scaling": s}
        for n in ("llama", "qwen2", "qwen2_vl_text", "phi3", "mistral", "deepseek_v3")
        for s in _SCALINGS
    ]
    found += [
        {"model_type": n, part: {**_COMMON, "model_type": inner}, "architectures": ["A"]}
        for n, parts in table("config_defaults")["parts"].items()
        for part, inner in parts.items()
    ]
    return found


@functools.cache
def config_keys():
    """Return the names of entries that readers know."""
    known = {"rope_theta", "rope_parameters", "per_layer_config", "text_config", "swa_head_dim"}
    known |= {"layer_rope_theta", "no_rope_layers", "block_types", "attn_layer_indices", "factor"}
    known |= {"partial_rotary_factor", "partial_rotary_factors", "original_max_position_embeddings"}
    for config in configurations():
        known |= set(config)
    for name in ("text_models", "vision_models"):
        for model in table(name)["models"].values():
            known |= {v for v in model.values() if isinstance(v, str) and v.isidentifier()}
            known |= {n for v in model.values() if isinstance(v, list) for n in v if type(n) is str}
    return sorted(known | set(table("config_keys")["keys"]))


@functools.cache
def metadata():
    """Return the metadata of a GGUF file of every known architecture."""
    found = []
    for name in table("gguf_architectures")["architectures"]:
        found.append({
            "general.architecture": name, "general.name": "A model", f"{name}.block_count": 4,
            f"{name}.context_length": 8192, f"{name}.embedding_length": 256,
            f"{name}.attention.head_count": 4, f"{name}.attention.head_count_kv": 2,
            f"{name}.attention.key_length": 64, f"{name}.rope.dimension_count": 64,
            f"{name}.rope.freq_base": 500000.0, f"{name}.rope.dimension_sections": [16, 8, 8, 0],
            f"{name}.rope.scaling.type": "yarn", f"{name}.rope.scaling.factor": 4.0,
            f"{name}.rope.scaling.original_context_length": 2048,
            f"{name}.attention.sliding_window": 512,
        })  # fmt: skip
        found.append({key: v for key, v in found[-1].items() if "scaling" not in key})
    return found


@functools.cache
def metadata_keys():
    """Return the keys that readers of GGUF files know."""
    from posenc_ref.models.gguf_schedule import KEYS

    more = ("attention.scale", "attention.key_length_mla", "rope.scaling.yarn_log_multiplier")
    names = ("llama", "gemma3", "deepseek2", "qwen2vl", "gpt-oss", "phi3")
    return [f"{name}.{key}" for name in names for key in (*KEYS, *more)]


@functools.cache
def values():
    """Return the JSON form of every example of the registry, and of some models."""
    from posenc_ref.conformance.registry import entries

    found = [value.to_dict() for entry in entries() for value in entry.examples.values()]
    found += [pr.preset(n).to_dict() for n in ("llama-3.1-8b", "gemma-3-4b", "deepseek-v3")]
    found += [s.to_dict() for s in (pr.YaRN(4.0, 1024), pr.LinearScaling(2.0), pr.NTKScaling(2.0))]
    return json.loads(json.dumps(found))


@functools.cache
def value_keys():
    """Return the names of fields of every class."""
    known = {field for cls in CLASSES.values() for c in cls.values() for field in c.__annotations__}
    return sorted(known | {"encoding", "scaling", "model", "dtype", "shape", "hex"})
