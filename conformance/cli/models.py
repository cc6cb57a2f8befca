"""Load the encodings of a model from a preset, a config.json or a GGUF file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posenc_ref import Encoding, ModelEncoding, from_config, preset, presets
from posenc_ref.conformance.adapters.gguf import from_gguf
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.conformance.surfaces import Declared
from posenc_ref.models.presets import needs

from .loading import UsageError, unread


def load_model(
    source: str, part: str | None = None, facts: Sequence[str] = (), surface: str | None = None
) -> ModelEncoding:
    """Return the model that a preset, a ``config.json`` (or its folder) or a ``.gguf`` file names.

    ``facts`` are ``NAME=VALUE`` for a preset that requires them; learned tables that ``surface``
    does not use may be omitted.
    """
    path = Path(source)
    given = dict(named_value(text, "--fact") for text in facts)
    try:
        if source not in presets() and (path.exists() or path.suffix in (".json", ".gguf")):
            return from_gguf(path) if path.suffix == ".gguf" else from_config(path, part=part)
        if source in presets():
            lacking = {need.fact for need in needs(source)} - set(given)
            for name, rows in unread(surface).items():
                if name in lacking:
                    given[name] = np.zeros((rows, 1))
        return preset(source, **given)
    except (TypeError, ValueError, ImportError) as error:
        raise UsageError(str(error)) from error


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
