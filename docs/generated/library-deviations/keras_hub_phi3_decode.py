"""KerasHub: a token after a cache of 5000 is rotated with Phi-3's factors for short contexts."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
from keras_hub.src.models.phi3.phi3_rotary_embedding import Phi3SuScaledRotaryEmbedding

dim, position = 96, 5000
short, long = [1.0] * 48, [4.0] * 48
layer = Phi3SuScaledRotaryEmbedding(
    short, long, max_sequence_length=131072, pretraining_sequence_length=4096
)
x = np.random.default_rng(0).standard_normal((1, position + 1, 1, dim)).astype("float32")
whole = np.array(layer(x))[0, position, 0]
alone = np.array(layer(x[:, position:], start_index=position))[0, 0, 0]
factor = np.sqrt(1 + np.log(131072 / 4096) / np.log(4096))
angle = position * 10000.0 ** (-np.arange(0, dim, 2) / dim) / np.array(long)
first, last = np.split(x[0, position, 0].astype(float), 2)
right = factor * np.concatenate(
    [first * np.cos(angle) - last * np.sin(angle), last * np.cos(angle) + first * np.sin(angle)]
)
print("token 5000, channels 1 to 3")
print("expected           ", right[1:4].round(4))
print("in a call of 5001  ", whole[1:4].round(4))
print("alone, after 5000  ", alone[1:4].round(4))
assert abs(whole - right).max() < 0.01
assert abs(alone - right).max() > 0.5
