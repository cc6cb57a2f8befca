"""Tensors on which the fused path once crashed, was wrong or gave up."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.backends import fused
from tests.backends.test_fused import D
from tests.backends.test_fused_torch import close

torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")


def at_address(rng, dtype, places):
    """A tensor (3, D) that starts ``places`` elements after a multiple of 64 bytes."""
    kind = np.dtype(dtype)
    room = np.zeros(3 * D * kind.itemsize + 256, np.uint8)
    start = -room.ctypes.data % 64 + places * kind.itemsize
    x = room[start : start + 3 * D * kind.itemsize].view(kind).reshape(3, D)
    x[...] = rng.standard_normal(x.shape)
    return torch.from_numpy(x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_addresses_that_are_no_multiple_of_a_complex_number(dtype, rng):
    """Shared with NumPy: torch's complex kernels end the process there."""
    encoding = pr.RoPE(D, layout="interleaved", rotary_dim=D - 2)
    fast = fused(encoding)
    for places in (0, 1, 3):
        x, out = at_address(rng, dtype, places), at_address(rng, dtype, 3 - places)
        expected = encoding.apply(x, range(3))
        assert close(fast(x, range(3)), expected, dtype)
        assert close(fast(x, range(3), out=out), expected, dtype)
        assert close(fast(x, range(3), out=x), expected, dtype)
