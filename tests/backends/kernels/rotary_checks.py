"""Inputs for the CUDA kernel, and comparisons of its results with the specification."""

import numpy as np

from posenc_ref.backends import fused
from tests.backends.comparison import rotation_error
from tests.backends.kernels.rotary_model import Array
from tests.backends.test_fused import DTYPES

#: Roundings of the norm of a pair.  float64 and float32: errors of 1.2 in cos and in sin make 1.7
#: in a pair; m, the product and the sum add theirs.  Others: float32 inside, rounded once.
MOST = {"float64": 4, "float32": 4, "float16": 1.01, "bfloat16": 1.01}


def random(*shape, dtype="float32", seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[dtype])


def exact(encoding, x, positions, y, seq_len=None):
    """Return whether ``y`` is as exact as its dtype allows."""
    return rotation_error(encoding, x, positions, y, seq_len=seq_len) <= MOST[str(x.dtype)]


def right(encoding, x, positions, *, given=None, out=None, path="made in the kernel", **options):
    """Assert that ``fused`` rotates an array like ``x`` exactly, by the expected path."""
    before = x.copy()
    at = positions if given is None else given
    goal = None if out is None else Array(out)
    y, how = fused(encoding)(Array(x), at, out=goal, explain=True, **options)
    assert how.startswith("cupy: ")
    assert how.endswith(path), how
    assert out is None or y is goal
    seq_len = options.get("seq_len")
    found = rotation_error(encoding, before, positions, y.host, seq_len=seq_len)
    assert found <= MOST[str(x.dtype)], (
        f"{encoding!r}, {x.dtype}, strides {x.strides}: {found} roundings"
    )
    assert out is x or x.tobytes() == before.tobytes()
    return y.host


def memory(how, shape, dtype):
    """Return an array of ``shape`` = (B, H, S, D) with one of many strides."""
    b, h, s, d = shape
    if how == "bshd":
        return random(b, s, h, d, dtype=dtype).transpose(0, 2, 1, 3)
    if how == "packed":
        return random(b, s, 3, h, d, dtype=dtype)[:, :, 1].transpose(0, 2, 1, 3)
    if how == "backwards":
        return random(b, h, s, d, dtype=dtype)[:, ::-1, ::-1]
    if how == "channels apart":
        return random(b, h, s, 2 * d, dtype=dtype)[..., ::2]
    if how == "channels backwards":
        return random(b, h, s, d, dtype=dtype)[..., ::-1]
    if how == "odd rows":
        return random(b, h, s, d + 1, dtype=dtype)[..., 1:]
    if how == "odd start":  # the address of every row is misaligned in the same way
        line = random(b * h * s * d + 16, dtype=dtype)
        first = next(n for n in range(16) if line[n:].ctypes.data % 16 == line.itemsize)
        return line[first : first + b * h * s * d].reshape(shape)
    return random(*shape, dtype=dtype)


STRIDES = ("plain", "bshd", "packed", "backwards", "channels apart", "channels backwards",
           "odd rows", "odd start")  # fmt: skip
