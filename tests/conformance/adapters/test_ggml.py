"""What the adapter of ggml computes before a call, without ggml, and the operator, if installed."""

import numpy as np
import pytest

from posenc_ref import Llama3Scaling, RoPE
from posenc_ref.conformance.adapters.surveyed.ggml import graph, operators
from posenc_ref.conformance.check import check


def test_positions_are_int32_or_refused():
    assert graph.int32(np.array([-1, 2**31 - 1])).dtype == np.int32
    for wrong in (np.array([0.5]), np.array([2**31])):
        with pytest.raises(ValueError, match="positions must"):
            graph.int32(wrong)


def test_the_divisors_of_llama_3_give_its_frequencies():
    plain = RoPE(64, layout="interleaved", base=500000.0)
    scaled = plain.replace(scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))
    quotient = np.array(plain.frequencies()) / np.array(scaled.frequencies())
    assert (quotient.astype(np.float32) == operators._divisors("llama3", scaled)).all()


def test_the_divisors_of_gemma_4_keep_a_quarter_of_the_pairs():
    divisors = operators._divisors("proportional", RoPE(128, layout="half"))
    assert divisors.tolist() == [1.0] * 16 + [float(np.float32(1e30))] * 48


def test_every_token_has_four_positions():
    text = np.array([5, 6], np.int32)
    assert operators._four(text, operators._MROPE).tolist() == [5, 6, 5, 6, 5, 6, 0, 0]
    patches = np.array([[1, 2], [3, 4]], np.int32)
    assert operators._four(patches, operators._VISION).tolist() == [1, 2, 3, 4, 1, 2, 3, 4]


@pytest.mark.nightly  # where it is not installed, a pull request may not skip it
def test_a_rotation_of_ggml_conforms():
    pytest.importorskip("ggml", reason="ggml-python is not installed")
    function = next(f for f in operators.functions() if f.label == "ggml_rope_ext, neox")
    assert check(function.make(), function.expected).verdict == "conforms"
