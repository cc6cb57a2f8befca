"""ggml: two pairs of Qwen3-VL's interleaved sections turn by the fourth position, which is 0."""

import ctypes

import ggml
import numpy as np

POSITION, BASE = 200000, 5e6
memory = ggml.ggml_init_params(mem_size=1 << 20, mem_buffer=None, no_alloc=False)
context = ggml.ggml_init(memory)
x = ggml.ggml_new_tensor_3d(context, ggml.GGML_TYPE_F32, 128, 1, 1)
at = ggml.ggml_new_tensor_1d(context, ggml.GGML_TYPE_I32, 4)
# 1 and 0 in every half-split pair: the result has the cosines, then the sines.
ones = np.repeat(np.array([1, 0], np.float32), 64)
ctypes.memmove(ggml.ggml_get_data(x), ones.ctypes.data, ones.nbytes)
# A token of text: llama.cpp gives it one position three times, and then 0.
for axis, position in enumerate((POSITION, POSITION, POSITION, 0)):
    ggml.ggml_set_i32_1d(at, axis, position)
sections = (ctypes.c_int * 4)(24, 20, 20, 0)  # of Qwen3-VL, and the 0 that the converter adds
numbers = (BASE, 1.0, 0.0, 1.0, 0.0, 0.0)
mode = ggml.GGML_ROPE_TYPE_IMROPE
y = ggml.ggml_rope_multi(context, x, at, None, 128, sections, mode, 0, *numbers)
graph = ggml.ggml_new_graph(context)
ggml.ggml_build_forward_expand(graph, y)
assert ggml.ggml_graph_compute_with_ctx(context, graph, 1) == 0
cos, sin = np.array((ctypes.c_float * 128).from_address(ggml.ggml_get_data(y))).reshape(2, 64)

# All axes have one position, so the sections do not matter: plain rotation.
right = POSITION * BASE ** (-np.arange(64) / 64)
for pair in (59, 60, 61, 62, 63):
    got = np.arctan2(sin[pair], cos[pair])
    print(f"pair {pair}: expected {right[pair]:.5f}, got {got:.5f} rad at position {POSITION}")
off = np.flatnonzero(np.hypot(cos - np.cos(right), sin - np.sin(right)) > 0.05)
print(f"pairs that are off by more than float32 explains: {off.tolist()}")
assert off.tolist() == [61, 62]
assert (sin[off] == 0).all()
