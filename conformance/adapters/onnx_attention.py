"""The rotation inside GroupQueryAttention of ONNX Runtime, on a CPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import RoPE
from posenc_ref.conformance.calling.positions import window_start
from posenc_ref.conformance.harness.implementation import Implementation

from .library import LibraryFunction, functions_of
from .onnx import open_session

#: The rows of the cos and sin tables in the model.
_ROWS = 8192


def functions() -> list[LibraryFunction]:
    """Return the operator with both layouts, and with a part of the head rotated."""
    function = functions_of(
        "onnxruntime", "contrib_ops/cpu/bert/group_query_attention.cc: GroupQueryAttention"
    )
    says = "do_rotary=1; the rotated keys are those that it returns for the cache"
    return [
        function(name, "", partial(_group_query_attention, **settings), expected, says=says)
        for name, settings, expected in (
            ("GroupQueryAttention", {}, RoPE(64, layout="half")),
            ("GroupQueryAttention, interleaved", {"interleaved": 1},
             RoPE(64, layout="interleaved")),
            ("GroupQueryAttention, half of the head", {"rotary_dim": 32},
             RoPE(64, layout="half", rotary_dim=32)),
        )
    ]  # fmt: skip


def _group_query_attention(interleaved: int = 0, rotary_dim: int = 64) -> Implementation:
    angle = np.outer(np.arange(_ROWS), 10000.0 ** (-np.arange(rotary_dim // 2) * 2 / rotary_dim))
    tables = {"cos_cache": np.cos(angle), "sin_cache": np.sin(angle)}
    tables = {name: table.astype(np.float32) for name, table in tables.items()}
    sessions: dict[int, Any] = {}

    def apply(x: Any, positions: Any) -> Any:
        batch, heads, tokens, dim = x.shape
        if not x.size:  # ONNX Runtime 1.31 divides by zero, which ends the process
            raise ValueError("x must not be empty")
        start = window_start(positions)
        if start + tokens > _ROWS:
            raise ValueError(f"positions must be below {_ROWS}, the rows of the tables made here")
        if heads not in sessions:
            sessions[heads] = _session(heads, interleaved, rotary_dim)
        flat = np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(batch, tokens, heads * dim)
        past = np.zeros((batch, heads, start, dim), np.float32)
        feeds = {
            "query": flat, "key": flat, "value": flat, "past_key": past, "past_value": past,
            "seqlens_k": np.full(batch, start + tokens - 1, np.int32),
            "total_sequence_length": np.array(start + tokens, np.int32), **tables,
        }  # fmt: skip
        (keys,) = sessions[heads].run(["present_key"], feeds)
        return keys[:, :, start : start + tokens]

    return Implementation(apply, "apply", "onnxruntime", head_dim=64)


def _session(heads: int, interleaved: int, rotary_dim: int) -> Any:
    from onnx import TensorProto, helper

    vectors = ["batch", "tokens", heads * 64]
    shapes = {
        "query": vectors, "key": vectors, "value": vectors,
        "past_key": ["batch", heads, "past", 64], "past_value": ["batch", heads, "past", 64],
        "seqlens_k": ["batch"], "total_sequence_length": [],
        "cos_cache": ["rows", rotary_dim // 2], "sin_cache": ["rows", rotary_dim // 2],
        "output": vectors, "present_key": ["batch", heads, "all", 64],
        "present_value": ["batch", heads, "all", 64],
    }  # fmt: skip
    integers = ("seqlens_k", "total_sequence_length")
    values = {
        name: helper.make_tensor_value_info(
            name, TensorProto.INT32 if name in integers else TensorProto.FLOAT, shape
        )
        for name, shape in shapes.items()
    }
    names = list(values)
    node = helper.make_node(
        "GroupQueryAttention", names[:9], names[9:], domain="com.microsoft", num_heads=heads,
        kv_num_heads=heads, do_rotary=1, rotary_interleaved=interleaved,
    )  # fmt: skip
    every = list(values.values())
    graph = helper.make_graph([node], "attention", every[:9], every[9:])
    opsets = [helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("", 21)]
    return open_session(helper.make_model(graph, opset_imports=opsets, ir_version=10))
