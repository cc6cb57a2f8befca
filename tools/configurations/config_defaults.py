"""Write posenc_ref/models/data/config_defaults.json, the defaults of configuration classes.

A ``config.json`` may omit every entry that its configuration class in transformers has a default
for.  This script copies the defaults that positional encodings depend on from the installed
transformers::

    python tools/configurations/config_defaults.py          # write
    python tools/configurations/config_defaults.py --check  # exit with 1 if the file would change
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

from posenc_ref.models.config_keys import is_positional

DATA = Path(__file__).resolve().parents[2] / "posenc_ref" / "models" / "data"
TARGET = DATA / "config_defaults.json"
#: The entries that posenc_ref reads; aliases of the configuration classes are followed.
ENTRIES = [
    "hidden_size", "d_model", "embed_dim", "num_attention_heads", "num_heads", "num_hidden_layers",
    "head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "max_position_embeddings",
    "original_max_position_embeddings", "rotary_dim", "query_pre_attn_scalar",
    "attention_multiplier", "rope_theta", "rope_parameters", "rotary_embedding_base",
    "compress_rope_theta", "partial_rotary_factor", "no_rope_layer_interval",
    "attn_temperature_tuning", "floor_scale", "attn_scale", "position_embedding_type",
    "position_embeddings_type", "use_mem_rope", "use_rotary_embedding", "alibi", "rope_interleave",
    "projection_dim", "speech_encoder_attention_heads", "layer_rope_theta", "rope_scaling_layers",
    "memory_attention_hidden_size", "memory_attention_downsample_rate",
    "memory_attention_num_attention_heads", "pad_head_dim_to_multiple_of",
]  # fmt: skip


def collect(wanted: set[str]) -> dict[str, Any]:
    """Return the defaults of every wanted ``model_type``, and the parts of composites."""
    import transformers
    from transformers import PretrainedConfig

    models: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    folder = Path(transformers.__file__).parent / "models"
    for path in sorted(folder.glob("*/configuration_*.py")):
        module = importlib.import_module(f"transformers.models.{path.parent.name}.{path.stem}")
        for cls in vars(module).values():
            own = isinstance(cls, type) and cls.__module__ == module.__name__
            if not own or not issubclass(cls, PretrainedConfig) or not cls.model_type:
                continue
            if cls.model_type in wanted:
                models.setdefault(cls.model_type, _of(cls))
            inner = {
                key: spec.model_type
                for key, spec in (cls.sub_configs_defaults or {}).items()
                if spec.model_type in wanted or spec.model_type in parts
            }
            if inner:
                parts.setdefault(cls.model_type, inner)
    return {"transformers": transformers.__version__, "models": models, "parts": parts}


def _of(cls: Any) -> dict[str, Any]:
    aliases = {k: v for k, v in (cls.attribute_map or {}).items() if k in [*ENTRIES, "layer_types"]}
    keys = {aliases.get(k, k) for k in ENTRIES}
    found = {}
    for field in dataclasses.fields(cls):
        value = field.default
        if field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        if field.name in keys and value is not None and value is not dataclasses.MISSING:
            found[field.name] = value
    theta = cls.default_theta
    if isinstance(theta, dict):
        names = {"global": "full_attention", "local": "sliding_attention"}
        theta = {names.get(k, k): v for k, v in theta.items()}
    body: dict[str, Any] = {"class": cls.__name__, "theta": theta, "defaults": found}
    fields = sorted(field.name for field in dataclasses.fields(cls) if is_positional(field.name))
    body |= {"fields": fields} if fields else {}
    return body if not aliases else body | {"aliases": aliases}


def text() -> str:
    """Return the file, one line per model, in order."""
    wanted: set[str] = set()
    for name in ("text_models.json", "vision_models.json"):
        path = DATA / name
        if path.exists():
            wanted |= set(json.loads(path.read_text(encoding="utf-8"))["models"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Composites of composites: the second pass sees the parts that the first one found.
        found = collect(wanted)
        again = collect(wanted | set(found["parts"]))
        found |= {"parts": again["parts"]}
    lines = ["{", f' "transformers": {json.dumps(found["transformers"])},']
    for section in ("models", "parts"):
        entries = sorted(found[section].items())
        rows = [f"  {json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in entries]
        lines += [f' "{section}": {{', ",\n".join(rows), " },"]
    lines[-1] = " }"
    return "\n".join([*lines, "}", ""])


if __name__ == "__main__":
    new = text()
    if "--check" in sys.argv[1:]:
        old = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
        sys.exit(0 if new == old else f"{TARGET} is not what the installed transformers say")
    TARGET.write_text(new, encoding="utf-8")
