"""KerasHub: rope_type="dynamic" divides every frequency by the same number."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
from keras_hub.layers import RotaryEmbedding

dim, factor = 64, 4.0
layer = RotaryEmbedding(rope_type="dynamic", scaling_factor=factor)
got = np.array(layer._get_inverse_freq(dim))
plain = 10000.0 ** (-np.arange(0, dim, 2) / dim)
base = 10000.0 * factor ** (dim / (dim - 2))
expected = base ** (-np.arange(0, dim, 2) / dim)
print("pair      unscaled    NTK-aware   KerasHub")
for pair in (0, 1, 16, 31):
    print(f"{pair:4} {plain[pair]:13.7f} {expected[pair]:11.7f} {got[pair]:11.7f}")
print("unscaled / KerasHub is", (plain / got).min().round(4), "for every pair")
x = np.ones((1, 2, 1, dim), "float32")
turned = np.arctan2(*np.array(layer(x))[0, 1, 0][[32, 0]]) - np.pi / 4
print(f"the first pair turns by {turned:.4f} rad per token; without scaling and with NTK by 1")
assert np.allclose(plain / got, factor ** (dim / (dim - 2)))
