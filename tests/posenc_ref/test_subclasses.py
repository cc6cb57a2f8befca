"""A model's own tensor class belongs to PyTorch, and host rules hold for it."""

import numpy as np
import torch

from posenc_ref import Learned, RoPE, Sinusoidal, T5Bias


class Parameter(torch.nn.Parameter):
    """As inference engines define them, in a module of their own."""


Parameter.__module__ = "engine.parameters"


def test_a_tensor_subclass_is_a_tensor():
    weight = Parameter(torch.arange(12.0).reshape(6, 2).to(torch.bfloat16))
    learned = Learned(weight)
    assert learned == Learned(weight)
    assert hash(learned) == hash(Learned(weight))
    assert torch.equal(learned.table(torch.arange(3)), weight[:3])
    x = Parameter(torch.ones(1, 1, 4, 8))
    rotated = RoPE(8, layout="half").apply(x, torch.arange(4))
    assert rotated.dtype == torch.float32


def test_shift_matrices_end_where_positions_do():
    for k in (1e300, 2.0**41, np.inf):
        try:
            Sinusoidal(8).shift_matrix(k)
        except ValueError as error:
            assert "finite" in str(error)  # noqa: PT017
        else:
            raise AssertionError(k)


def test_unsigned_positions_past_int64_are_refused():
    table = np.zeros((32, 2), np.float32)
    huge = np.array([2**64 - 1], np.uint64)
    for call in (Learned(table).table, lambda p: T5Bias(table).bias(p, [0])):
        try:
            call(huge)
        except ValueError as error:
            assert "at most" in str(error)  # noqa: PT017
        else:
            raise AssertionError("2**64 - 1 was taken for -1")
