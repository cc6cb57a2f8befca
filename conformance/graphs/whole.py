"""Call a whole ONNX model that computes tables or a bias from positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref.conformance.adapters.onnx import open_session

from .binding import Bound
from .model import Model
from .roles import rank_of
from .session import FLOATS, numpy_dtype, run
from .sites import Site

#: The most elements of tensors stored in such a model: a model with more is a network.
_MOST = 2**28


def whole(model: Model) -> list[Site]:
    """Return the model as a site if its only inputs are positions; else an empty list.

    One result of rank 2 is a table, two are cos and sin. Two inputs and one result of rank 3 are
    the positions of queries and keys, and a bias (H, Q, K).
    """
    from onnx import helper

    scope = model.scopes[0]
    inputs, outputs = list(scope.inputs.values()), list(model.proto.graph.output)
    stored = sum(int(np.prod(t.dims)) for t in model.proto.graph.initializer)
    if stored > _MOST or any(i.type.tensor_type.elem_type in FLOATS for i in inputs):
        return []
    part = model.part(scope, [o.name for o in outputs], [])
    session = open_session(part.proto({}))
    kinds = {2: {(1, 1): "table", (1, 2): "cos_sin"}, 3: {(2, 1): "bias"}}

    def call(*values: Any) -> list[np.ndarray]:
        sent = {}
        for i, v in zip(inputs, values, strict=True):
            at = np.asarray(v, helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type))
            sent[i.name] = at[None] if rank_of(i) == 2 else at
        results = [np.asarray(y) for y in run(session, sent)]
        lacking = 1 if rank_of(inputs[0]) == 2 else 0
        return [y.reshape(y.shape[lacking:]) for y in results]

    try:
        results = call(*[np.arange(3)] * len(inputs))
    except ValueError:  # it takes other inputs
        return []
    shape = (len(inputs), len(outputs))
    surface = kinds.get(results[0].ndim, {}).get(shape)
    if surface is None or results[0].dtype.kind != "f":
        return []
    name = next((str(n) for n in FLOATS.values() if numpy_dtype(n) == results[0].dtype), "float32")
    how = f"positions in {', '.join(i.name for i in inputs)}"
    bound = Bound(_CALLS[surface](call), name, 0, how, surface=surface)
    return [Site("whole model", [outputs[0].name], bound)]


def _table(call: Callable[..., list[np.ndarray]]) -> Callable[..., Any]:
    return lambda positions: call(_whole(positions))[0]


def _cos_sin(call: Callable[..., list[np.ndarray]]) -> Callable[..., Any]:
    return lambda positions: tuple(call(_whole(positions)))


def _bias(call: Callable[..., list[np.ndarray]]) -> Callable[..., Any]:
    def bias(q_len: int, k_len: int) -> np.ndarray:
        return call(np.arange(k_len - q_len, k_len), np.arange(k_len))[0]

    return bias


def _whole(positions: Any) -> np.ndarray:
    at = np.asarray(positions)
    if at.dtype.kind == "f" and (at != np.round(at)).any():
        raise ValueError("positions must be whole numbers: the model's input is integer")
    return at


_CALLS: dict[str, Callable[..., Any]] = {"table": _table, "cos_sin": _cos_sin, "bias": _bias}
