"""Arrays as they are written in JSON: dtype, shape and hexadecimal digits."""

import numpy as np
import pytest

from posenc_ref._json import decode


@pytest.mark.parametrize("shape", [[0], [2, 0], [0, 4]])
def test_an_array_may_be_empty(shape):
    array = decode({"dtype": "float32", "shape": shape, "hex": ""})
    assert (array.shape, array.dtype) == (tuple(shape), np.float32)


@pytest.mark.parametrize("shape", [[-1], [True], 3, [2.0]])
def test_sizes_are_whole_numbers_of_at_least_0(shape):
    with pytest.raises(ValueError, match=r"must be a list of at most \d+ sizes"):
        decode({"dtype": "float32", "shape": shape, "hex": ""})
