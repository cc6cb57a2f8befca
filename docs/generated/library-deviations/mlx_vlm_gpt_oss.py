"""MLX-VLM: gpt-oss's truncate=False is ignored, and the correction range is rounded."""

import math

import mlx.core as mx
import numpy as np
from mlx_vlm.models.rope_utils import initialize_rope

config = {
    "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
    "original_max_position_embeddings": 4096,
}  # fmt: skip
rope = initialize_rope(64, 150000, False, config, 131072)
k, plain = np.arange(32), 150000.0 ** (-np.arange(32) / 32)
low, high = (64 * math.log(4096 / (b * 2 * math.pi)) / (2 * math.log(150000)) for b in (32, 1))


def yarn(low, high):
    """Return the frequencies of YaRN."""
    ramp = np.clip((k - low) / (high - low), 0, 1)
    return plain / 32 * ramp + plain * (1 - ramp)


right, rounded = yarn(low, high), yarn(math.floor(low), math.ceil(high))
got = 1 / np.array(rope._freqs.astype(mx.float32), dtype=float)
print(f"correction range {low:.3f} .. {high:.3f}")
for pair in (9, 12, 17):
    print(f"pair {pair}: expected {right[pair]:.8f}, got {got[pair]:.8f} rad per token")
off, worst = abs(got / right - 1), abs(got - right)
print(f"{(off > 1e-3).sum()} of 32 frequencies differ, pair {off.argmax()} turns", end=" ")
print(f"{(got / right).max():.2f} times too fast; pair {worst.argmax()} is off by 0.1 rad", end=" ")
print(f"between tokens {math.ceil(0.1 / worst.max())} apart")
assert abs(got / rounded - 1).max() < 1e-5
assert np.flatnonzero(off > 1e-3).tolist() == list(range(9, 18))
assert 1.76 < (got / right).max() < 1.77
