"""JAX: jit, grad and vmap without 64-bit types; traced positions with them."""

import os
import subprocess
import sys

import numpy as np
import pytest

from posenc_ref import ALiBi, Learned, RoPE, Sinusoidal, T5Bias, scores
from posenc_ref.accuracy import Truth, budget

jax = pytest.importorskip("jax", reason="JAX's arrays are what is tried")
jnp = jax.numpy

RNG = np.random.default_rng(5)
X = RNG.standard_normal((2, 3, 4, 8)).astype(np.float32)
P = np.array([0, 3, 4097, 2**30 + 1])
ROPE = RoPE(8, layout="half", rotary_dim=6)
SIZE = np.linalg.norm(X, axis=-1, keepdims=True)


def near(actual, want, size=SIZE):
    """Return whether ``actual`` has the error of float32 arithmetic on exact tables."""
    truth = Truth(np.asarray(want, np.float64), 2 * size, np.zeros(()), size)
    return truth.score(np.asarray(actual), angles="exact").max() <= budget("float32")


@pytest.fixture(autouse=True)
def without_64_bit_types():
    if jax.config.jax_enable_x64:
        pytest.skip("jax_enable_x64 is set; the subprocess test below covers that")


def test_jit_with_host_positions():
    wide = X.astype(np.float64)
    for call in (ROPE.apply, ROPE.inverse, ROPE.shift, Sinusoidal(8).add):
        y = jax.jit(lambda x, call=call: call(x, P))(jnp.asarray(X))
        assert y.dtype == jnp.float32
        assert near(y, call(wide, P), SIZE + 1)
    logits = jax.jit(lambda x: scores(ROPE, x, x, P, P))(jnp.asarray(X))
    size = 8 * SIZE * SIZE.swapaxes(-1, -2)
    assert near(logits, scores(ROPE, wide, wide, P, P), size)


def test_tables_under_jit_are_correctly_rounded():
    """Tables are made on the host and enter the trace as constants: the compiler changes no bit."""
    cos, sin = jax.jit(lambda: ROPE.cos_sin(P, xp=jnp))()
    want = ROPE.cos_sin(P)
    assert (np.asarray(cos) == want[0].astype(np.float32)).all()
    assert (np.asarray(sin) == want[1].astype(np.float32)).all()


def test_concrete_jax_positions_are_exact_too():
    far = np.array([0, 3, 4097, 2**30 + 1], np.int32)
    y = ROPE.apply(jnp.asarray(X), jnp.asarray(far))
    assert near(y, ROPE.apply(X.astype(np.float64), far))


@pytest.mark.nightly
def test_grad_is_the_inverse_rotation(rng):
    dy = rng.standard_normal(X.shape).astype(np.float32)
    dx = jax.grad(lambda x: jnp.sum(ROPE.apply(x, P) * dy))(jnp.asarray(X))
    size = np.linalg.norm(dy, axis=-1, keepdims=True)
    assert near(dx, ROPE.inverse(dy.astype(np.float64), P), size)
    weight = jnp.asarray(rng.standard_normal((10, 8)), jnp.float32)
    counted = jax.grad(lambda w: jnp.sum(Learned(w).table(np.array([3, 3, 1]))))(weight)
    assert counted[:4, 0].tolist() == [0.0, 1.0, 0.0, 2.0]


def test_vmap_over_heads():
    y = jax.vmap(lambda x: ROPE.apply(x, P), in_axes=1, out_axes=1)(jnp.asarray(X))
    assert near(y, ROPE.apply(X.astype(np.float64), P))


@pytest.mark.parametrize(
    "call",
    [
        lambda p: ROPE.apply(jnp.asarray(X), p),
        lambda p: ROPE.cos_sin(p),
        lambda p: Sinusoidal(8).table(p),
        lambda p: ALiBi(2).bias(p, p),
    ],
)
def test_traced_positions_need_64_bit_types(call):
    with pytest.raises(TypeError, match="pass a range or a NumPy array, or enable float64"):
        jax.jit(call)(jnp.arange(4))


def test_traced_indices_need_no_64_bit_types(rng):
    """A row outside the table is NaN, because a trace cannot raise an error."""
    weight = rng.standard_normal((10, 8)).astype(np.float32)
    rows = jax.jit(Learned(jnp.asarray(weight), offset=1).table)(jnp.asarray([0, 8, 9, -2]))
    assert (np.asarray(rows[:2]) == weight[[1, 9]]).all()
    assert np.isnan(np.asarray(rows[2:])).all()
    table = rng.standard_normal((32, 3)).astype(np.float32)
    q, k = np.arange(5), np.arange(300, 330)
    bias = jax.jit(T5Bias(jnp.asarray(table)).bias)(jnp.asarray(q), jnp.asarray(k))
    assert (np.asarray(bias) == T5Bias(table).bias(q, k)).all()
    tokens = jnp.asarray([[5, 1, 6]])
    ids = jax.jit(Learned(weight, padding_idx=1).ids_from_tokens)(tokens)
    assert ids.tolist() == [[2, 1, 3]]


def test_float64_is_refused_without_64_bit_types():
    from posenc_ref.backends import backend

    with pytest.raises(TypeError, match="JAX has no float64 here: set jax_enable_x64"):
        backend("jax").asarray(np.ones(2), "float64", None)


WITH_64_BITS = """
import jax, jax.numpy as jnp, numpy as np
from posenc_ref import ALiBi, Learned, RoPE, Sinusoidal, scores
from posenc_ref.accuracy import Truth, budget

rng = np.random.default_rng(0)
x, p = rng.standard_normal((2, 3, 4, 8)), np.array([0, 3, 4097, 2**40])
size = np.linalg.norm(x, axis=-1, keepdims=True)
rope = RoPE(8, layout="interleaved")
where = jnp.asarray(p)
for dtype in ("float64", "float32", "bfloat16"):
    y = jax.jit(rope.apply)(jnp.asarray(x, dtype), where)
    assert str(y.dtype) == dtype, y.dtype
    given = np.asarray(jnp.asarray(x, dtype)).astype(np.float64)
    truth = Truth(rope.apply(given, p), 2 * size, np.zeros(()), size)
    assert truth.score(np.asarray(y), angles="exact", dtype=dtype).max() <= budget(dtype), dtype
table = jax.jit(Sinusoidal(8).table)(where)
assert table.dtype == jnp.float64
want = Sinusoidal(8).table(p)
exact = Truth(want, np.abs(want), np.zeros(()), np.ones(()))
assert exact.score(np.asarray(table), angles="exact").max() <= budget("float64")
bias = jax.jit(ALiBi(4).bias)(where, where)
assert (np.asarray(bias) == ALiBi(4).bias(p, p)).all()
# A trace cannot raise an error: rows outside the domain are NaN.
rows = np.asarray(jax.jit(Sinusoidal(8).table)(jnp.asarray([1.0, jnp.nan, 2.0**41])))
assert np.isfinite(rows[0]).all() and np.isnan(rows[1:]).all()
# Outside jit, an error is raised.
try:
    Sinusoidal(8).table(jnp.asarray([2.0**41]))
except ValueError as error:
    assert "at most" in str(error)
else:
    raise AssertionError("a position outside the domain was accepted")
logits = jax.jit(lambda x, p: scores(rope, x, x, p, p))(jnp.asarray(x), where)
assert logits.dtype == jnp.float64
print("done")
"""


@pytest.mark.nightly
def test_with_64_bit_types():
    run = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", WITH_64_BITS],
        env={**os.environ, "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "done"
