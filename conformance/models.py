"""Encodings of whole models, as the command line names them: preset, config.json or GGUF file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from posenc_ref import Encoding, ModelEncoding, from_config, preset, presets
from posenc_ref.presets import needs

from .loading import UsageError
from .surfaces import Declared, of_models


def load_model(source: str, part: str | None = None) -> ModelEncoding:
    """The model that a preset, a ``config.json`` (or its folder) or a ``.gguf`` file names."""
    path = Path(source)
    try:
        if source not in presets() and (path.exists() or path.suffix in (".json", ".gguf")):
            if path.suffix == ".gguf":
                from .adapters.gguf import from_gguf

                return from_gguf(path)
            return from_config(path, part=part)
        return preset(source)
    except (TypeError, ValueError, ImportError) as error:
        raise UsageError(str(error)) from error


def encoding_of(model: ModelEncoding, layer_type: str | None) -> Encoding:
    """The encoding of one layer type; of the only one that there is, if none is named."""
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
    """What a model declares for a surface: itself, one encoding, or that with what scales logits.

    The surface ``scores`` is about the whole of one layer type: its encoding, the softmax scale
    and the query scale.
    """
    if of_models(surface):
        return model
    encoding = encoding_of(model, layer_type)
    if surface != "scores":
        return encoding
    name = layer_type or next(t for t, e in model.encodings.items() if e == encoding)
    scale = {name: model.query_scale[name]} if name in model.query_scale else {}
    return ModelEncoding(
        model.name,
        encodings={name: encoding},
        softmax_scale=model.softmax_scale,
        query_scale=scale,
    )


def preset_list(as_json: bool) -> str:
    """Every preset: its encodings in one line, or what it needs."""
    if as_json:
        rows: list[dict[str, Any]] = [
            {"name": name, "needs": {n.fact: n.why for n in needs(name)}} for name in presets()
        ]
        return json.dumps(rows, indent=1)
    width = max(map(len, presets()))
    lines = [f"{name:<{width}}  {_summary(name)}" for name in presets()]
    incomplete = sum(bool(needs(name)) for name in presets())
    lines += [
        "",
        f"{len(lines)} presets; {incomplete} of them need a fact that nobody could read. "
        "`posenc presets NAME` shows one with the source of every fact.",
    ]
    return "\n".join(lines)


def _summary(name: str) -> str:
    missing = needs(name)
    if missing:
        return "needs " + ", ".join(need.fact for need in missing)
    found = dict.fromkeys(e for e in preset(name).encodings.values() if e is not None)
    return "; ".join(map(repr, found)) or "no positional encoding"


def describe(model: ModelEncoding, as_json: bool) -> str:
    """A model with the source of each of its facts."""
    if as_json:
        return json.dumps(model.to_dict(), indent=1)
    width = max(map(len, model.provenance), default=0)
    sources = [f"  {fact:<{width}}  {of}" for fact, of in model.provenance.items()]
    return "\n".join([str(model), "", "Sources", *sources])
