"""Which encodings can be declared for each surface, that is, each way of calling a function."""

from __future__ import annotations

from collections.abc import Sequence

from posenc_ref import (
    ALiBi,
    Attention,
    ConViTBias,
    ConvPositions,
    Learned,
    ModelEncoding,
    PositionRule,
    PRoPE,
    RoPE,
    Rotary,
    T5Bias,
    Table,
    XPos,
    softmax_scale,
)
from posenc_ref.rotary_score import RotaryScore

from .functions.heads import by_head
from .harness.implementation import Declared
from .harness.signatures import SURFACES
from .oracle.attention import attention_of, whole_tokens

__all__ = ["WORDS", "Declared", "families_of", "refuse"]


#: The declarations of each family, in words.
WORDS = {
    "none": "functions without an encoding",
    "rope": "RoPE encodings",
    "rotary": "rotary encodings",
    "heads": "encodings with a map for each head",
    "table": "table encodings",
    "padded table": "Learned tables with padding_idx",
    "bias": "bias encodings",
    "score": "score encodings",
    "alibi": "ALiBi",
    "t5": "T5Bias",
    "model": "whole models (a ModelEncoding, as preset() and from_config() give)",
    "attention": "attention layers (an Attention, as ModelEncoding.attention() gives)",
    "convolution": "convolutional positions of a sequence (ConvPositions)",
    "convolution grid": "convolutional positions of a grid (ConvPositions)",
    "positions": "rules of position ids (such as MRoPEPositions, as mrope_rule() gives)",
}


def families_of(declared: Declared) -> tuple[str, ...]:
    """Return the families that a declaration belongs to, the general one first."""
    if declared is None:
        return ("none",)
    if isinstance(declared, ModelEncoding):
        return ("model",)
    if isinstance(declared, Attention):
        return ("attention",)
    if isinstance(declared, PositionRule):
        return ("positions",)
    if isinstance(declared, ConvPositions):
        return ("convolution" if declared.num_axes == 1 else "convolution grid",)
    found = [declared.family]
    if by_head(declared):  # surfaces of rotary encodings take one rotation for all heads
        found = [*(name for name in found if name != "rotary"), "heads"]
    if isinstance(declared, ALiBi):
        found.append("alibi")
    if isinstance(declared, T5Bias):
        found.append("t5")
    if isinstance(declared, RoPE):
        found.append("rope")
    if isinstance(declared, Learned) and declared.padding_idx is not None:
        found.append("padded table")
    return tuple(found)


def refuse(surface: str, declared: Declared) -> None:
    """Raise a ValueError if the declaration does not fit the surface."""
    families = SURFACES[surface].families
    if declared is not None and not set(families) & set(families_of(declared)):
        hint = ""
        if isinstance(declared, ModelEncoding):
            hint = f"; pass model.only or model.encodings[name] for name in {[*declared.encodings]}"
        elif by_head(declared):
            hint = " with a map for each head; judge it on surface 'apply'"
        elif isinstance(declared, RotaryScore) and "rotary" in families:
            hint = (
                ": queries have another position for each kind of key; judge the logits on surface "
                "'scores', or the rotation alone against its rope"
            )
        elif surface == "grid":
            hint = "; pass a table with one axis (patches, row by row) or two (row and column)"
        else:
            own = [n for n, s in SURFACES.items() if set(s.families) & set(families_of(declared))]
            hint = f"; judge it on {' or '.join(map(repr, own))}" if own else ""
        raise ValueError(
            f"surface {surface!r} is for {_listed(families)}, got {type(declared).__name__}{hint}"
        )
    if isinstance(declared, ModelEncoding):
        _refuse_model(surface, declared)
    if surface == "attention" and declared is not None:
        _refuse_attention(declared)
    if isinstance(declared, Table):
        if surface == "grid":
            declared.grid_positions(1, 1)  # raises where a table has no grid
        elif declared.num_axes > 1 and surface in ("add", "rows", "scores"):
            raise ValueError(
                f"surface {surface!r} numbers tokens 0, 1, 2, ..., but {type(declared).__name__} "
                f"has {declared.num_axes} axes of positions; judge it on surface 'grid' or 'table'"
            )
    if isinstance(declared, ConViTBias) and surface == "scores":
        raise ValueError(
            "ConViTBias has no scores: its attention blends two softmaxes, of q . k and of the "
            "bias; judge its positional logits on surface 'bias'"
        )
    if isinstance(declared, XPos) and SURFACES[surface].one_map:
        raise ValueError(
            f"surface {surface!r} treats queries and keys alike, but XPos scales them differently; "
            "judge both on surface 'apply_qk'"
        )
    shifts = surface in ("shift_keys", "evict_keys")
    if shifts and isinstance(declared, Rotary) and declared.depends_on_length:
        raise ValueError(
            f"surface {surface!r} requires frequencies that do not depend on the length, got "
            f"{type(declared).__name__}; re-rotate the raw "
            "keys instead (surface 'key_cache')"
        )


def _refuse_attention(declared: Declared) -> None:
    """Raise a TypeError or ValueError if attention cannot be judged by the declaration."""
    of = attention_of(declared)
    if isinstance(of.encoding, PRoPE):
        raise ValueError(
            "surface 'attention' does not judge PRoPE, whose values and output are multiplied by "
            "matrices of the cameras; judge the logits on surface 'scores', and compare the output "
            "with apply_keys and apply_output (docs/cameras.md)"
        )
    if whole_tokens(of.encoding) is not None and of.causal:
        raise ValueError(
            f"surface 'attention' needs Attention({type(of.encoding).__name__}(...), causal=False)"
            ": the encoding is for whole windows or images, whose tokens see each other"
        )


def _refuse_model(surface: str, model: ModelEncoding) -> None:
    """Raise a ValueError if a model does not state what the surface needs."""
    if surface == "layers" and not model.layer_types:
        raise ValueError(
            "surface 'layers' is for models with layer_types, the type of each layer; "
            f"{model.name} has none: it states the types ({', '.join(model.encodings)}), not which "
            "layer has which. Pass from_config(...) of the model's own config.json, which has "
            "num_hidden_layers and, if layers differ, layer_types or no_rope_layers"
        )
    if surface == "softmax_scale":
        softmax_scale(model)  # raises if the model has none
    if surface == "scores" and any(e is not None for e in model.encodings.values()):
        model.only  # noqa: B018  (raises if layers of different types have different encodings)


def _listed(families: Sequence[str]) -> str:
    return " and ".join(WORDS[name] for name in families if name != "heads")
