"""RoPE on JAX: jit, gradients, decoding in a loop of the compiler, sharded arrays, without x64."""

import os
import sys

# Four devices of one CPU, to have something to shard over; this must come before jax.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    sys.exit('this example needs JAX: pip install "posenc-ref[jax]"')

import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import posenc_ref as pr
from posenc_ref.backends import fused

rope = fused(pr.RoPE(64, layout="half"))
q = jax.random.normal(jax.random.key(0), (2, 8, 128, 64))
k = jax.random.normal(jax.random.key(1), (2, 2, 128, 64))  # grouped queries


# Inside a trace, give positions that are known while it is traced: range(n), lists, NumPy arrays.
# jnp.arange(n) is traced there, and without x64 no exact angle can be made of it.
@jax.jit
def logits(q, k):
    turned_q, turned_k = rope.qk(q, k, range(128))
    return jnp.einsum("bgrid,bgjd->bgrij", turned_q.reshape(2, 2, 4, 128, 64), turned_k) / 8


gradient = jax.jit(jax.grad(lambda q, k: jnp.square(logits(q, k)).sum()))(q, k)
print("logits", logits(q, k).shape, "gradient", gradient.shape)

# Positions that only the running program knows: prepare tables, and give the row to start from.
ready = rope.prepare(range(4096), like=q)


def step(position, token):
    return position + 1, ready(token, position)


tokens = jnp.moveaxis(q, 2, 0)[:, :, :, None]  # one token after the other
_, decoded = jax.lax.scan(step, jnp.int32(1000), tokens)
whole = rope(q, range(1000, 1128))
print("decoded, difference", float(abs(jnp.moveaxis(decoded[:, :, :, 0], 0, 2) - whole).max()))

# Exact however far: the specification in float64 is the judge.
far = range(2**20, 2**20 + 128)
exact = rope.encoding.apply(np.asarray(q, np.float64), far)
print("error at position 2**20:", float(np.abs(np.asarray(rope(q, far)) - exact).max()))

# Sharded over heads and sequence, and still so afterwards: no device sees another's part.
mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("heads", "sequence"))
spread = NamedSharding(mesh, PartitionSpec(None, "heads", "sequence"))
turned = jax.jit(lambda x: rope(x, range(128)))(jax.device_put(q, spread))
print("sharding", turned.sharding.spec)
assert turned.sharding.is_equivalent_to(spread, q.ndim)
