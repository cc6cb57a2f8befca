"""The fused path on JAX: the conformance suite, traces, gradients, vmap and sharding."""

import os
import subprocess
import sys

import numpy as np
import pytest

from posenc_ref.backends import fused
from posenc_ref.conformance import check
from tests.backends.comparison import close
from tests.backends.test_fused import FUSED, ROTARY, D, positions_of

jax = pytest.importorskip("jax", reason="JAX's arrays are what is tried")
RNG = np.random.default_rng(13)


def array(rng, *shape, dtype="float32"):
    return jax.numpy.asarray(rng.standard_normal(shape), dtype)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "dtype"), [("half-trailing", "float32"), ("interleaved", "bfloat16")]
)
def test_the_suite_passes(name, dtype):
    encoding = ROTARY[name]
    fast = fused(encoding)
    report = check(lambda x, p: fast(x, p), encoding, "apply", backend="jax", dtype=dtype)
    assert report.passed, report


@pytest.mark.parametrize("name", FUSED)
def test_traces_are_exact_without_float64(name, rng):
    """Tables are constants of the trace, so angles at 2**20 are exact although x64 is off."""
    encoding = ROTARY[name]
    at = positions_of(encoding, 2**20 + np.arange(5))
    x = array(rng, 2, 3, 5, D)
    fast = fused(encoding)
    y, path = fast(x, at, explain=True)
    assert path.startswith("jax: ")
    true = encoding.apply(np.asarray(x).astype(np.float64), at)
    ready = fast.prepare(at, like=x)
    for turned in (y, jax.jit(lambda x: fast(x, at))(x), jax.jit(lambda x: ready(x))(x)):
        assert turned.dtype == x.dtype
        assert close(turned, true)


@pytest.mark.nightly
def test_gradients_and_vmap(rng):
    encoding = ROTARY["half-trailing"]
    x = array(rng, 4, 3, D)
    fast = fused(encoding)

    def loss(x):
        return (fast(x, range(3)) ** 2).sum() / 2

    m = encoding.attention_factor()
    factors = np.ones(D)
    factors[np.concatenate(encoding.pairs())] = m * m
    assert close(jax.jit(jax.grad(loss))(x), np.asarray(x) * factors)
    assert close(jax.vmap(lambda x: fast(x, range(3)))(x), fast(x, range(3)))
    twice = jax.jvp(jax.grad(loss), (x,), (x,))[1]
    assert close(twice, np.asarray(x) * factors)


def test_traced_positions_run_the_specification(rng):
    encoding = ROTARY["half"]
    fast = fused(encoding)
    with jax.enable_x64(True):
        x, at = array(rng, 3, D, dtype="float64"), jax.numpy.arange(3)
        paths = []

        def call(x, at):
            y, path = fast(x, at, explain=True)
            paths.append(path)
            return y

        assert close(jax.jit(call)(x, at), encoding.apply(np.asarray(x), range(3)), "float64")
    assert paths == ["no fast path: positions are lazy or traced"]


def test_out_is_refused(rng):
    with pytest.raises(TypeError, match="out cannot be given for jax arrays"):
        fused(ROTARY["half"])(array(rng, 3, D), range(3), out=array(rng, 3, D))


SHARDED = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import posenc_ref as pr
from posenc_ref.backends import fused

mesh = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("rows", "heads", "tokens"))
placed = NamedSharding(mesh, P("rows", "heads", "tokens", None))
gathers = ("all-gather", "all-to-all", "collective-permute", "all-reduce")
x = jax.device_put(np.random.default_rng(0).standard_normal((2, 4, 8, 32)).astype("f4"), placed)
for layout in ("half", "interleaved"):
    encoding = pr.RoPE(32, layout=layout)
    fast = fused(encoding)
    ready = fast.prepare(range(20), like=x)
    calls = (
        lambda x: fast(x, range(8)), lambda x: fast.inverse(x, range(8)), lambda x: ready(x, 3),
        lambda x: encoding.apply(x, range(8)), lambda x: pr.Sinusoidal(32).add(x, range(8)),
    )
    for call in calls:
        turned = jax.jit(call)
        y = turned(x)
        assert y.sharding.is_equivalent_to(placed, 4), y.sharding
        text = turned.lower(x).compile().as_text()
        assert not any(word in text for word in gathers)
        assert np.array_equal(np.asarray(y), np.asarray(turned(np.asarray(x))))
# The heads of a rank keep their slopes and their sharding.
by_head = NamedSharding(mesh, P("rows", ("heads", "tokens"), None, None))
# Products of small integers, 1/sqrt(16) and these slopes are exact: the order of sums is free.
plain = np.round(np.asarray(x)[..., :16])
q = jax.device_put(plain, by_head)
logits = jax.jit(lambda q: pr.scores(pr.ALiBi(4), q, q, range(8), range(8)))
assert logits(q).sharding.is_equivalent_to(by_head, 4), logits(q).sharding
assert not any(word in logits.lower(q).compile().as_text() for word in gathers)
whole = np.asarray(logits(plain))
for shard in logits(q).addressable_shards:
    assert shard.data.shape == (1, 1, 8, 8)
    assert np.array_equal(np.asarray(shard.data), whole[shard.index])
print("sharded")
"""


@pytest.mark.nightly
def test_sharded_arrays_stay_sharded():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    run = subprocess.run(
        [sys.executable, "-c", SHARDED],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert run.stdout.strip() == "sharded", run.stderr
