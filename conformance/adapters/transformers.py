"""Judge any positional module of Hugging Face `transformers` with one line.

    check(from_transformers(LlamaRotaryEmbedding(config), layout="half"))
    identify(from_transformers(model))

No model has special code: the adapter finds out how to call a module from its signature, its
modeling file and trial calls.
"""

from __future__ import annotations

import copy
import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import posenc_ref
from posenc_ref.conformance.calling.roles import parameters
from posenc_ref.conformance.calling.rotations import Rotation
from posenc_ref.conformance.calling.tables import Source
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.nearest import did_you_mean

from .rotary_search import find_direct, find_rotation, ranked, rotating_functions
from .rotary_table import find_table, module_of, of_module
from .transformers_bias import alibi, alibi_of_model, relative_bias
from .transformers_config import attribute, declared_rope, head_dim_of
from .transformers_table import position_table

# Functions that attention applies to vectors before rotating them; no signature shows these.
BEFORE = {"Qwen2_5OmniDiTRotaryEmbedding": "deinterleave_head_dim"}
ROTARY_SURFACES = ("apply", "apply_qk", "cos_sin", "frequencies")


def from_transformers(
    target: Any,
    *,
    surface: str | None = None,
    layout: str | None = None,
    layer_type: str | None = None,
    num_heads: int | None = None,
    encoding: posenc_ref.Encoding | None = None,
) -> Implementation:
    """Return a positional module, or the one inside a model, as an `Implementation`.

    Parameters
    ----------
    target
        A rotary, sinusoidal or learned position module, an attention module with relative biases,
        a model that contains one of them, or a function that builds ALiBi biases.
    surface
        The surface; by default `apply` for rotary modules, `bias` for biases, else `table`.
    layout
        The channel layout ("half" or "interleaved"), which no configuration states. With it, the
        expected encoding of a rotary module is read from the configuration.
    layer_type
        The layer type, for a module with one table per layer type; by default the first.
    num_heads
        The number of heads, for ALiBi builders without a configuration.
    encoding
        The expected encoding; by default the one that the configuration declares, or None.

    Raises
    ------
    ValueError
        If no way to call the module was found; the message lists the attempts.
    """
    if not hasattr(target, "modules"):
        if not callable(target):
            raise ValueError(f"{target!r} is neither a torch module nor a function")
        return alibi(target, None, surface or "bias", num_heads, encoding)
    if surface is None or surface in ROTARY_SURFACES:
        modules = rotary_modules(target)
        if len(modules) > 1:
            names = ", ".join(type(module).__name__ for module in modules)
            raise ValueError(
                f"{type(target).__name__} has several rotary modules: pass one ({names})"
            )
        if modules:
            return rotary(modules[0], target, surface or "apply", layout, layer_type, encoding)
        for module in target.modules() if surface in (None, "apply") else ():
            config = getattr(module, "config", None) or getattr(target, "config", None)
            if (direct := find_direct(module, config)) is not None:
                name = f"transformers {type(module).__name__}"
                rotation, head_dim = direct
                return Implementation(
                    rotation,
                    "apply",
                    name,
                    encoding,
                    backend="torch",
                    head_dim=head_dim,
                    axes=rotation.axes,
                )
    for kind in (relative_bias, alibi_of_model, position_table):
        found = kind(target, surface, num_heads, encoding)
        if found is not None:
            return found
    raise ValueError(
        f"nothing in {type(target).__name__} gives {surface or 'apply, bias or table'}: looked for "
        "rotary modules, relative position buckets, functions named build*alibi* in its file, and "
        "embeddings named after positions"
    )


def rotary_modules(target: Any) -> list[Any]:
    """Return the rotary modules inside `target`, one of each class."""
    found: dict[type, Any] = {}
    for module in target.modules():
        table = getattr(module, "embed_positions", None)
        if _is_rotary(module):
            found.setdefault(type(module), module)
        elif table is not None and rotating_functions(sys.modules[type(module).__module__]):
            holder = table if callable(table) else module  # RoFormer, GPT-J
            found.setdefault(type(holder), holder)
    return list(found.values())


def _is_rotary(module: Any) -> bool:
    """Return whether a module has a rotary name, or the parameter `points` of LightGlue."""
    name = type(module).__name__
    named = bool(re.search("Rotary|RoPE|Rope", name)) and "Atten" not in name
    return named or list(parameters(module.forward))[:1] == ["points"]


def rotary(
    module: Any,
    target: Any,
    surface: str,
    layout: str | None,
    layer_type: str | None,
    encoding: posenc_ref.Encoding | None,
) -> Implementation:
    """Return a rotary module as an `Implementation`."""
    pristine = copy.deepcopy(module)  # before any call, because modules cache results
    config = getattr(module, "config", None) or getattr(target, "config", None)
    file = sys.modules[type(module).__module__]
    tried = _layer_types(module, config, layer_type)
    try:
        source, kind = find_table(copy.deepcopy(module), tried)
    except ValueError as error:
        if tried != (None,) or _LAYER_TYPE not in inspect.signature(module.forward).parameters:
            raise
        raise ValueError(
            f"{type(module).__name__} has a table for each layer type, and neither it nor a "
            "configuration lists them: pass layer_type="
        ) from error
    name = f"transformers {type(module).__name__}"
    if kind is not None:
        name += f" ({kind})"
    rotation, head_dim = None, head_dim_of(config)
    if surface in ("apply", "apply_qk"):
        functions = ranked(module, file, config, target)
        rotation, head_dim = find_rotation(source, functions, config)
    if encoding is None and layout is not None and config is None:
        raise ValueError(
            f"layout={layout!r} declares the encoding of a configuration, but neither "
            f"{type(module).__name__} nor {type(target).__name__} has one: pass "
            "encoding=RoPE(...), or leave out layout to judge properties alone"
        )
    if encoding is None and layout is not None and head_dim is not None:
        encoding = declared_rope(config, layout, head_dim, kind)

    def build(instance: Any) -> Implementation:
        return Implementation(
            _call(of_module(source, instance), rotation, surface, kind),
            surface,
            name,
            encoding,
            backend="torch",
            tensor_layout=rotation.layout if rotation else "bhsd",
            head_dim=head_dim,
            num_heads=attribute(config, "num_attention_heads"),
            axes=source.axes,
            factory=lambda: build(copy.deepcopy(pristine)),
        )

    return build(module)


def _call(
    source: Source, rotation: Rotation | None, surface: str, layer_type: str | None
) -> Callable[..., Any]:
    import torch

    module = module_of(source)
    if rotation is not None:
        rotate = replace(rotation, source=source)
        call = rotate if surface == "apply" else rotate.both
        before = BEFORE.get(type(module).__name__)
        file = sys.modules[type(module).__module__]
        return call if before is None else _after(getattr(file, before), call)
    if surface == "cos_sin":
        return lambda positions: source.cos_sin_at(torch.zeros(1, 1, len(positions), 2), positions)
    if _frequencies(module, layer_type) is None:
        raise ValueError(f"{type(module).__name__} keeps no frequencies, only a table")

    def frequencies(seq_len: int | None = None) -> Any:
        if seq_len is not None:  # a call updates frequencies that depend on the length
            source.rows(torch.zeros(1, 1, 1, 2), torch.tensor([seq_len - 1]))
        return _frequencies(module, layer_type)

    return frequencies


def _after(before: Callable[[Any], Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """Return `call` on vectors to which `before` is applied; positions follow the vectors."""

    def rotated(*args: Any) -> Any:
        vectors = len(args) // 2
        return call(*map(before, args[:vectors]), *args[vectors:])

    return rotated


def _frequencies(module: Any, layer_type: str | None) -> Any:
    name = "inv_freq" if layer_type is None else f"{layer_type}_inv_freq"
    return getattr(module, name, getattr(module, "inv_freq", None))


def _layer_types(module: Any, config: Any, chosen: str | None) -> tuple[str | None, ...]:
    """Return the layer types to try: the chosen one, or all layer types of the module."""
    kinds, name = layer_types(module, config), type(module).__name__
    if chosen is None:
        return (None,) if kinds == ("",) else (*kinds, None)
    if _LAYER_TYPE not in inspect.signature(module.forward).parameters:
        raise ValueError(
            f"{name} has one table for all layer types: leave out layer_type={chosen!r}"
        )
    if kinds != ("",) and chosen not in kinds:
        near = did_you_mean(chosen, kinds)
        raise ValueError(
            f"layer_type must be one of {name}'s, {', '.join(kinds)}; got {chosen!r}{near}"
        )
    return (chosen,)


#: The parameter of modules with a table for each layer type.
_LAYER_TYPE = "layer_type"


def layer_types(module: Any, config: Any) -> tuple[str, ...]:
    """Return the layer types with their own table; ("",) if all share one table."""
    if _LAYER_TYPE not in inspect.signature(module.forward).parameters:
        return ("",)
    kinds = getattr(module, "rope_type", None)
    if not isinstance(kinds, dict) or not kinds:
        kinds = getattr(module, "layer_types", None) or attribute(config, "layer_types") or ()
    return tuple(dict.fromkeys(kinds)) or ("",)
