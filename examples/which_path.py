"""Print the path that `fused` takes for an array, its time, and what makes it slow."""

import time

import numpy as np

import posenc_ref as pr
from posenc_ref.backends import fused


def milliseconds(call):
    """Return the best of three, after one call that fills the caches."""
    call()
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def show(what, encoding, x, positions):
    rope = fused(encoding)
    path = rope(x, positions, explain=True)[1]
    fast = milliseconds(lambda: rope(x, positions))
    slow = milliseconds(lambda: encoding.apply(x, positions))
    print(f"{what:<42} {fast:7.2f} ms  apply {slow:7.2f} ms  {path}")


half = pr.RoPE(64, layout="half")
pairs = pr.RoPE(64, layout="interleaved")
x = np.random.default_rng(0).standard_normal((1, 8, 1024, 64)).astype(np.float32)
at = range(1024)

show("pairs side by side", pairs, x, at)
show("halves", half, x, at)
show("half precision", half, x.astype(np.float16), at)
show("positions of their own for each row", half, x[0][:, None], np.arange(8192).reshape(8, 1024))

# Strides of the last axis have no fast path; other axes may have any strides.
show("heads and tokens exchanged, a view", half, x.swapaxes(1, 2).copy().swapaxes(1, 2), at)
show("channels in a stride", half, x.repeat(2, axis=-1)[..., ::2], at)  # np.ascontiguousarray(x)
show("big-endian numbers", half, x.astype(">f4"), at)  # x.astype(np.float32)

# An encoding with another output layout has no fast path.
moved = pr.RoPE(64, layout="half", output_layout="interleaved")
show("pairs that change places", moved, x, at)

# Small calls spend most of their time on computing or finding tables.
token, rope = x[:, :, :1], fused(half)
ready = rope.prepare(range(4096), like=token)
out = np.empty_like(token)
print(f"one token: apply {milliseconds(lambda: half.apply(token, 1000)) * 1e3:6.1f} us")
print(f"           fused {milliseconds(lambda: rope(token, 1000)) * 1e3:6.1f} us, tables kept")
print(f"           ready {milliseconds(lambda: ready(token, 1000)) * 1e3:6.1f} us, tables prepared")
print(f"           out=  {milliseconds(lambda: ready(token, 1000, out=out)) * 1e3:6.1f} us")

# Allocating a large result is expensive: pass out=, or out=x to work in place.
big = np.ones((1, 64, 4096, 64), np.float32)
there = np.empty_like(big)
print(f"64 MiB: fresh {milliseconds(lambda: rope(big, range(4096))):5.1f} ms")
print(f"        out=  {milliseconds(lambda: rope(big, range(4096), out=there)):5.1f} ms")
