"""Call the rotation of keys inside ``com.microsoft.SparseAttention`` as ``fn(x, positions)``.

The operator writes new keys, rotated, into a cache that must be the same memory as its result. It
returns neither rotated queries nor logits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.conformance.adapters.onnx import open_session
from posenc_ref.conformance.calling.rotations import window_start

from .binding import Bound
from .model import Part
from .roles import supplied
from .session import MOST_CACHED, Unbound, attempt, first_line, table_dtype

#: The number of tokens in a block of the sparse layout.
_BLOCK = 128
_INPUTS = (
    "query", "key", "value", "past_key", "past_value", "block_row_indices", "block_col_indices",
    "total_sequence_length", "key_total_sequence_lengths", "cos_cache", "sin_cache",
)  # fmt: skip


def sparse_bound(tables: Part, interleaved: int, head_dims: list[int]) -> Bound:
    """Return the rotation of the keys of a node; ``tables`` computes cos and sin.

    The numbers of heads, the scale and the sparse layout do not matter for the rotation, so the
    call uses others.

    Raises
    ------
    Unbound
        If the tables cannot be computed, or ONNX Runtime refuses the node.
    """
    supply = supplied(tables)
    code, dtype, cos = table_dtype(supply)
    sessions: dict[int, Any] = {}

    def call(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        at = np.broadcast_to(np.asarray(positions), (x.shape[0], x.shape[2]))
        y = np.empty_like(x)
        for b, row in enumerate(at):
            start = window_start(row)
            rows = supply(row.astype(np.int64))
            if x.shape[1] not in sessions:
                sessions[x.shape[1]] = open_session(_model(code, interleaved, x.shape[1]))
            # A prompt begins at 0; after it, the operator takes one token in each call.
            for s in [slice(None)] if not start else [slice(i, i + 1) for i in range(x.shape[2])]:
                first = start + (s.start or 0)
                y[b, :, s] = _keys(sessions[x.shape[1]], x[b : b + 1, :, s], first, rows)
        return y

    problem = ""
    for dim in dict.fromkeys((*head_dims, 2 * cos.shape[-1])):
        try:
            call(np.zeros((1, 1, 2, dim), cos.dtype), np.arange(2))
        except Exception as error:  # another size may fit
            problem = first_line(error)
            continue
        how = "keys from the present keys, contiguous positions, from key_total_sequence_lengths"
        unseen = "queries are not judged: the operator returns neither them nor their logits"
        return Bound(call, dtype, dim, how, remarks=(unseen,))
    raise Unbound(problem)


def _keys(session: Any, k: np.ndarray, past: int, tables: list[np.ndarray]) -> np.ndarray:
    """Return the rotated keys (H, S, D) of k (1, H, S, D), after ``past`` tokens."""
    from onnxruntime import OrtValue

    _, heads, length, dim = k.shape
    blocks = -(-(past + length) // _BLOCK)
    if heads * blocks * _BLOCK * dim > MOST_CACHED:
        raise ValueError(f"a cache of {past} tokens is too large for {heads} heads")
    merged = np.ascontiguousarray(k.transpose(0, 2, 1, 3).reshape(1, length, heads * dim))
    cache = np.zeros((1, heads, blocks * _BLOCK, dim), k.dtype)
    number = np.array([past + length], np.int32)
    values = (
        np.zeros_like(merged), merged, np.zeros_like(merged), cache, np.zeros_like(cache),
        np.arange(blocks + 1, dtype=np.int32)[None], np.arange(blocks, dtype=np.int32)[None],
        number, number, *tables,
    )  # fmt: skip
    held = {n: OrtValue.ortvalue_from_numpy(v) for n, v in zip(_INPUTS, values, strict=True)}
    bound = session.io_binding()
    for name, value in held.items():
        bound.bind_ortvalue_input(name, value)
    bound.bind_output("output")
    bound.bind_ortvalue_output("present_key", held["past_key"])
    bound.bind_ortvalue_output("present_value", held["past_value"])
    attempt(lambda: session.run_with_iobinding(bound))
    return np.array(held["past_key"].numpy()[0, :, past : past + length])


def _model(code: int, interleaved: int, heads: int) -> Any:
    from onnx import TensorProto, helper

    outputs = ["output", "present_key", "present_value"]
    node = helper.make_node(
        "SparseAttention", list(_INPUTS), outputs, domain="com.microsoft", num_heads=heads,
        kv_num_heads=heads, do_rotary=1, rotary_interleaved=interleaved, scale=1.0,
        sparse_block_size=_BLOCK,
    )  # fmt: skip
    integer = _INPUTS[5:9]
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.INT32 if n in integer else code, None)
        for n in _INPUTS
    ]
    results = [helper.make_tensor_value_info(n, code, None) for n in outputs]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "attention", inputs, results)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
