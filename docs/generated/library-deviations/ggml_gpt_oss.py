"""ggml: the correction range of YaRN is always rounded, which gpt-oss's truncate=False forbids."""

import ctypes
import math

import ggml
import numpy as np

memory = ggml.ggml_init_params(mem_size=1 << 20, mem_buffer=None, no_alloc=False)
context = ggml.ggml_init(memory)
x = ggml.ggml_new_tensor_3d(context, ggml.GGML_TYPE_F32, 64, 1, 1)
at = ggml.ggml_new_tensor_1d(context, ggml.GGML_TYPE_I32, 1)
# 1 and 0 in every half-split pair: the result has the cosines, then the sines.
ones = np.repeat(np.array([1, 0], np.float32), 32)
ctypes.memmove(ggml.ggml_get_data(x), ones.ctypes.data, ones.nbytes)
ggml.ggml_set_i32(at, 1)
# As llama.cpp calls it for gpt-oss: factor 32, original context 4096, beta_fast 32, beta_slow 1.
numbers = (150000.0, 1 / 32, 1.0, 1.0, 32.0, 1.0)
y = ggml.ggml_rope_ext(context, x, at, None, 64, ggml.GGML_ROPE_TYPE_NEOX, 4096, *numbers)
graph = ggml.ggml_new_graph(context)
ggml.ggml_build_forward_expand(graph, y)
assert ggml.ggml_graph_compute_with_ctx(context, graph, 1) == 0
cos, sin = np.array((ctypes.c_float * 64).from_address(ggml.ggml_get_data(y))).reshape(2, 32)
got = np.arctan2(sin, cos)

k, plain = np.arange(32), 150000.0 ** (-np.arange(32) / 32)
low, high = (64 * math.log(4096 / (b * 2 * math.pi)) / (2 * math.log(150000)) for b in (32, 1))


def yarn(low, high):
    """Return the frequencies of YaRN."""
    ramp = np.clip((k - low) / (high - low), 0, 1)
    return plain / 32 * ramp + plain * (1 - ramp)


right, rounded = yarn(low, high), yarn(math.floor(low), math.ceil(high))
print(f"correction range {low:.3f} .. {high:.3f}")
for pair in (9, 12, 17):
    print(f"pair {pair}: expected {right[pair]:.8f}, got {got[pair]:.8f} rad per token")
off = abs(got / right - 1)
print(f"{(off > 1e-3).sum()} of 32 frequencies differ, pair {off.argmax()} turns", end=" ")
print(f"{(got / right).max():.2f} times too fast")
worst = abs(got - right)
print(f"pair {worst.argmax()} is off by 0.1 rad between tokens", end=" ")
print(f"{math.ceil(0.1 / worst.max())} apart; within 128 tokens no pair by", end=" ")
print(f"more than {128 * worst.max():.3f} rad")
assert abs(got / rounded - 1).max() < 1e-5
assert np.flatnonzero(off > 1e-3).tolist() == list(range(9, 18))
assert 1.76 < (got / right).max() < 1.77
