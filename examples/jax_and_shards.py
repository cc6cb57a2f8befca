"""RoPE on JAX without x64: jit, gradients, decoding in lax.scan, sharded arrays."""

import os
import sys

# Four devices on one CPU, to shard over; set this before importing jax.
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


@jax.jit
def logits(q, k, positions):
    turned_q, turned_k = rope.qk(q, k, positions)
    return jnp.einsum("bgrid,bgjd->bgrij", turned_q.reshape(2, 2, 4, 128, 64), turned_k) / 8


at = jnp.arange(128)  # traced below: int32 is enough for exact angles, and no table is stored
gradient = jax.jit(jax.grad(lambda q, k: jnp.square(logits(q, k, at)).sum()))(q, k)
print("logits", logits(q, k, at).shape, "gradient", gradient.shape)

# Positions known while tracing (range, NumPy) make tables that are constants of the program.
# Prepared tables take a start that is known only at run time.
ready = rope.prepare(range(4096), like=q)


def step(position, token):
    return position + 1, ready(token, position)


tokens = jnp.moveaxis(q, 2, 0)[:, :, :, None]  # token by token
_, decoded = jax.lax.scan(step, jnp.int32(1000), tokens)
whole = rope(q, range(1000, 1128))
print("decoded, difference", float(abs(jnp.moveaxis(decoded[:, :, :, 0], 0, 2) - whole).max()))

# Exact at far positions: compare with the specification in float64.
far = range(2**20, 2**20 + 128)
exact = rope.encoding.apply(np.asarray(q, np.float64), far)
print("error at position 2**20:", float(np.abs(np.asarray(rope(q, far)) - exact).max()))

# The result is sharded over heads and sequence like the input, without communication.
mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("heads", "sequence"))
spread = NamedSharding(mesh, PartitionSpec(None, "heads", "sequence"))
turned = jax.jit(lambda x: rope(x, range(128)))(jax.device_put(q, spread))
print("sharding", turned.sharding.spec)
assert turned.sharding.is_equivalent_to(spread, q.ndim)
