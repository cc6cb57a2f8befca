"""Traced positions without 64-bit types are exact at every 32-bit integer."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import Truth
from posenc_ref.backends import fused
from tests.backends.comparison import rotation_error
from tests.backends.test_fused import ROTARY, D

jax = pytest.importorskip("jax", reason="its traces are what is tried")
#: Roundings of the norm of a pair: two of the angle, one of the sine, one of the rotation.
MOST = 4


def rows(encoding, rng, kind, *shape):
    limits = np.iinfo(kind)
    shape = shape if encoding.num_axes == 1 else (encoding.num_axes, *shape)
    at = rng.integers(limits.min, limits.max, shape, endpoint=True).astype(kind)
    at[..., :2] = limits.min, limits.max
    return at


@pytest.mark.parametrize(
    "name",
    ["half-trailing", "interleaved-partial", "dynamic", "sections-interleaved", "blockwise"],
)
def test_every_integer(name, rng):
    encoding = ROTARY[name]
    fast = fused(encoding)
    x = rng.standard_normal((2, 3, 9, D)).astype(np.float32)
    cases = [(np.int32, (9,)), (np.int32, (2, 9))]
    if name == "half-trailing":
        cases += [(kind, (9,)) for kind in (np.int8, np.uint16, np.uint32)]
        cases += [(np.int32, (1, 9)), (np.int32, (2, 1, 9))]
    for kind, shape in cases:
        at = rows(encoding, rng, kind, *shape)
        call = jax.jit(lambda x, at: (fast(x, at, seq_len=700), fast.inverse(x, at, seq_len=700)))
        there, back = call(x, at)
        assert rotation_error(encoding, x, at, there, seq_len=700) <= MOST
        assert rotation_error(encoding, x, at, back, method="inverse", seq_len=700) <= MOST


def test_jit_vmap_qk_and_gradients(rng):
    encoding, paths = ROTARY["interleaved-partial"], []
    fast = fused(encoding, tensor_layout="bshd")
    x = rng.standard_normal((2, 5, 3, D)).astype(np.float32)
    at = rng.integers(0, 2**31, (2, 5)).astype(np.int32)

    def call(x, at):
        y, path = fast(x, at, explain=True)
        paths.append(path)
        return y

    def right(y, x=x, at=at):
        return rotation_error(encoding, x.swapaxes(1, 2), at, np.asarray(y).swapaxes(1, 2)) <= MOST

    assert right(jax.jit(call)(x, at))
    assert paths == ["jax: angles computed in the trace"]
    one = fused(encoding)
    heads = x.swapaxes(1, 2).copy()
    mapped = jax.jit(jax.vmap(lambda x, at: one(x, at)))(heads, at)
    assert right(np.asarray(mapped).swapaxes(1, 2))
    turned = jax.jit(lambda x, at: fast.qk(x, x[:, :, :1], at))(x, at)
    assert right(turned[0])
    assert right(turned[1], x[:, :, :1])
    gradient = jax.jit(jax.grad(lambda x, at: (fast(x, at) ** 2).sum() / 2))(x, at)
    back = np.asarray(gradient).swapaxes(1, 2)
    factors = np.ones(D)
    factors[np.concatenate(encoding.pairs())] = encoding.attention_factor() ** 2
    true = heads.astype(np.float64) * factors
    size = np.linalg.norm(true, axis=-1, keepdims=True) + 0 * true
    assert Truth(true, size, np.zeros(())).score(back).max() <= MOST


def test_encodings_with_an_offset(rng):
    x = rng.standard_normal((4, D)).astype(np.float32)
    at = np.array([[0, -5, 2**31 - 1, -(2**31)], [7, 1, 2, 3]], np.int32)
    for offset in (1.0, -3.0, 0.25):
        encoding = pr.MultiAxisRoPE(D, sections=(8, 8), layout="half", offset=offset)
        assert rotation_error(encoding, x, at, jax.jit(fused(encoding))(x, at)) <= MOST


def test_beyond_the_domain():
    """Traced positions give NaN where concrete ones raise an error."""
    encoding = pr.RoPE(4, layout="half", scaling=pr.GivenFrequencies((1e6, 1.0)))
    x = np.ones((6, 4), np.float32)
    limit = int(2**40 / encoding.frequencies().max())
    at = np.array([limit, -limit, limit + 1, -limit - 1, 2**31 - 1, -(2**31)], np.int32)
    y = np.asarray(jax.jit(fused(encoding))(x, at))
    assert np.isnan(y).all(axis=-1).tolist() == [False, False, True, True, True, True]
    assert rotation_error(encoding, x[:2], at[:2], y[:2]) <= MOST
    with pytest.raises(ValueError, match="positions must be finite and at most"):
        fused(encoding)(jax.numpy.asarray(x), at)


def test_refused_positions():
    x = np.ones((3, D), np.float32)
    half, sections = fused(ROTARY["half"]), fused(ROTARY["sections-half"])
    for call, at, error, message in (
        (half, np.zeros(4, np.int32), ValueError, "positions must have shape"),
        (half, np.zeros(3, np.float32), TypeError, "positions must be concrete"),
        (fused(ROTARY["dynamic"]), np.zeros(3, np.int32), ValueError, "seq_len must be given"),
        (sections, np.zeros((2, 3), np.int32), ValueError, "one row for each axis"),
    ):
        with pytest.raises(error, match=message):
            jax.jit(call)(x, at)
