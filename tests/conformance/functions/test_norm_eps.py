"""What a norm adds to the mean of squares."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

ROPE = RoPE(8, layout="half")


def normed(eps):
    def fn(x, weight, positions):
        wide = x.astype(np.float64)
        size = np.sqrt(np.mean(wide**2, axis=-1, keepdims=True) + eps)
        return ROPE.apply((weight * wide / size).astype(x.dtype), positions)

    return fn


@pytest.mark.parametrize("eps", [0.0, 1e-6, 1e-5])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_small_numbers_conform(eps, dtype):
    report = check(normed(eps), ROPE, "normed_apply", dtype=dtype)
    assert report.verdict == "conforms", report


def test_no_number_conforms_in_float64():
    assert check(normed(0.0), ROPE, "normed_apply", dtype="float64").verdict == "conforms"


@pytest.mark.parametrize("eps", [1e-2, 1e-3])
def test_a_large_number_is_named(eps):
    (finding,) = check(normed(eps), ROPE, "normed_apply").findings
    assert finding.message == f"{eps:g} is added to the mean of squares, declared 1e-06"
