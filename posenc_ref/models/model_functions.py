"""Functions for model code: table rows, layers with a positional encoding, softmax scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import _validate as validate
from posenc_ref._namespace import Array
from posenc_ref.rotary import Rotary
from posenc_ref.table import Table

from .model_encoding import ModelEncoding


def rows(encoding: Table, seq_len: int) -> Array:
    """Return the table rows of a sequence of tokens, ``table(0 .. seq_len - 1)``.

    Parameters
    ----------
    encoding : Table
        It has one position axis.
    seq_len : int
        The number of tokens.

    Returns
    -------
    array (seq_len, dim)
        The rows of ``encoding.table``: float64, or learned rows in their dtype.

    Raises
    ------
    TypeError, ValueError
        ``encoding`` is not a table, or a learned table has fewer rows than the sequence has tokens.

    Traps
        In a learned table with ``offset=2`` (OPT, BART), position 0 is row 2, so the result starts
        at row 2.
    """
    if not isinstance(encoding, Table):
        raise TypeError(f"encoding must be a table encoding, got {type(encoding).__name__}")
    table: Any = encoding
    count = validate.integer("seq_len", seq_len, minimum=0)
    validate.elements("the rows", (count, table.dim))
    return table.table(np.arange(count))


def layers(model: ModelEncoding, n_layers: int) -> tuple[bool, ...]:
    """Return for each layer whether its attention has a positional encoding.

    Layers without one (NoPE), and layer types without softmax attention, are False.

    Parameters
    ----------
    model : ModelEncoding
    n_layers : int
        The number of layers, which must be the model's.

    Returns
    -------
    tuple of bool, one for each layer

    Traps
        ``no_rope_layers`` of SmolLM3 and Llama 4 holds 1 where a layer *does* rotate
        (huggingface/transformers#43756).

    Raises
    ------
    ValueError
        The model has no ``layer_types``, or ``n_layers`` is not their number.
    """
    _model(model)
    if not model.layer_types:
        raise ValueError(
            f"model must have layer_types, the type of each layer; {model.name} has none"
        )
    n_layers = validate.integer("n_layers", n_layers, minimum=1)
    if n_layers != len(model.layer_types):
        raise ValueError(
            f"n_layers must be {len(model.layer_types)}, the number of layers of {model.name}, got "
            f"{n_layers}"
        )
    return tuple(model.encodings.get(name) is not None for name in model.layer_types)


def softmax_scale(model: ModelEncoding) -> float:
    """Return the factor on q . k: the model's ``softmax_scale``, or 1/sqrt(head_dim).

    Parameters
    ----------
    model : ModelEncoding

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        ``model`` is not a ModelEncoding; or it has no ``softmax_scale``, and it has no rotary
        encoding or rotary encodings that differ in head_dim.

    Traps
        In DeepSeek's models the result includes the square of YaRN's
        ``0.1 mscale_all_dim ln(factor) + 1``.  It does not include a factor on cos and sin.
    """
    _model(model)
    if model.softmax_scale is not None:
        return model.softmax_scale
    sizes = {e.head_dim for e in model.encodings.values() if isinstance(e, Rotary)}
    if len(sizes) != 1:
        raise ValueError(
            "model must have a softmax_scale, or the same head_dim in all layers; "
            f"{model.name} has no softmax_scale, "
            + (f"and heads of {sorted(sizes)} channels" if sizes else "and no rotary encoding")
        )
    return float(sizes.pop() ** -0.5)


def _model(model: Any) -> None:
    if not isinstance(model, ModelEncoding):
        raise TypeError(
            f"model must be a ModelEncoding, as preset() and from_config() give, got "
            f"{type(model).__name__}"
        )
