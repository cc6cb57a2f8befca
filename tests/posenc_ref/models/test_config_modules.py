"""Every rotary module of transformers, built from its default configuration, and our reading of it.

Here its frequency buffers; `posenc sweep` drives the modules themselves.
"""

import importlib
import inspect
import re

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE, from_config
from posenc_ref.accuracy import BUDGET, Truth
from posenc_ref.models.config_facts import table

TEXT, VISION = (table(name)["models"] for name in ("text_models", "vision_models"))
CLASSES = {n: v["class"] for n, v in table("config_defaults")["models"].items()}

# Defaults that no module of theirs can use, or that turn the rotation off.
SETTINGS = {
    "glm4_moe": {"head_dim": 128},
    "glm4v_moe_text": {"head_dim": 128},
    "glm4v_text": {"partial_rotary_factor": 0.5},
    "glm_image_text": {"partial_rotary_factor": 0.5},
    "glm_ocr_text": {"head_dim": 128, "partial_rotary_factor": 0.5},
    "qwen3_omni_moe_text": {"head_dim": 128},
    "hunyuan_vl_text": {"head_dim": 128, "rope_scaling": {
        "type": "xdrope", "alpha": 1000.0, "factor": 1.0, "xdrope_section": [16, 16, 16, 16]}},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {
        "rope_type": "default", "rope_theta": 10000.0}}},
    "esm": {"position_embedding_type": "rotary"},
    "wav2vec2-bert": {"position_embeddings_type": "rotary"},
    "wav2vec2-conformer": {"position_embeddings_type": "rotary"},
    "seamless_m4t": {"position_embeddings_type": "rotary"},
    "granitemoehybrid": {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2,
                         "position_embedding_type": "rope"},
    "zamba2": {"use_mem_rope": True},
}  # fmt: skip
# No buffer of frequencies: computed inside a function, or nowhere.
WITHOUT = {
    "codegen", "gptj", "jamba", "kimi_linear", "llama4_vision_model", "nemotron_h", "roformer",
    "internlm3", "iquestcoder",
}  # fmt: skip


def parts_of(model_type):
    """The configuration's class, and the classes of rotary modules in the model's file."""
    file = {**TEXT, **VISION}[model_type].get("file", model_type)
    package = f"transformers.models.{file}"
    configuration = importlib.import_module(f"{package}.configuration_{file}")
    modelling = importlib.import_module(f"{package}.modeling_{file}")
    rotary = [
        cls
        for name, cls in vars(modelling).items()
        if re.search("Rotary|RopePos", name) and inspect.isclass(cls) and "Atten" not in name
    ]
    return getattr(configuration, CLASSES[model_type]), rotary


def named_for(cls, config):
    """Whether the module's constructor names this configuration's class, or a composite's."""
    parameters = [p for n, p in inspect.signature(cls.__init__).parameters.items() if n != "self"]
    hint = str(parameters[0].annotation)
    return type(config).__name__ in hint or "Vision" not in hint


def buffers(module):
    """Frequencies by layer type."""
    found = {}
    for name, value in module.named_buffers():
        if name.endswith("inv_freq") and "original" not in name:
            found[name.removesuffix("inv_freq").rstrip("_")] = value.double().numpy().ravel()
    return found


def expected(encoding, count):
    """Our frequencies in the order of their buffer: towers keep those of one axis."""
    w = encoding.frequencies()
    if not isinstance(encoding, MultiAxisRoPE) or encoding.spacing == "global":
        return w
    axes = np.asarray(encoding.axes())
    w = w / encoding.position_scale
    if encoding.spacing == "strided":
        return np.concatenate([w[axes == a] for a in range(len(encoding.sections))])
    return w[axes == 0] if len(w) != count else w


def ordered(model_type, buffer):
    """Ernie 4.5 VL keeps the frequencies of even pairs first, and puts them back later."""
    if model_type != "ernie4_5_vl_moe_text":
        return buffer
    return np.concatenate([np.stack([buffer[:22], buffer[22:44]], 1).ravel(), buffer[44:]])


@pytest.mark.parametrize("model_type", sorted({*TEXT, *VISION} - WITHOUT))
def test_frequencies(model_type):
    config_class, modules = parts_of(model_type)
    config = config_class(**SETTINGS.get(model_type, {}))
    model = from_config(config.to_dict() | {"model_type": model_type})
    compared = 0
    for cls in modules:
        if not named_for(cls, config):
            continue
        try:
            module = cls(config)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue  # it is for another part of the model
        tables = buffers(module)
        if "axial" in str(getattr(module, "rope_type", "")) and model_type in TEXT:
            continue
        for layer_type, buffer in tables.items():
            encoding = model.encodings.get(layer_type) or model.only
            ours = expected(encoding, len(buffer))
            theirs = ordered(model_type, buffer)
            assert theirs.shape == ours.shape, cls
            truth = Truth(ours, abs(ours), np.zeros(()))
            assert truth.score(theirs.astype(np.float32)).max() <= BUDGET["float32"], cls
            compared += 1
    assert compared > 0, "no module was compared"
