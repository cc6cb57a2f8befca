"""Infer the types and shapes of the tensors of an ONNX model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .model import Model, kind, subgraphs

#: Operators of ONNX Runtime that keep the shape of their first input.
_KEEP_SHAPE = ("com.microsoft.RotaryEmbedding", "com.microsoft.MRotaryEmbedding",
               "SimplifiedLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization",
               "com.microsoft.SkipLayerNormalization")  # fmt: skip
#: The elements of the largest tensor whose values may define a shape.
_SMALL = 1024


def inferred(model: Model) -> dict[str, Any]:
    """Return the types of all tensors for which the model states them or ONNX infers them.

    Inference runs on a copy without the weights, in which operators that ONNX does not know but
    keep the shape of an input pass it on.
    """
    import onnx
    from onnx import helper, shape_inference

    copy = onnx.ModelProto(ir_version=model.proto.ir_version)
    copy.opset_import.extend(model.proto.opset_import)
    main = model.proto.graph
    small = [t for t in main.initializer if np.prod(t.dims) <= _SMALL and not t.external_data]
    kept = {t.name for t in small}
    large = [_typed(t) for t in main.initializer if t.name not in kept]
    inputs = [i for i in main.input if i.name not in {t.name for t in main.initializer}]
    nodes = [
        helper.make_node("Identity", n.input[:1], n.output[:1]) if kind(n) in _KEEP_SHAPE else n
        for n in main.node
    ]
    copy.graph.CopyFrom(
        helper.make_graph(
            nodes, "copy", [*inputs, *large], main.output, small, value_info=main.value_info
        )
    )
    try:
        graph = shape_inference.infer_shapes(copy).graph
    except Exception:  # shapes only speed up the search
        graph = copy.graph
    found = {}
    for inner in _graphs(graph):
        for value in (*inner.value_info, *inner.input, *inner.output):
            found[value.name] = value
        for t in inner.initializer:
            found[t.name] = _typed(t)
    return found


def _typed(tensor: Any) -> Any:
    """Return the name, the type and the sizes of a stored tensor."""
    from onnx import helper

    return helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _graphs(inner)
