"""KerasHub: YaRN without truncate does not round the correction range."""

import math
import os

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
from keras_hub.layers import RotaryEmbedding

dim, base, factor, trained = 64, 150000.0, 32.0, 4096
layer = RotaryEmbedding(
    max_wavelength=base, rope_type="yarn", scaling_factor=factor,
    original_max_position_embeddings=trained,
)  # fmt: skip
got = np.array(layer._get_inverse_freq(dim), dtype=float)
k, plain = np.arange(dim // 2), base ** (-np.arange(0, dim, 2) / dim)
low, high = (dim * math.log(trained / (b * 2 * math.pi)) / (2 * math.log(base)) for b in (32, 1))


def blended(low, high):
    """The frequencies of YaRN with a ramp between two pairs."""
    ramp = np.clip((k - low) / (high - low), 0, 1)
    return plain / factor * ramp + plain * (1 - ramp)


rounded, exact = blended(math.floor(low), math.ceil(high)), blended(low, high)
print(f"correction range {low:.3f} .. {high:.3f}, rounded {math.floor(low)} .. {math.ceil(high)}")
for pair in (9, 12, 17):
    print(f"pair {pair}: YaRN's code {rounded[pair]:.8f}, KerasHub {got[pair]:.8f} rad per token")
off = np.abs(got / rounded - 1)
slow, worst = rounded / got, np.abs(got - rounded)
print(f"{(off > 1e-3).sum()} of {dim // 2} frequencies differ, pair {off.argmax()} turns", end=" ")
print(f"{slow.max():.2f} times too slowly; pair {worst.argmax()} is off by 0.1 rad after", end=" ")
print(f"{math.ceil(0.1 / worst.max())} tokens")
assert np.flatnonzero(off > 1e-3).tolist() == list(range(9, 18))
assert 1.76 < slow.max() < 1.77
assert abs(got / exact - 1).max() < 1e-4
