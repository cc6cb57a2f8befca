"""Write two_layers.onnx, a small model for docs/onnx.md.

Both layers rotate queries and keys with RoPE, head size 8, base 500000. In layer 1 the attribute
``interleaved`` of the queries is wrong.
"""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save_model

HEADS, HEAD_DIM, ROWS, BASE = 2, 8, 1536, 500000.0


def model():
    """Return the model: hidden (batch, tokens, 16) and position_ids (batch, tokens)."""
    width = HEADS * HEAD_DIM
    angle = np.outer(np.arange(ROWS), BASE ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM))
    weight = np.eye(width, dtype=np.float32)
    stored = {"cos_cache": np.cos(angle), "sin_cache": np.sin(angle), "weight": weight}
    nodes, hidden = [], "hidden"
    for layer in range(2):
        for name in "qk":
            x, y = f"layers.{layer}.{name}", f"layers.{layer}.{name}_rotated"
            nodes.append(helper.make_node("MatMul", [hidden, "weight"], [x], f"{x}_proj"))
            nodes.append(
                helper.make_node(
                    "RotaryEmbedding",
                    [x, "position_ids", "cos_cache", "sin_cache"],
                    [y],
                    f"{x}_rotary",
                    domain="com.microsoft",
                    interleaved=int((layer, name) == (1, "q")),
                )
            )
        out = f"layers.{layer}.out"
        pair = [f"layers.{layer}.{name}_rotated" for name in "qk"]
        nodes.append(helper.make_node("Add", pair, [out], f"layers.{layer}.add"))
        hidden = out
    graph = helper.make_graph(
        nodes,
        "two_layers",
        [
            helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["batch", "tokens", width]),
            helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["batch", "tokens"]),
        ],
        [helper.make_tensor_value_info(hidden, TensorProto.FLOAT, ["batch", "tokens", width])],
        [numpy_helper.from_array(t.astype(np.float32), name) for name, t in stored.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


if __name__ == "__main__":
    save_model(model(), Path(__file__).with_name("two_layers.onnx"))
