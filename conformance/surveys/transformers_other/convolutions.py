"""Positions from convolutions: wav2vec 2.0 and the models that copy its module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import ConvPositions
from posenc_ref.conformance.harness.implementation import Implementation

from .build import build
from .census import Place

#: Few channels; an even and an odd kernel, which are padded differently.
SETTINGS = {"hidden_size": 24, "num_conv_pos_embedding_groups": 4, "conv_pos_kernel_size": 7}
KERNELS = (8, 5)
#: The activations of the modules, by class.
ACTIVATIONS = {"GELUActivation": "gelu", "SiLUActivation": "silu", "SiLU": "silu"}
#: Classes that get x as (B, C, S).
_CHANNELS_FIRST = ("SEWPositionalConvEmbedding", "SEWDPositionalConvEmbedding")


def subjects(place: Place) -> Iterator[tuple[Implementation, Any]]:
    """The module with an even and with an odd kernel; data2vec has layers in place of kernels."""
    for count in KERNELS:
        module, config = build(place, {**SETTINGS, "num_conv_pos_embeddings": count})
        if hasattr(module, "layers"):
            yield _implementation(place, module, "convolve"), layered(module, config)
            return
        found = _implementation(place, module, f"convolve, kernel {count}")
        yield found, convolution(module, config)


def convolution(module: Any, config: Any) -> ConvPositions:
    """Return wav2vec 2.0's layer with weight norm."""
    parts = module.conv.parametrizations.weight
    return ConvPositions(
        (_numbers(parts.original1),),
        (_numbers(module.conv.bias),),
        (_numbers(parts.original0).ravel(),),
        groups=config.num_conv_pos_embedding_groups,
        stride=int(module.conv.stride[0]),
        activation=ACTIVATIONS[type(module.activation).__name__],
    )


def layered(module: Any, config: Any) -> ConvPositions:
    """Return the layers of data2vec-audio."""
    return ConvPositions(
        tuple(_numbers(layer.conv.weight) for layer in module.layers),
        tuple(_numbers(layer.conv.bias) for layer in module.layers),
        groups=config.num_conv_pos_embedding_groups,
        layer_norm=True,
    )


def _implementation(place: Place, module: Any, surface: str) -> Implementation:
    import torch

    turned = place.owner in _CHANNELS_FIRST

    def convolve(x: np.ndarray) -> np.ndarray:
        tokens = torch.tensor(x)
        with torch.no_grad():
            found = module(tokens.transpose(1, 2)).transpose(1, 2) if turned else module(tokens)
        return np.asarray(found.numpy())

    return Implementation(call=convolve, surface=surface, name=place.name)


def _numbers(parameter: Any) -> np.ndarray:
    return np.asarray(parameter.detach().numpy())
