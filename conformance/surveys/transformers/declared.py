"""Read the encoding of a rotary module from its configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from posenc_ref import Encoding, MixedRoPE, ModelEncoding, MultiAxisRoPE, RoPE, from_config
from posenc_ref.conformance.adapters.rotary_table import SIDE, module_of, on_grid
from posenc_ref.conformance.adapters.transformers_config import rotated_part
from posenc_ref.conformance.calling.rotations import Rotation
from posenc_ref.conformance.harness.implementation import Implementation

from .case import Unjudged
from .census import Target

#: Configuration classes without a model_type, each with the model_type to read it as.
READ_AS = {"Qwen3OmniMoeCode2WavConfig": "llama", "SaProtConfig": "esm"}
#: The layer type for each name of a table that is no layer type.
LABELS = {"main": "sliding_attention", "compress": "compressed_sparse_attention"}


def model_of(config: Any) -> ModelEncoding:
    """Return the encodings that ``from_config`` reads from a configuration."""
    data = config.to_dict()
    name = READ_AS.get(type(config).__name__)
    return from_config(data if name is None else {**data, "model_type": name})


def declared(
    implementation: Implementation, target: Target, config: Any, layer_type: str
) -> tuple[Implementation, Encoding]:
    """Return the implementation and the encoding that ``config`` declares for it.

    Raises :class:`Unjudged` if no encoding of ``posenc_ref`` describes it.
    """
    other = OTHERS.get(type(config).__name__)
    if other is not None:
        return implementation, other(config, implementation)
    try:
        model = model_of(config)
        name = layer_type if layer_type in model.encodings else LABELS.get(layer_type, layer_type)
        found: Encoding | None = model.encodings[name] if name else model.only
    except Exception as error:  # from_config must not fail
        raise Unjudged("gap", f"from_config: {type(error).__name__}: {error}") from error
    if found is None:
        kind = layer_type or "any"
        raise Unjudged("gap", f"from_config: layers of type {kind} have no encoding")
    if isinstance(found, MultiAxisRoPE):
        return _on_a_grid(implementation, found, model)
    if isinstance(found, RoPE) and not target.scaled:
        found = found.replace(scaling=None)
    return implementation, rotated_part(found, implementation.head_dim)


def _on_a_grid(
    implementation: Implementation, encoding: MultiAxisRoPE, model: ModelEncoding
) -> tuple[Implementation, Encoding]:
    """Adapt implementation and encoding to positions that are rows and columns of patches."""
    rotation = implementation.call
    source = rotation.source if isinstance(rotation, Rotation) else None
    if source is None or not on_grid(source):
        return implementation, encoding
    axes = model.provenance.get("axes", "")
    if "in [-1, 1]" in axes:  # the centre of patch i of n is (2 i + 1 - n) / n
        assert isinstance(encoding.position_scale, float)
        scale = encoding.position_scale * 2 / SIDE
        encoding = encoding.replace(position_scale=scale, offset=(1 - SIDE) / 2)
    if "(x, y" not in axes:
        return implementation, encoding
    turned = replace(implementation, call=lambda x, positions: rotation(x, positions.flip(0)))
    return turned, encoding


def _vjepa2(config: Any, _: Implementation) -> Encoding:
    """Return a RoPE of three axes with equal numbers of pairs; other channels are not rotated.

    Source: transformers 5.23, ``VJEPA2RopeAttention``; facebookresearch/vjepa2,
    ``src/models/utils/modules.py``.
    """
    head_dim = config.hidden_size // config.num_attention_heads
    pairs = head_dim // 3 // 2
    return MultiAxisRoPE(head_dim, sections=(pairs,) * 3, layout="interleaved", spacing="restart")


def _esmfold2(config: Any, _: Implementation) -> Encoding:
    """Return a RoPE of four axes: three coordinates with one base, residue number with another.

    Source: transformers 5.23, ``EsmFold2RotaryEmbedding``: exponents i/n within each axis.
    """
    space, number = config.num_spatial_rope_pairs_per_axis, config.num_uid_rope_pairs
    return MultiAxisRoPE(
        config.head_dim,
        sections=(space, space, space, number),
        layout="half",
        spacing="restart",
        base=(config.spatial_rope_base_frequency,) * 3 + (config.uid_rope_base_frequency,),
    )


def _lightglue(_: Any, implementation: Implementation) -> Encoding:
    """Return a learned linear map from keypoints to angles, with the module's weights.

    Source: transformers 5.23, ``LightGluePositionalEncoder``; cvg/LightGlue,
    ``LearnableFourierPositionalEncoding``.
    """
    rotation = implementation.call
    assert isinstance(rotation, Rotation)
    assert rotation.source is not None
    weight = module_of(rotation.source).projector.weight
    return MixedRoPE(
        2 * weight.shape[0], weight.detach().numpy().T.astype(float), layout="interleaved"
    )


#: Configurations that ``from_config`` does not read, each with a function that does.
OTHERS: dict[str, Callable[[Any, Implementation], Encoding]] = {
    "EsmFold2AtomEncoderConfig": _esmfold2,
    "LightGlueConfig": _lightglue,
    "VJEPA2Config": _vjepa2,
}
