"""Run the encodings on PyTorch tensors, on a GPU if there is one.

The same calls take NumPy, CuPy, JAX and Dask arrays; the result stays where x is.
"""

import sys

try:
    import torch
except ImportError:
    sys.exit('this example needs PyTorch: pip install "posenc-ref[torch]"')

from posenc_ref import ALiBi, RoPE

device = "cuda" if torch.cuda.is_available() else "cpu"
rope = RoPE(128, layout="half", base=500000.0)

q = torch.randn(2, 8, 16, 128, device=device, dtype=torch.bfloat16)
k = torch.randn(2, 8, 4096, 128, device=device, dtype=torch.bfloat16)
keys = torch.arange(4096, device=device)
queries = keys[-16:]  # decoding: the queries of the last 16 tokens

rotated_q, rotated_k = rope.apply(q, queries), rope.apply(k, keys)
print("q", tuple(rotated_q.shape), rotated_q.dtype, rotated_q.device)
print("k", tuple(rotated_k.shape), rotated_k.dtype, rotated_k.device)

# The score of a query and a key depends only on their distance.
near = rope.apply(k[:, :, :1], queries[:1] - 5)
far = rope.apply(k[:, :, :1], queries[:1] - 5 + 100000)
moved = rope.apply(q[:, :, :1], queries[:1] + 100000)
print("score", float((rotated_q[0, 0, 0] * near[0, 0, 0]).sum()))
print("100000 positions later", float((moved[0, 0, 0] * far[0, 0, 0]).sum()))

bias = ALiBi(8).bias(queries, keys, dtype=torch.float32)
print("bias", tuple(bias.shape), bias.dtype, bias.device)
