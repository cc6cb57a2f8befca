"""Arrays as they are written in JSON: dtype, shape and digits, or lists of numbers."""

import json

import numpy as np
import pytest

from posenc_ref import from_dict
from posenc_ref._json import decode
from posenc_ref.conformance.registry import entries


@pytest.mark.parametrize("shape", [[0], [2, 0], [0, 4]])
def test_an_array_may_be_empty(shape):
    array = decode({"dtype": "float32", "shape": shape, "hex": ""})
    assert (array.shape, array.dtype) == (tuple(shape), np.float32)


@pytest.mark.parametrize("shape", [[-1], [True], 3, [2.0]])
def test_sizes_are_whole_numbers_of_at_least_0(shape):
    with pytest.raises(ValueError, match=r"must be a list of at most \d+ sizes"):
        decode({"dtype": "float32", "shape": shape, "hex": ""})


def written_by_hand(data):
    """Return the JSON form with lists of numbers in the place of arrays."""
    if isinstance(data, dict) and "hex" in data:
        return decode(data).tolist()
    if isinstance(data, dict):
        return {key: written_by_hand(value) for key, value in data.items()}
    return [written_by_hand(v) for v in data] if isinstance(data, list) else data


def test_every_encoding_is_read_from_lists_of_numbers():
    """Arrays of one axis, and several arrays in one field, are told from tuples by the field."""
    for entry in entries():
        for name, encoding in entry.examples.items():
            data = json.loads(json.dumps(encoding.to_dict()))
            again = written_by_hand(from_dict(written_by_hand(data)).to_dict())
            assert again == written_by_hand(data), name
            assert from_dict(data) == encoding, name


def test_a_list_of_other_things_is_no_array():
    hidden = [[1.0], [2.0]]
    body = {"hidden": hidden, "hidden_bias": ["a", 2.0], "output": [[1.0, 2.0]]}
    with pytest.raises(ValueError, match="hidden_bias: a table must be a list of numbers"):
        from_dict({"encoding": "FIRE", **body})
