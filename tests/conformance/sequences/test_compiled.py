"""JAX compiles every operation for each shape: checks of its functions share shapes."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

pytestmark = pytest.mark.nightly


def test_chunks_of_jax_have_few_shapes():
    jnp = pytest.importorskip("jax", reason="counts the shapes of JAX arrays").numpy
    w, shapes = jnp.asarray(10000.0 ** (-np.arange(4) / 4), jnp.float32), set()

    def fn(x, chunks):
        at = 0
        for n in chunks:
            shapes.add((*x.shape[:2], n))
            at += n
        angle = jnp.arange(at).astype(jnp.float32)[:, None] * w
        cos, sin, (u, v) = jnp.cos(angle), jnp.sin(angle), jnp.split(x, 2, -1)
        return jnp.concatenate([u * cos - v * sin, v * cos + u * sin], -1).astype(x.dtype)

    report = check(fn, RoPE(8, layout="half"), "decode", backend="jax")
    assert report.passed, str(report)
    assert len(shapes) < 60
    assert "JAX compiles every operation for each shape: fewer sizes are crossed" in report.limits
