"""Build a rotary module with the arguments that its model passes, and fill its buffers.

To load a checkpoint, transformers creates the model on the meta device, and ``_init_weights``
computes the frequencies again.  This code may differ from the constructor, so it is judged.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from posenc_ref.conformance.surveys.record import one_line

from .case import AS_CONFIGURED, Unjudged
from .census import Target
from .scaled import rescaled

#: Small values of sizes that do not affect positions, for building a whole model.
TINY = {"num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": 9}
_GLM4V = {"rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}
_XDROPE = {"alpha": 1000.0, "factor": 1.0, "xdrope_section": [16, 16, 16, 16]}
#: Changes of default configurations, each with its reason: some are inconsistent, incomplete or not
#: rotary, which those of released checkpoints are not; others have too small images.
SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "CohereCompassTextConfig": (
        {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
        "the default rope_parameters have no entry for the layer type",
    ),
    "EsmConfig": ({"position_embedding_type": "rotary"}, "by default positions are absolute"),
    "Glm4MoeConfig": ({"head_dim": 128}, "the default head is 4096 // 96 = 42 wide"),
    **dict.fromkeys(
        ("Glm4vTextConfig", "GlmImageTextConfig"),
        (
            {"rope_parameters": {"rope_type": "default", **_GLM4V}},
            "the default mrope_section adds up to half of the pairs of a head",
        ),
    ),
    "Glm4vMoeTextConfig": ({"head_dim": 128}, "the default head is 4096 // 96 = 42 wide"),
    "GraniteMoeHybridConfig": (
        {"position_embedding_type": "rope", "layer_types": ["attention"] * 32},
        "the default configuration has no attention layers and no position embedding",
    ),
    "HunYuanVLTextConfig": (
        {"head_dim": 128, "rope_parameters": {"rope_type": "xdrope", "rope_theta": 1e4, **_XDROPE}},
        "the default has no xdrope_section",
    ),
    "Llama4VisionConfig": ({"image_size": 160 * 14}, "a grid of 160 x 160 patches"),
    **dict.fromkeys(
        ("SeamlessM4TConfig", "Wav2Vec2BertConfig", "Wav2Vec2ConformerConfig"),
        ({"position_embeddings_type": "rotary"}, "by default positions are relative"),
    ),
    "Zamba2Config": ({"use_mem_rope": True}, "by default nothing is rotated"),
    "Qwen3OmniMoeTextConfig": ({"head_dim": 128}, "the default head is 2048 // 28 = 73 wide"),
}


class Crashed(Exception):
    """The module fails on a configuration that its configuration class accepts."""


def build(target: Target, rope_type: str = AS_CONFIGURED) -> tuple[Any, Any]:
    """Return a container with the module and its configuration, and that configuration.

    Raises :class:`Unjudged` if no configuration works or the model rejects ``rope_type``, and
    :class:`Crashed` if the configuration accepts ``rope_type`` but the module fails.
    """
    import torch

    module, config = _as_configured(target)
    if rope_type != AS_CONFIGURED:
        settings = SETTINGS.get(type(config).__name__, ({}, ""))[0]
        config = rescaled(module, config, rope_type, settings)
        try:
            module = type(module)(**_arguments(type(module), config, target))
        except (ValueError, KeyError, AttributeError) as error:
            reason = f"the module rejects the rope type: {one_line(error, 200)}"
            raise Unjudged("refused", reason) from error
        except Exception as error:
            reason = f"{rope_type!r} is accepted, then fails: {one_line(error, 200)}"
            raise Crashed(reason) from error
    if not is_model(type(module)):
        load(module, config)
    box = torch.nn.Module()  # holds the module and its configuration, like a model
    box.config, box.inside = config, module
    return box.eval(), config


def is_model(cls: type) -> bool:
    """Return whether the class is a whole model, which fills its own buffers."""
    return cls.__name__.endswith("Model")


def _as_configured(target: Target) -> tuple[Any, Any]:
    try:
        file = importlib.import_module(target.file)
    except ImportError as error:
        raise Unjudged("undrivable", f"cannot be built: {error}") from error
    cls = getattr(file, target.module)
    tried = []
    for config in _configurations(file, cls, target):
        try:
            return cls(**_arguments(cls, config, target)), config
        except Exception as error:
            tried.append(f"{type(config).__name__}: {type(error).__name__}: {error}")
    reasons = "; ".join(text.splitlines()[0][:120] for text in tried[:3])
    reasons = reasons or "no configuration class was found"
    raise Unjudged("undrivable", f"cannot be built: {reasons}")


def _configurations(file: ModuleType, cls: type, target: Target) -> Iterator[Any]:
    """Yield default configurations to try, the most likely first.

    The census' choice, the constructor's annotation, then every class, each with its parts.
    """
    own = next(iter(_annotations(cls)), "")
    named = ((n, v) for n, v in vars(file).items() if inspect.isclass(v) and n.endswith("Config"))
    every = [name for name, value in named if getattr(value, "model_type", "")]
    for name in dict.fromkeys((target.config, own, *every)):
        if not name or not hasattr(file, name):
            continue
        settings = SETTINGS.get(name, ({}, ""))[0] | (TINY if is_model(cls) else {})
        try:
            config = getattr(file, name)(**copy.deepcopy(settings))
        except Exception:  # it requires arguments: try another configuration
            continue
        if name == target.config:
            for part in filter(None, target.path.split(".")):
                config = getattr(config, part)
        yield config
        for part in getattr(config, "sub_configs", {}) or {}:
            if (nested := getattr(config, part, None)) is not None:
                yield nested


def _annotations(cls: type) -> Iterator[str]:
    for parameter in inspect.signature(cls).parameters.values():
        if "config" in parameter.name:
            name = getattr(parameter.annotation, "__name__", str(parameter.annotation))
            yield name.partition("|")[0].strip()


def settings_of(config: Any) -> str:
    """Return which settings differ from the configuration's defaults and why, or ""."""
    settings, why = SETTINGS.get(type(config).__name__, ({}, ""))
    return f"built with {settings}: {why}" if settings else ""


def _arguments(cls: type, config: Any, target: Target) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        if "config" in name:
            given[name] = config
        elif name == "layer_idx" and parameter.default is parameter.empty:
            given[name] = 0
        elif name == "scaled":
            given[name] = target.scaled
        elif name in ("hidden_size", "num_attention_heads"):
            given[name] = getattr(config, name)
    return given


def load(module: Any, config: Any) -> None:
    """Fill the buffers of ``module`` by the model's ``_init_weights``.

    Buffers that it does not fill keep their values, which a checkpoint would provide.
    """
    import torch

    kept = {name: buffer.clone() for name, buffer in module.named_buffers()}
    for buffer in module.buffers():
        if buffer.is_floating_point() or buffer.is_complex():
            buffer.fill_(float("nan"))
    model = _model(sys.modules[type(module).__module__], config)
    with torch.no_grad():
        model._init_weights(module)
    for name, buffer in module.named_buffers():
        if torch.isnan(buffer).all():
            buffer.copy_(kept[name])


def _model(file: Any, config: Any) -> Any:
    """Return an empty model of the file, with an ``_init_weights`` method."""
    import torch
    from transformers import PreTrainedModel

    classes = (cls for cls in vars(file).values() if inspect.isclass(cls))
    own = [c for c in classes if issubclass(c, PreTrainedModel) and "_init_weights" in vars(c)]
    base = next((cls for cls in own if cls.__module__ == file.__name__), PreTrainedModel)
    model = base.__new__(base)
    torch.nn.Module.__init__(model)
    model.config = config
    return model
