"""Kernels of ONNX Runtime (and ONNX's own evaluator) and of MLX, as they are on a CPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import ALiBi, GivenFrequencies, LinearScaling, RoPE, Sinusoidal
from posenc_ref.conformance.adapters.peers import window_start
from posenc_ref.conformance.implementation import Implementation

from .entry import Entry

_INTERLEAVED = partial(RoPE, 64, layout="interleaved")
_HALF = partial(RoPE, 64, layout="half")
#: Rows of the tables that an exporter would put into the model.
_ROWS = 131072


def entries() -> list[Entry]:
    """The rotary operators of ONNX, and MLX."""
    return [*_onnx(), *_mlx()]


def _onnx() -> list[Entry]:
    file = "contrib_ops/cpu/bert/rotary_embedding.cc: RotaryEmbedding"
    core = "core/providers/cpu/llm/rotary_embedding.cc: RotaryEmbedding"
    reference = "reference/ops/op_rotary_embedding.py: rotary_embedding"
    given = "cos and sin are the exporter's, here of base 10000; the kernel's is the layout"

    def entry(name: str, library: str, source: str, expected: RoPE, **settings: Any) -> Entry:
        build = partial(_build_onnx, evaluator=library, **settings)
        return Entry(name, library, source, build, expected, says=given, fast=not settings)

    ours, theirs = {"domain": "com.microsoft"}, "onnxruntime"
    microsoft, standard = "com.microsoft.RotaryEmbedding", "ONNX RotaryEmbedding-23"
    return [
        entry(f"onnxruntime {microsoft}", theirs, file, _HALF(), **ours),
        entry(f"onnxruntime {microsoft}, interleaved", theirs, file, _INTERLEAVED(),
              interleaved=1, **ours),
        entry(f"onnxruntime {microsoft}, half of the head", theirs, file, _HALF(rotary_dim=32),
              rotary_dim=32, **ours),
        entry(f"onnxruntime {standard}", theirs, core, _HALF()),
        entry(f"onnxruntime {standard}, interleaved", theirs, core, _INTERLEAVED(), interleaved=1),
        entry(f"onnxruntime {standard}, half of the head", theirs, core, _HALF(rotary_dim=32),
              rotary_dim=32),
        entry(f"onnx's evaluator, {standard}", "onnx", reference, _HALF()),
        entry(f"onnx's evaluator, {standard}, interleaved", "onnx", reference, _INTERLEAVED(),
              interleaved=1),
    ]  # fmt: skip


def _build_onnx(
    evaluator: str, domain: str = "", interleaved: int = 0, rotary_dim: int = 64
) -> Implementation:
    from onnx import TensorProto, helper

    four = ["batch", "heads", "sequence", 64]
    tables = ["rows", rotary_dim // 2]
    shapes = {"cos_cache": tables, "sin_cache": tables, "position_ids": ["batch", "sequence"]}
    # The two operators take the same inputs in another order.
    order = ["cos_cache", "sin_cache", "position_ids"]
    order = ["input", *(order if not domain else [order[2], *order[:2]])]
    settings = {"interleaved": interleaved}
    if rotary_dim != 64:  # one of the operators refuses this without a number of heads
        settings |= {"rotary_embedding_dim": rotary_dim, "num_heads": 1}
    real = TensorProto.FLOAT
    node = helper.make_node("RotaryEmbedding", order, ["output"], domain=domain, **settings)
    inputs = [helper.make_tensor_value_info("input", real, four)]
    for name, shape in shapes.items():
        kind = TensorProto.INT64 if name == "position_ids" else real
        inputs.append(helper.make_tensor_value_info(name, kind, shape))
    outputs = [helper.make_tensor_value_info("output", real, four)]
    graph = helper.make_graph([node], "rotary", inputs, outputs)
    opsets = [helper.make_opsetid("", 23)]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    model = helper.make_model(graph, opset_imports=opsets, ir_version=11)
    session = _session(model, evaluator)
    angle = np.outer(np.arange(_ROWS), 10000.0 ** (-np.arange(rotary_dim // 2) * 2 / rotary_dim))
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def apply(x: Any, positions: Any) -> Any:
        if positions.dtype.kind == "f" or (positions < 0).any():
            raise ValueError("rows of a table only")
        rows = np.broadcast_to(positions, (x.shape[0], x.shape[2])).astype(np.int64)
        feeds = {"input": x, "position_ids": rows, "cos_cache": cos, "sin_cache": sin}
        return session.run(None, feeds)[0]

    return Implementation(call=apply, surface="apply", name=evaluator, head_dim=64)


def _session(model: Any, evaluator: str) -> Any:
    if evaluator == "onnx":
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(model)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # a refused position is an error that we expect
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


# MLX


def _mlx() -> list[Entry]:
    fast, layers = "mlx/fast.cpp: fast::rope", "nn/layers/positional_encoding.py: "

    def entry(name: str, source: str, build: Any, expected: Any, **more: Any) -> Entry:
        return Entry(f"mlx {name}", "mlx", source, build, expected, **more)

    return [
        entry("fast.rope", fast, _mlx_rope, _HALF(), fast=True),
        entry("fast.rope, traditional", fast, partial(_mlx_rope, traditional=True),
              _INTERLEAVED()),
        entry("fast.rope, half of the head", fast, partial(_mlx_rope, dims=32),
              _HALF(rotary_dim=32)),
        entry("fast.rope, scale 1/4", fast, partial(_mlx_rope, scale=0.25),
              _HALF(scaling=LinearScaling(4.0))),
        entry("fast.rope, freqs", fast, partial(_mlx_rope, base=None, freqs=True),
              _HALF(scaling=GivenFrequencies(tuple(1 / _periods()))),
              says="its freqs are divisors: 1 / frequencies"),
        entry("SinusoidalPositionalEncoding", f"{layers}SinusoidalPositionalEncoding", _mlx_table,
              Sinusoidal(64, layout="concat", denominator="half-1", scale=(2 / 64) ** 0.5)),
        entry("ALiBi, slopes", f"{layers}ALiBi.create_alibi_slope",
              partial(_mlx_alibi, "slopes"), ALiBi(12)),
        entry("ALiBi", f"{layers}ALiBi.create_alibi_matrix, as ALiBi.__call__ uses it",
              partial(_mlx_alibi, "bias"), ALiBi(12, causal=False)),
    ]  # fmt: skip


def _periods() -> np.ndarray:
    """Thirty-two divisors of no published rule, exact in float32."""
    return np.asarray(1.0 + np.arange(32.0) ** 2 / 8)


def _mlx_rope(
    dims: int = 64, traditional: bool = False, base: float | None = 10000.0, scale: float = 1.0,
    freqs: bool = False,
) -> Implementation:  # fmt: skip
    import mlx.core as mx

    given = mx.array(_periods().astype(np.float32)) if freqs else None

    def apply(x: Any, positions: Any) -> Any:
        start = window_start(positions)
        y = mx.fast.rope(
            mx.array(x), dims, traditional=traditional, base=base, scale=scale, offset=start,
            freqs=given,
        )  # fmt: skip
        return np.array(y)

    return Implementation(call=apply, surface="apply", name="mlx", head_dim=64)


def _mlx_table() -> Implementation:
    import mlx.core as mx
    from mlx.nn import SinusoidalPositionalEncoding

    module = SinusoidalPositionalEncoding(64)
    call = lambda positions: np.array(module(mx.array(positions)))  # noqa: E731
    return Implementation(call=call, surface="table", name="mlx")


def _mlx_alibi(surface: str) -> Implementation:
    from mlx.nn import ALiBi as Layer

    def slopes(num_heads: int) -> Any:
        return np.array(Layer.create_alibi_slope(num_heads)).reshape(-1)

    def bias(q_len: int, k_len: int) -> Any:
        offset = k_len - q_len
        return np.array(Layer.create_alibi_matrix(q_len + offset, k_len, 12, offset=offset))

    call = slopes if surface == "slopes" else bias
    return Implementation(call=call, surface=surface, name="mlx", num_heads=12)
