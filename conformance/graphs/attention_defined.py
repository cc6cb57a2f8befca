"""Rotate as the attention operators that ONNX Runtime runs on CUDA only are defined.

They rotate queries and new keys, in the channels from ``rotary_offset`` on, by the rows of their
tables for the tokens' positions. A node ``com.microsoft.RotaryEmbedding`` does the same on a CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.conformance.adapters.onnx import open_session

from .binding import Bound
from .model import Part
from .roles import supplied
from .session import Unbound, first_line, run, table_dtype


def defined_bound(tables: Part, interleaved: int, start: int, head_dims: list[int]) -> Bound:
    """Return the rotation of queries and keys; ``tables`` computes cos and sin.

    Raises
    ------
    Unbound
        If the tables cannot be computed or are too wide for the head.
    """
    supply = supplied(tables)
    code, dtype, cos = table_dtype(supply)
    width = 2 * cos.shape[-1]
    dim = next((d for d in head_dims if d >= start + width), start + width)
    session = open_session(_model(code, interleaved))
    turned = slice(start, start + width)

    def call(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        at = np.broadcast_to(np.asarray(positions), (x.shape[0], x.shape[2]))
        if at.dtype.kind == "f" and (at != np.round(at)).any():
            raise ValueError("positions must be whole numbers: they are rows of the tables")
        rows = supply(np.ravel(at).astype(np.int64))
        part = np.ascontiguousarray(x[..., turned])
        feeds = {"x": part, "ids": at.astype(np.int64), "cos": rows[0], "sin": rows[1]}
        y = x.copy()
        y[..., turned] = run(session, feeds)[0]
        return y

    try:
        call(np.zeros((1, 1, 2, dim), cos.dtype), np.arange(2))
    except Exception as error:
        raise Unbound(first_line(error)) from None
    remark = "the positions that the operator counts from its past lengths are not judged"
    how = "queries and keys, positions in rows of its tables"
    return Bound(call, dtype, dim, how, remarks=(remark,))


def _model(code: int, interleaved: int) -> Any:
    from onnx import TensorProto, helper

    types = {"x": code, "ids": TensorProto.INT64, "cos": code, "sin": code}
    node = helper.make_node(
        "RotaryEmbedding", list(types), ["y"], domain="com.microsoft", interleaved=interleaved
    )
    inputs = [helper.make_tensor_value_info(n, t, None) for n, t in types.items()]
    outputs = [helper.make_tensor_value_info("y", code, None)]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "rotation", inputs, outputs)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
