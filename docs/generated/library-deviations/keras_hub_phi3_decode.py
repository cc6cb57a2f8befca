"""KerasHub: Phi-3 rotates a padded prompt by the long factors, generated tokens by the short."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
from keras_hub.src.models.phi3.phi3_rotary_embedding import Phi3SuScaledRotaryEmbedding

dim, max_length, position, pair = 96, 5000, 100, 3
short, long = 1.0, 4.0
layer = Phi3SuScaledRotaryEmbedding(
    [short] * 48, [long] * 48, max_sequence_length=131072, pretraining_sequence_length=4096
)
x = np.repeat([1.0, 0.0], dim // 2).astype("float32")[None, None, None]


def angle(rotated):
    """The angle by which a vector was rotated, of one pair."""
    return np.arctan2(rotated[pair + dim // 2], rotated[pair]) % (2 * np.pi)


# The prompt is padded to max_length for the first call; each later call has one token.
first = layer(np.repeat(x, max_length, axis=1)).cpu().numpy()[0, :, 0]
print(f"pair {pair}, prompt padded to {max_length}; angles in rad, modulo 2 pi")
for at in (max_length - 1, position):
    token = layer(x, start_index=at).cpu().numpy()[0, 0, 0]
    by_short, by_long = (at * 10000.0 ** (-2 * pair / dim) / f % (2 * np.pi) for f in (short, long))
    print(f"position {at}: short factor {by_short:.4f}, long factor {by_long:.4f}")
    print(f"    in the first call {angle(first[at]):.4f}, generated {angle(token):.4f}")
# Of the last one, in the middle of the prompt:
assert abs(angle(first[at]) - by_long) < 1e-3
assert abs(angle(token) - by_short) < 1e-3
