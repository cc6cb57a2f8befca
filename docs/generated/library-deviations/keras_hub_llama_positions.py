"""KerasHub: LlamaRotaryEmbedding ignores its position_scaling_factor."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
from keras_hub.layers import RotaryEmbedding
from keras_hub.src.models.llama.llama_rotary_embedding import LlamaRotaryEmbedding

x = np.random.default_rng(0).standard_normal((1, 9, 1, 64)).astype("float32")
plain = np.array(RotaryEmbedding()(x))
right = np.array(RotaryEmbedding(scaling_factor=4.0)(x))  # the class that it is derived from
got = np.array(LlamaRotaryEmbedding(position_scaling_factor=4.0)(x))
angle = 8 / 4.0 * 10000.0 ** (-np.arange(32) / 32)
first, last = np.split(x[0, 8, 0].astype(float), 2)
by_hand = first * np.cos(angle) - last * np.sin(angle)
print("token 8, first channels, factor 4")
print("expected       ", by_hand[:3].round(5))
print("RotaryEmbedding", right[0, 8, 0, :3].round(5))
print("got            ", got[0, 8, 0, :3].round(5))
print("equal to no scaling:", np.allclose(got, plain, atol=1e-6))
assert np.allclose(right[0, 8, 0, :32], by_hand, atol=1e-5)
assert np.allclose(got, plain, atol=1e-6)
