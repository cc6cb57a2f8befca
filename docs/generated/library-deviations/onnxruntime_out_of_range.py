"""ONNX Runtime: RotaryEmbedding with a position that its tables of cos and sin do not have."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

ROWS = 4
shapes = {"input": [1, 1, 1, 64], "position_ids": [1, 1], "cos": [ROWS, 32], "sin": [ROWS, 32]}
types = dict.fromkeys(shapes, TensorProto.FLOAT) | {"position_ids": TensorProto.INT64}
values = [helper.make_tensor_value_info(name, types[name], shapes[name]) for name in shapes]
output = helper.make_tensor_value_info("output", TensorProto.FLOAT, shapes["input"])
node = helper.make_node("RotaryEmbedding", [*shapes], ["output"], domain="com.microsoft")
graph = helper.make_graph([node], "rotary", values, [output])
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
tables = {"cos": np.ones((ROWS, 32), np.float32), "sin": np.zeros((ROWS, 32), np.float32)}
x = np.ones(shapes["input"], np.float32)
read = 0
for position in (ROWS - 1, ROWS + 100):
    feeds = {"input": x, "position_ids": np.array([[position]]), **tables}
    try:
        found = session.run(None, feeds)[0][0, 0, 0, :3].tolist()
    except Exception as error:
        print(f"position {position} of a table of {ROWS} rows: {error}")
    else:
        print(f"position {position} of a table of {ROWS} rows: {found}")
        read += 1
assert read == 2
