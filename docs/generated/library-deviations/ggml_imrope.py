"""ggml: two pairs of Qwen3-VL's interleaved sections turn by the fourth position."""

import ctypes

import ggml
import numpy as np

POSITION, BASE = 200000, 5e6


def angles(*positions):
    """Return the angles of the 64 pairs of a token with these four positions."""
    memory = ggml.ggml_init_params(mem_size=1 << 20, mem_buffer=None, no_alloc=False)
    context = ggml.ggml_init(memory)
    x = ggml.ggml_new_tensor_3d(context, ggml.GGML_TYPE_F32, 128, 1, 1)
    at = ggml.ggml_new_tensor_1d(context, ggml.GGML_TYPE_I32, 4)
    # 1 and 0 in every half-split pair: the result has the cosines, then the sines.
    ones = np.repeat(np.array([1, 0], np.float32), 64)
    ctypes.memmove(ggml.ggml_get_data(x), ones.ctypes.data, ones.nbytes)
    for axis, position in enumerate(positions):
        ggml.ggml_set_i32_1d(at, axis, position)
    sections = (ctypes.c_int * 4)(24, 20, 20, 0)  # of Qwen3-VL, and the 0 that the converter adds
    numbers = (BASE, 1.0, 0.0, 1.0, 0.0, 0.0)
    mode = ggml.GGML_ROPE_TYPE_IMROPE
    y = ggml.ggml_rope_multi(context, x, at, None, 128, sections, mode, 0, *numbers)
    graph = ggml.ggml_new_graph(context)
    ggml.ggml_build_forward_expand(graph, y)
    assert ggml.ggml_graph_compute_with_ctx(context, graph, 1) == 0
    cos, sin = np.array((ctypes.c_float * 128).from_address(ggml.ggml_get_data(y))).reshape(2, 64)
    return np.arctan2(sin, cos)


# All axes have one position, so the sections do not matter: plain rotation. llama.cpp gives a token
# of text the fourth position 0.
right = POSITION * BASE ** (-np.arange(64) / 64)
got = angles(POSITION, POSITION, POSITION, 0)
for pair in (59, 60, 61, 62, 63):
    print(f"pair {pair} at position {POSITION}: expected", end=" ")
    print(f"{right[pair]:.5f}, got {got[pair]:.5f} rad")
off = np.flatnonzero(abs(np.exp(1j * got) - np.exp(1j * right)) > 0.05)
print(f"pairs that are off by more than float32 explains: {off.tolist()}")
assert off.tolist() == [61, 62]
assert (got[off] == 0).all()

rows = POSITION * np.eye(4, dtype=int)
turned = [np.flatnonzero(angles(*map(int, row))).tolist() for row in rows]
print("pairs that turn by time, height, width and the fourth position:", *map(len, turned))
assert turned[3] == [61, 62]
