"""Equinox: a second rotary layer of the same size gets the frequencies of the first."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

x = jnp.ones((100, 64))
local, far = (eqx.nn.RotaryPositionalEmbedding(64, theta=theta) for theta in (10000.0, 1000000.0))
first, second = np.asarray(local(x)), np.asarray(far(x))
angle = 99 * 1000000.0 ** (-np.arange(32) / 32)  # of the last token
right = np.cos(angle) - np.sin(angle)
print("theta = 1000000, token 99, channels 1 to 3")
print("expected", right[1:4].round(4))
print("got     ", second[99, 1:4].round(4))
print("equal to the layer with theta = 10000:", np.array_equal(first, second))
assert np.array_equal(first, second)
assert abs(second[99, :32] - right).max() > 0.5
