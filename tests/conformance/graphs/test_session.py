"""Calls of ONNX Runtime: their errors, and the axes that inputs have."""

from types import SimpleNamespace

import pytest
from onnx import TensorProto, helper

from posenc_ref.conformance.graphs.binding import _axes
from posenc_ref.conformance.graphs.session import attempt


def test_an_error_of_the_runtime_says_why():
    def call():
        raise RuntimeError("[ONNXRuntimeError] : 1 : FAIL : Status Message:  no such axis ")

    with pytest.raises(ValueError, match=r"\Ano such axis\Z"):
        attempt(call)
    assert attempt(lambda: 5) == 5


@pytest.mark.parametrize(
    ("shapes", "axes"),
    [
        ({"position_ids": [3, "b", "s"]}, 3),
        ({"position_ids": ["axes", "b", "s"]}, 3),
        ({"position_ids": [2, "b", "s"], "x": [1, 4, 8]}, 2),
        ({"x": [5, "s", 8], "position_ids": ["b", "s"]}, 1),
        ({"x": [5, "s", 8]}, 1),
    ],
)
def test_the_axes_of_positions(shapes, axes):
    free = {
        name: helper.make_tensor_value_info(
            name, TensorProto.FLOAT if name == "x" else TensorProto.INT64, shape
        )
        for name, shape in shapes.items()
    }
    assert _axes(SimpleNamespace(free=free)) == axes
