"""Load the encodings of a model from a preset, a config.json or a GGUF file."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posenc_ref import Attention, Encoding, ModelEncoding, RoPE, from_dict, preset, presets
from posenc_ref._documents import parse_json, read_text
from posenc_ref._text import shown
from posenc_ref.conformance.adapters.gguf import described_gguf
from posenc_ref.conformance.harness.expression import read_expression
from posenc_ref.conformance.harness.implementation import rotated_channels
from posenc_ref.conformance.harness.nearest import did_you_mean
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.conformance.recordings.numpy_files import read_npy
from posenc_ref.conformance.surfaces import Declared
from posenc_ref.models.config import described_config
from posenc_ref.models.context import Described
from posenc_ref.models.presets import changed, described_preset, needs, resolve

from .loading import UsageError, unread

#: The help of the option ``--part``.
PART = (
    'The part of a model: "rope", the rotated channels alone (64 of DeepSeek\'s 192), "vision", '
    "the vision tower, or another part of a composite config.json."
)
#: The surface on which every learned table may be omitted: only configurations are read.
LEARNED = "configuration"
#: An example of ``--override``, as vLLM's ``--hf-overrides`` has it.
OVERRIDE = '\'{"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}\''


def load_model(
    source: str,
    part: str | None = None,
    facts: Sequence[str] = (),
    surface: str | None = None,
    override: str | None = None,
) -> ModelEncoding:
    """Return the model that a preset, a name on the Hub, a configuration or a GGUF file names.

    A configuration is a ``config.json`` or its folder. ``part`` is "rope", the rotated channels
    alone, or a part of a composite model: "vision", "text_config". ``facts`` are ``NAME=VALUE``:
    values that a preset requires, or other values for fields of the encodings. Learned tables that
    ``surface`` does not use may be omitted. ``override`` is JSON, or ``@file.json``, with entries
    that replace those of the configuration.
    """
    return load_described(source, part, facts, surface, override).model


def load_described(
    source: str,
    part: str | None = None,
    facts: Sequence[str] = (),
    surface: str | None = None,
    override: str | None = None,
) -> Described:
    """Return the model as :func:`load_model` does, with the lengths beside its encoding."""
    given = dict(named_value(text, "--fact") for text in facts)
    changes = None if override is None else _override(override)
    try:
        found = _read(source, None if part == _SLICE else part, given, surface, changes)
        return found._replace(model=_slice(found.model)) if part == _SLICE else found
    except (TypeError, ValueError, ImportError) as error:
        raise UsageError(str(error)) from error


#: The part that has only the rotated channels of each head.
_SLICE = "rope"


def _read(
    source: str,
    part: str | None,
    facts: dict[str, Any],
    surface: str | None,
    changes: Mapping[str, Any] | None,
) -> Described:
    """Return a model with the given facts and changed entries."""
    path, name = Path(source), resolve(source)
    local = os.path.exists(path) or path.suffix in (".json", ".gguf")
    if local and (name not in presets() or "/" in source):
        layout = facts.pop("layout", None)
        if path.suffix == ".gguf":
            if part is not None:
                raise UsageError(f"--part must be {_SLICE} for a .gguf file, got {part!r}")
            found = described_gguf(path, layout=layout, override=changes)
        else:
            found = described_config(
                path, part=part, layout=layout, override=changes, learned=surface == LEARNED
            )
        return found._replace(model=changed(found.model, facts))
    if part is not None:
        parts = [p.removeprefix(f"{name}-") for p in presets() if p == f"{name}-vision"]
        if part.removesuffix("_config") not in parts:
            raise UsageError(
                f"--part of the preset {name} must be {' or '.join([_SLICE, *parts])}, got "
                f"{part!r}; --config reads any part of a config.json"
            )
        name = f"{name}-{part.removesuffix('_config')}"
    if name in presets():
        lacking = {need.fact for need in needs(name)} - set(facts)
        facts |= {
            field: np.zeros((rows, 1))
            for field, rows in unread(surface).items()
            if field in lacking
        }
    return described_preset(name if part else source, override=changes, **facts)


def _slice(model: ModelEncoding) -> ModelEncoding:
    """Return the model with the rotated channels alone, and the softmax scale of the whole head."""
    scale, cut = model.softmax_scale, dict(model.encodings)
    for layer_type, encoding in model.encodings.items():
        if not isinstance(encoding, RoPE | None):
            raise UsageError(
                f"--part {_SLICE} is for models with RoPE, {model.name} has {encoding!r}"
            )
        if encoding is not None:
            cut[layer_type] = rotated_channels(encoding)
            scale = scale or encoding.own_scale(encoding.head_dim)
    return model.replace(encodings=cut, softmax_scale=scale)


def refuse_idle(before: Described, after: Described, source: str, option: str) -> None:
    """Raise unless an override changes the encoding, the length or a window of a model."""

    def facts(of: Described) -> tuple[Any, ...]:
        model = of.model
        scales = (model.softmax_scale, dict(model.query_scale))
        return dict(model.encodings), model.layer_types, scales, of.length, dict(of.windows)

    if facts(before) == facts(after):
        raise UsageError(
            f"{option} changes neither the encoding nor the length of {source}: does it repeat "
            "what is there, or do its entries belong into a part such as text_config?"
        )


def _override(text: str) -> Mapping[str, Any]:
    """Return the JSON object of ``--override``: text, or ``@file.json``."""
    where = "--override"
    try:
        if text.startswith("@"):
            where, text = f"--override: {text[1:]}", read_text(Path(text[1:]))
    except ValueError as error:
        raise UsageError(f"--override: {error}") from error
    try:
        changes = parse_json(text, where)
    except ValueError as error:
        raise UsageError(f"{error}; write it like {OVERRIDE}") from error
    if not isinstance(changes, dict) or not changes:
        got = (
            shown(changes) if where == "--override" else f"a value of type {type(changes).__name__}"
        )
        raise UsageError(f"{where} must be a JSON object such as {OVERRIDE}, got {got}")
    return changes


def require_one_declaration(*given: str | None, optional: bool) -> None:
    """Raise UsageError unless one of --encoding, --preset and --config is given, or optional."""
    said = [value for value in given if value is not None]
    if len(said) > 1:
        raise UsageError("give one of --encoding, --preset and --config")
    if not said and not optional:
        raise UsageError(
            "the expected encoding is missing: give --encoding 'RoPE(64, layout=\"half\")', "
            "--preset llama-3.1-8b or --config config.json; "
            "`posenc explain` lists the encodings, `posenc presets` the models"
        )


def named_value(text: str, option: str) -> tuple[str, Any]:
    """Return the name and value of ``NAME=VALUE``.

    A value is JSON, ``@file.npy``, a tuple, a scaling such as ``YaRN(4.0, 32768)``, or a word.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"{option} must be NAME=VALUE, such as num_heads=12, got {text!r}")
    if value.startswith("@"):
        try:
            return name, read_npy(Path(value[1:]))
        except ValueError as error:
            raise UsageError(f"{option} {name}: {error}") from error
    try:
        if re.fullmatch(r"\([\d\s.,-]*,[\d\s.,-]*\)", value):
            return name, ast.literal_eval(value)
        if "(" in value:
            return name, from_dict(read_expression(value))
        found = json.loads(value)
    except (json.JSONDecodeError, RecursionError):
        return name, value
    except (TypeError, ValueError, SyntaxError) as error:
        raise UsageError(f"{option} {name}: {error}") from error
    return name, from_dict(found) if isinstance(found, dict) else found


def encoding_of(model: ModelEncoding, layer_type: str | None) -> Encoding:
    """Return the encoding of a layer type, or the only encoding if no layer type is given."""
    if layer_type is not None and layer_type not in model.encodings:
        listed, near = ", ".join(model.encodings), did_you_mean(layer_type, model.encodings)
        raise UsageError(f"--layer-type must be one of {listed}, got {layer_type!r}{near}")
    try:
        found = model.only if layer_type is None else model.encodings[layer_type]
    except ValueError as error:
        if len([e for e in model.encodings.values() if e is not None]) > 1:
            listed = ", ".join(t for t, e in model.encodings.items() if e is not None)
            raise UsageError(
                f"{model.name} has several encodings: pass --layer-type, one of {listed}"
            ) from error
        raise UsageError(str(error)) from error
    if found is None:
        raise UsageError(f"layers of type {layer_type!r} in {model.name} have no encoding")
    return found


def layer_types(model: ModelEncoding, layer_type: str | None) -> dict[str, Encoding]:
    """Return the encodings of a model's layer types, or of one; {} if all layers have the same."""
    every = {t: e for t, e in model.encodings.items() if e is not None}
    return every if layer_type is None and len(set(every.values())) > 1 else {}


def declared_by(model: ModelEncoding, surface: str, layer_type: str | None) -> Declared:
    """Return the encoding of a layer type, or a :class:`ModelEncoding` for surfaces of models.

    For ``scores``, the result has only this layer type, with its softmax and query scales; for
    ``attention``, it is the :class:`Attention` of this layer type.
    """
    if surface in SURFACES and SURFACES[surface].families == ("model",):
        return model
    encoding = encoding_of(model, layer_type)
    name = layer_type or next(t for t, e in model.encodings.items() if e == encoding)
    if surface == "attention":
        try:
            return model.attention(name)
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error
    if surface != "scores":
        return encoding
    scale = {name: model.query_scale[name]} if name in model.query_scale else {}
    return ModelEncoding(
        model.name, encodings={name: encoding}, softmax_scale=model.softmax_scale, query_scale=scale
    )


def require_model(**options: Any) -> None:
    """Raise for an option that is given although no model is."""
    for name, value in options.items():
        if value:
            raise UsageError(f"--{name.replace('_', '-')} needs --preset or --config")


def other_layer_types(
    model: ModelEncoding, surface: str, declared: Declared
) -> dict[str, Declared]:
    """Return the declarations of the layer types that have another encoding than ``declared``."""
    if declared is model:
        return {}
    found = {t: declared_by(model, surface, t) for t, e in model.encodings.items() if e is not None}
    own: Any = declared.only if isinstance(declared, ModelEncoding) else declared
    own = own.encoding if isinstance(own, Attention) else own
    return {t: other for t, other in found.items() if model.encodings[t] != own}


def preset_list(as_json: bool) -> str:
    """Return a line for each preset: its encodings, or the facts that it requires."""
    if as_json:
        facts = {name: {need.fact: need.why for need in needs(name)} for name in presets()}
        return json.dumps([{"name": n, "needs": needed} for n, needed in facts.items()], indent=1)
    width = max(map(len, presets()))
    lines = [f"{name:<{width}}  {_summary(name)}" for name in presets()]
    incomplete = sum(bool(needs(name)) for name in presets())
    lines += [
        "",
        f"{len(lines)} presets; {incomplete} of them require a value that no public source "
        "states. `posenc presets NAME` shows one with the source of every value.",
    ]
    return "\n".join(lines)


def _summary(name: str) -> str:
    missing = needs(name)
    if missing:
        return "needs " + ", ".join(need.fact for need in missing)
    found = dict.fromkeys(e for e in preset(name).encodings.values() if e is not None)
    return "; ".join(map(repr, found)) or "no positional encoding"


def describe(model: ModelEncoding, as_json: bool) -> str:
    """Return a model as text, with the source of each fact."""
    if as_json:
        return json.dumps(model.to_dict(), indent=1)
    width = max(map(len, model.provenance), default=0)
    sources = [f"  {fact:<{width}}  {of}" for fact, of in model.provenance.items()]
    return "\n".join([str(model), "", "Sources", *sources])
