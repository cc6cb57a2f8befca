"""Inputs of the CUDA kernel, and what it makes of them, held against the specification."""

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.backends import fused
from tests.backends.kernels.rotary_model import Array
from tests.backends.test_fused import DTYPES

#: Roundings of the size of a pair.  Wide: cos and sin are good to 1.2 each, which makes 1.7 of a
#: pair, and m, its product and the sum add their own.  Narrow: float32 inside, rounded once.
MOST = {"float64": 4, "float32": 4, "float16": 1.01, "bfloat16": 1.01}


def random(*shape, dtype="float32", seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[dtype])


def exact(encoding, x, positions, y, seq_len=None):
    """Whether ``y`` is right, as far as its dtype can tell."""
    return score(encoding, x, positions, y, seq_len) <= MOST[str(x.dtype)]


def score(encoding, x, positions, y, seq_len=None):
    """The largest distance of ``y`` from the truth, in roundings; inf where it must be equal."""
    wide = x.astype(np.float64)
    true = encoding.apply(wide, positions, seq_len=seq_len)
    size = np.zeros(x.shape)
    first, second = encoding.pairs()
    p = encoding._positions(positions)
    m = encoding.attention_factor(encoding._seq_len(seq_len, p))
    size[..., first] = size[..., second] = m * np.hypot(wide[..., first], wide[..., second])
    return Truth(true, size, np.zeros(())).score(y, dtype=str(x.dtype)).max(initial=0.0)


def right(encoding, x, positions, *, given=None, out=None, path="made in the kernel", **options):
    """``fused`` on an array of values and strides ``x`` passes, by the path that is expected."""
    before = x.copy()
    at = positions if given is None else given
    goal = None if out is None else Array(out)
    y, how = fused(encoding)(Array(x), at, out=goal, explain=True, **options)
    assert how.startswith("cupy: ")
    assert how.endswith(path), how
    assert out is None or y is goal
    found = score(encoding, before, positions, y.host, options.get("seq_len"))
    assert found <= MOST[str(x.dtype)], (
        f"{encoding!r}, {x.dtype}, strides {x.strides}: {found} roundings"
    )
    assert out is x or x.tobytes() == before.tobytes()
    return y.host


def memory(how, shape, dtype):
    """An array of ``shape`` = (B, H, S, D) that lies in memory in one of many ways."""
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
    if how == "odd start":  # rows are aligned to each other, and to nothing else
        line = random(b * h * s * d + 16, dtype=dtype)
        first = next(n for n in range(16) if line[n:].ctypes.data % 16 == line.itemsize)
        return line[first : first + b * h * s * d].reshape(shape)
    return random(*shape, dtype=dtype)


STRIDES = ("plain", "bshd", "packed", "backwards", "channels apart", "channels backwards",
           "odd rows", "odd start")  # fmt: skip
