"""Building the class that has a position encoding, small, with random weights; calling it."""

from __future__ import annotations

import copy
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from .census import Place

#: What has nothing to do with positions, made small; what a class refuses is left as it was.
LAYERS: dict[str, Any] = {
    "num_hidden_layers": 1, "encoder_layers": 1, "decoder_layers": 1, "num_layers": 1,
    "attention_types": [[["global"], 1]],  # GPT-Neo's, one for each layer
}  # fmt: skip
SMALL: tuple[dict[str, Any], ...] = (
    {**LAYERS, "hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 8,
     "vocab_size": 128},
    {**LAYERS, "intermediate_size": 8, "vocab_size": 128},
    {**LAYERS, "vocab_size": 128},
    {"num_hidden_layers": 1},
    {},
)  # fmt: skip


class MissingArgument(Exception):
    """A class wants an argument that nobody knows how to make."""


class Unbuildable(Exception):
    """No configuration was found that the class takes."""


def build(place: Place, settings: Mapping[str, Any], *, random: bool = True) -> tuple[Any, Any]:
    """The owner of ``place`` in evaluation mode, and its configuration.

    ``settings`` are of the configuration, where it has such fields.  Weights are ``random``, or as
    the class has made them.  Raises Unbuildable with what was tried.
    """
    import torch

    file = importlib.import_module(place.file)
    cls = getattr(file, place.owner)
    tried: list[str] = []
    torch.manual_seed(0)
    for config in configurations(file, cls, settings):
        try:
            module = cls(**_arguments(cls, config))
        except Exception as error:
            tried.append(f"{type(config).__name__}: {_line(error)}")
            continue
        return fill(module.eval()) if random else module.eval(), config
    raise Unbuildable("; ".join(list(dict.fromkeys(tried))[:3]) or "no configuration class fits")


def fill(module: Any, seed: int = 0) -> Any:
    """``module`` with every parameter drawn at random; buffers are what it made of them."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=generator))
    return module


def same() -> Any:
    """A module that gives back what it is given."""
    import torch

    class Same(torch.nn.Module):  # type: ignore[misc]  # torch is not typed here
        def forward(self, x: Any, *_: Any, **__: Any) -> Any:
            return x

    return Same()


def call(function: Any, given: Mapping[str, Any]) -> Any:
    """``function`` with those of ``given`` that it has parameters for."""
    arguments = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in given:
            arguments[name] = given[name]
        elif parameter.default is parameter.empty and parameter.kind < parameter.VAR_POSITIONAL:
            raise MissingArgument(f"nothing is known to pass for the parameter {name!r}")
    return function(**arguments)


def takes(function: Any, *names: str) -> bool:
    """Whether ``function`` has all these parameters."""
    return set(names) <= set(inspect.signature(function).parameters)


def text_of(place: Place, *more: str) -> str:
    """The source of the owner, and of other classes of its file that are there."""
    file = importlib.import_module(place.file)
    found = [getattr(file, name, None) for name in (place.owner, *more)]
    return "\n".join(inspect.getsource(c) for c in found if inspect.isclass(c))


def text_of_file(place: Place) -> str:
    """The source of the whole file."""
    return inspect.getsource(importlib.import_module(place.file))


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]


def configurations(file: ModuleType, cls: type, settings: Mapping[str, Any]) -> Iterator[Any]:
    """Small configurations of the class's own kind, then of any kind that the file knows."""
    found = {
        name: value
        for name, value in vars(file).items()
        if inspect.isclass(value) and name.endswith("Config") and hasattr(value, "model_type")
    }
    hints = [str(p.annotation) for p in inspect.signature(cls).parameters.values()]
    own = [name for name in found if any(re.search(rf"\b{name}\b", hint) for hint in hints)]
    for name in dict.fromkeys([*own, *found]):
        for small in SMALL:
            config = _config(found[name], {**small, **settings})
            if config is None:
                continue
            yield config
            for part in getattr(config, "sub_configs", {}) or {}:
                nested = getattr(config, part, None)
                if nested is not None and name not in own:
                    _set(nested, {**small, **settings})
                    yield nested


def _config(cls: type, settings: Mapping[str, Any]) -> Any:
    """A configuration with those settings that are its own; None where it refuses them."""
    try:
        default: Any = cls()
        known = {k: v for k, v in settings.items() if hasattr(default, k)}
        config: Any = cls(**copy.deepcopy(known))
    except Exception:  # other settings have to do
        return None
    config._attn_implementation = "eager"
    return config


def _set(config: Any, settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        if hasattr(config, name):
            setattr(config, name, value)


def _arguments(cls: type, config: Any) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        if "config" in name:
            given[name] = config
        elif parameter.default is parameter.empty and hasattr(config, name):
            given[name] = getattr(config, name)
        elif name == "layer_idx":
            given[name] = 0
        elif name in ("has_relative_attention_bias", "has_relative_position_bias"):
            given[name] = True
    return given
