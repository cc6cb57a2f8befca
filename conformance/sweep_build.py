"""Building a rotary module as its model does, with the default configuration made small."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from .sweep_census import Target

#: What has nothing to do with positions, made small; only where a configuration has it.
TINY = {"num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": 9}


class Unbuildable(Exception):
    """No configuration was found that the class takes."""


def build(target: Target) -> tuple[Any, Any]:
    """The module inside a container that has its configuration, and that configuration.

    Raises :class:`Unbuildable` with what was tried.
    """
    file = importlib.import_module(target.file)
    cls = getattr(file, target.module)
    tried = []
    for config in _configurations(file, cls, target):
        try:
            module = cls(**_arguments(cls, config, target))
        except Exception as error:
            tried.append(f"{type(config).__name__}: {type(error).__name__}: {error}")
            continue
        return _container(module, config), config
    reasons = "; ".join(text.splitlines()[0][:120] for text in tried[:3])
    raise Unbuildable(reasons or "no configuration class was found")


def _configurations(file: ModuleType, cls: type, target: Target) -> Iterator[Any]:
    """Default configurations: of the class that builds it, its own, those nested in them, any."""
    own = next(iter(_annotations(cls)), "")
    every = [name for name, value in vars(file).items() if _is_configuration(value)]
    seen: set[str] = set()
    for name in (target.config, own, *every):
        if not name or not hasattr(file, name) or name in seen:
            continue
        seen.add(name)
        config = _default(getattr(file, name))
        if config is None:
            continue
        if name == target.config:
            for part in filter(None, target.path.split(".")):
                config = getattr(config, part)
        yield config
        for part in getattr(config, "sub_configs", {}) or {}:
            nested = getattr(config, part, None)
            if nested is not None:
                yield nested


def _annotations(cls: type) -> Iterator[str]:
    for parameter in inspect.signature(cls).parameters.values():
        if "config" in parameter.name:
            name = getattr(parameter.annotation, "__name__", str(parameter.annotation))
            yield name.partition("|")[0].strip()


def _is_configuration(value: Any) -> bool:
    return inspect.isclass(value) and value.__name__.endswith("Config") and _has_model_type(value)


def _has_model_type(value: type) -> bool:
    return bool(getattr(value, "model_type", ""))


def _default(cls: type) -> Any:
    try:
        config = cls()
    except Exception:  # it wants arguments: another configuration has to do
        return None
    for name, value in TINY.items():
        try:
            if isinstance(getattr(config, name), int):
                setattr(config, name, value)
        except Exception:  # absent, or one value per layer
            continue
    return config


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


def _container(module: Any, config: Any) -> Any:
    """A module that has ``module`` inside, and its configuration, as a model has."""
    import torch

    box = torch.nn.Module()
    box.config, box.inside = config, module
    return box.eval()
