"""The rotary operators of ONNX, run by ONNX Runtime on a CPU and by ONNX's own evaluator."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import RoPE
from posenc_ref.conformance.calling.positions import require_indices
from posenc_ref.conformance.harness.implementation import Implementation

from .library import LibraryFunction, version

_INTERLEAVED = partial(RoPE, 64, layout="interleaved")
_HALF = partial(RoPE, 64, layout="half")
#: The number of rows of the cos and sin tables in the model.
_ROWS = 131072


def functions() -> list[LibraryFunction]:
    """Return both operators, for both layouts, rotating the whole head or a part."""
    file = "contrib_ops/cpu/bert/rotary_embedding.cc: RotaryEmbedding"
    core = "core/providers/cpu/llm/rotary_embedding.cc: RotaryEmbedding"
    reference = "reference/ops/op_rotary_embedding.py: rotary_embedding"
    given = "the kernel defines the layout; cos and sin are inputs, here with base 10000"

    def function(
        name: str, library: str, source: str, expected: RoPE, **settings: Any
    ) -> LibraryFunction:
        build, fast = partial(_build_onnx, evaluator=library, **settings), not settings
        return LibraryFunction(name, library, source, build, expected, says=given, fast=fast)

    ours, theirs = {"domain": "com.microsoft"}, "onnxruntime"
    microsoft, standard = "com.microsoft.RotaryEmbedding", "ONNX RotaryEmbedding-23"
    return [
        function(f"onnxruntime {microsoft}", theirs, file, _HALF(), **ours),
        function(f"onnxruntime {microsoft}, interleaved", theirs, file, _INTERLEAVED(),
                 interleaved=1, **ours),
        function(f"onnxruntime {microsoft}, half of the head", theirs, file, _HALF(rotary_dim=32),
                 rotary_dim=32, **ours),
        function(f"onnxruntime {standard}", theirs, core, _HALF()),
        function(f"onnxruntime {standard}, interleaved", theirs, core, _INTERLEAVED(),
                 interleaved=1),
        function(f"onnxruntime {standard}, half of the head", theirs, core, _HALF(rotary_dim=32),
                 rotary_dim=32),
        function(f"onnx's evaluator, {standard}", "onnx", reference, _HALF()),
        function(f"onnx's evaluator, {standard}, interleaved", "onnx", reference, _INTERLEAVED(),
                 interleaved=1),
    ]  # fmt: skip


def _build_onnx(
    evaluator: str, domain: str = "", interleaved: int = 0, rotary_dim: int = 64
) -> Implementation:
    from onnx import TensorProto, helper

    vectors, tables = ["batch", "heads", "sequence", 64], ["rows", rotary_dim // 2]
    shapes = {"input": vectors, "cos_cache": tables, "sin_cache": tables,
              "position_ids": ["batch", "sequence"], "output": vectors}  # fmt: skip
    # The two operators take the same inputs in different order.
    order = ["cos_cache", "sin_cache"]
    order = ["input", "position_ids", *order] if domain else ["input", *order, "position_ids"]
    settings = {"interleaved": interleaved}
    if rotary_dim != 64:  # one of the operators then requires the number of heads
        settings |= {"rotary_embedding_dim": rotary_dim, "num_heads": 1}
    node = helper.make_node("RotaryEmbedding", order, ["output"], domain=domain, **settings)
    types = dict.fromkeys(shapes, TensorProto.FLOAT) | {"position_ids": TensorProto.INT64}
    values = {n: helper.make_tensor_value_info(n, types[n], s) for n, s in shapes.items()}
    output = values.pop("output")
    graph = helper.make_graph([node], "rotary", list(values.values()), [output])
    # Microsoft's operator is in releases that read no opset 23.
    versions = {domain: 1, "": 17} if domain else {"": 23}
    opsets = [helper.make_opsetid(name, n) for name, n in versions.items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8 if domain else 11)
    session = open_session(model, evaluator)
    # Before 1.25 the kernel reads beyond its tables, and may crash (microsoft/onnxruntime#27597).
    release = tuple(map(int, (version("onnxruntime") or "99.0").split(".")[:2]))
    unchecked = evaluator == "onnxruntime" and release < (1, 25)
    counted = evaluator == "onnxruntime" and release < (1, 26)
    angle = np.outer(np.arange(_ROWS), 10000.0 ** (-np.arange(rotary_dim // 2) * 2 / rotary_dim))
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def apply(x: Any, positions: Any) -> Any:
        require_indices(positions)
        if unchecked and np.max(positions, initial=0) >= _ROWS:
            raise ValueError(f"positions must be below {_ROWS}, the number of rows of the tables")
        if counted and rotary_dim != 64 and x.shape[1] != 1:
            raise ValueError("these releases take the number of heads from the model, which says 1")
        rows = np.broadcast_to(positions, (x.shape[0], x.shape[2])).astype(np.int64)
        feeds = {"input": x, "position_ids": rows, "cos_cache": cos, "sin_cache": sin}
        return session.run(None, feeds)[0]

    return Implementation(call=apply, surface="apply", name=evaluator, head_dim=64)


def open_session(model: Any, evaluator: str = "onnxruntime") -> Any:
    """Return a session of ONNX Runtime on one CPU core, or of ONNX's own evaluator ("onnx").

    Nothing is logged: inputs that a model rejects are expected errors.
    """
    if evaluator == "onnx":
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(model)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
