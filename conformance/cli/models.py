"""Load the encodings of a model from a preset, a config.json or a GGUF file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posenc_ref import Encoding, ModelEncoding, preset, presets
from posenc_ref.conformance.adapters.gguf import described_gguf
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.conformance.surfaces import Declared
from posenc_ref.models.config import described_config
from posenc_ref.models.context import Described
from posenc_ref.models.presets import described_preset, needs, resolve

from .loading import UsageError, unread

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

    A configuration is a ``config.json`` or its folder.  ``facts`` are ``NAME=VALUE`` for a preset
    that requires them; learned tables that ``surface`` does not use may be omitted. ``override``
    is JSON, or ``@file.json``, with entries that replace those of the configuration.
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
    path, known = Path(source), resolve(source)
    given = dict(named_value(text, "--fact") for text in facts)
    changes = None if override is None else _override(override)
    try:
        local = path.exists() or path.suffix in (".json", ".gguf")
        if local and (known not in presets() or "/" in source):
            if path.suffix == ".gguf":
                return described_gguf(path, override=changes)
            return described_config(path, part=part, override=changes, learned=surface == LEARNED)
        if known in presets():
            lacking = {need.fact for need in needs(known)} - set(given)
            for name, rows in unread(surface).items():
                if name in lacking:
                    given[name] = np.zeros((rows, 1))
        return described_preset(source, override=changes, **given)
    except (TypeError, ValueError, ImportError) as error:
        raise UsageError(str(error)) from error


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
            where, text = f"--override: {text[1:]}", Path(text[1:]).read_text(encoding="utf-8")
        changes = json.loads(text)
    except OSError as error:
        raise UsageError(f"{where} cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise UsageError(f"{where} is not JSON: {error}; write it like {OVERRIDE}") from error
    if not isinstance(changes, dict) or not changes:
        raise UsageError(f"{where} must be a JSON object such as {OVERRIDE}, got {changes!r}")
    return changes


def named_value(text: str, option: str) -> tuple[str, Any]:
    """Return the name and value of ``NAME=VALUE``; a value is JSON, ``@file.npy`` or a word."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"{option} must be NAME=VALUE, such as num_heads=12, got {text!r}")
    if value.startswith("@"):
        try:
            return name, np.load(value[1:], allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"{option} {name}: {value[1:]} is no .npy file: {error}") from error
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def encoding_of(model: ModelEncoding, layer_type: str | None) -> Encoding:
    """Return the encoding of a layer type, or the only encoding if no layer type is given."""
    if layer_type is not None and layer_type not in model.encodings:
        listed = ", ".join(model.encodings)
        raise UsageError(f"--layer-type must be one of {listed}, got {layer_type!r}")
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

    For ``scores``, the result has only this layer type, with its softmax and query scales.
    """
    if surface in SURFACES and SURFACES[surface].families == ("model",):
        return model
    encoding = encoding_of(model, layer_type)
    if surface != "scores":
        return encoding
    name = layer_type or next(t for t, e in model.encodings.items() if e == encoding)
    scale = {name: model.query_scale[name]} if name in model.query_scale else {}
    return ModelEncoding(
        model.name, encodings={name: encoding}, softmax_scale=model.softmax_scale, query_scale=scale
    )


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
