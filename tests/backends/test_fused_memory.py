"""Fused paths need no temporary memory of the size of the arrays."""

import tracemalloc

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.backends import fused
from tests.backends.test_fused import DTYPES

MIB = 2**20


def peak(call):
    """Return the most bytes that NumPy and Python hold at one time during the second call."""
    call()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = call()
        most = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert result is not None
    return most


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotations(layout, dtype):
    x = np.ones((1, 8, 4096, 64), DTYPES[dtype])
    out = np.empty_like(x)
    for rotary_dim in (64, 32):
        encoding = pr.RoPE(64, layout=layout, rotary_dim=rotary_dim)
        ready = fused(encoding).prepare(range(4096), like=x)
        for call in (ready, lambda x, out=None, e=encoding: with_kept_tables(e, x, out)):
            assert x.nbytes <= peak(lambda call=call: call(x)) < x.nbytes + MIB
            assert peak(lambda call=call: call(x, out=out)) < MIB
            assert peak(lambda call=call: call(x, out=x)) < MIB


KEPT = {}


def with_kept_tables(encoding, x, out):
    """Rotate by an instance that keeps its tables between calls."""
    fast = KEPT.setdefault(encoding, fused(encoding))
    return fast(x, range(x.shape[-2]), out=out)


def test_tables_take_a_few_bytes_per_position():
    for length, dim in ((2**17, 128), (2**20, 16)):
        fast, out = fused(pr.Sinusoidal(dim)), np.empty((length, dim), np.float32)
        extra = peak(lambda fast=fast, out=out: fast(range(len(out)), out=out))
        assert extra < 10 * MIB + 3 * 8 * length
        assert extra < out.nbytes * 2 / 3


def test_biases_are_written_from_a_vector():
    fast = fused(pr.ALiBi(8))
    out = np.empty((8, 1024, 1024), np.float32)
    assert peak(lambda: fast(1024, 1024)) < MIB
    assert peak(lambda: fast(1024, 1024, out=out)) < MIB


def test_a_temporary_copy_is_detected():
    x = np.ones((1, 8, 4096, 64), np.float32)
    out = np.empty_like(x)
    assert peak(lambda: np.copyto(out, x * 2) or out) > MIB
