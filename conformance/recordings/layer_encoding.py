"""The rotary encoding that a declaration gives a recorded layer."""

from __future__ import annotations

from typing import Any

from posenc_ref import Encoding, ModelEncoding, Rotary
from posenc_ref.conformance.harness.to_host import on_host
from posenc_ref.conformance.surfaces import Declared

from .roles import Layer


def of_layer(encoding: Declared, layer: Layer, layer_type: str | None) -> Rotary | None:
    """Return the rotary encoding of a layer, or None if the model's layer has no encoding."""
    own: Any
    if isinstance(encoding, ModelEncoding):
        own = _of_model(encoding, layer, layer_type)
        if own is None:
            return None
    else:
        own = encoding
    own = on_host(own)
    if not isinstance(own, Rotary):
        raise ValueError(
            "encoding must be a rotary encoding, because tensors are recorded before and after a "
            f"rotation; got {type(own).__name__}"
        )
    return own


def _of_model(model: ModelEncoding, layer: Layer, layer_type: str | None) -> Encoding | None:
    kinds = {k: e for k, e in model.encodings.items() if e is not None}
    if layer_type is not None:
        if layer_type not in model.encodings:
            listed = ", ".join(model.encodings)
            raise ValueError(f"layer_type must be one of {listed}, got {layer_type!r}")
        return model.encodings[layer_type]
    n = layer.number
    if n is not None and model.layer_types:
        if n >= len(model.layer_types):
            raise ValueError(
                f"layer {n} is past the last layer of {model.name}, which has "
                f"{len(model.layer_types)} layers counted from 0"
            )
        return model.encodings.get(model.layer_types[n])
    if len(set(kinds.values())) == 1:
        return next(iter(kinds.values()))
    raise ValueError(
        f"{model.name} has several encodings, and the names of the tensors give no layer number: "
        f"say the layer type, one of {', '.join(kinds)} (--layer-type)"
    )
