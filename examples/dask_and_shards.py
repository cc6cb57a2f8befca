"""RoPE on Dask arrays, chunk by chunk, and on the shards of a context-parallel group."""

import sys

try:
    import dask.array as da
except ImportError:
    sys.exit('this example needs Dask: pip install "posenc-ref[dask]"')

import numpy as np

import posenc_ref as pr
from posenc_ref.backends import fused

rope = fused(pr.RoPE(64, layout="interleaved"))

# Chunks along batch, heads and sequence; nothing is computed yet, and no chunk needs another.
q = da.random.default_rng(0).standard_normal((2, 8, 4096, 64), chunks=(1, 4, 1024, 64))
turned, path = rope(q, range(4096), explain=True)
print(path)
print(turned.numblocks, turned.dtype, "of", round(turned.nbytes / 2**20), "MiB")

# With dask.distributed, call `Client()` before this line to compute on its workers.
tile = turned[0, 0, 2000:2100].compute()
alone = rope(q[0, 0, 2000:2100].compute(), range(2000, 2100))
print(f"100 rows of it, beside NumPy: {np.abs(tile - alone).max():.1e}")

# Lazy positions give lazy biases: these 2 GiB are never allocated at once.
at = da.arange(8192, chunks=1024)
bias = pr.ALiBi(8).bias(at, at, dtype=np.float32)
print(
    f"bias {bias.shape}, {bias.numblocks[1] * bias.numblocks[2]} blocks, {float(bias[0, -1, -3])}"
)

# Each of 4 ranks holds two chunks of every sequence, zig-zag, so that causal attention is the same
# work for all.  A rank needs only the positions of its own tokens.
lengths, ranks = [0, 1024, 4096], 4  # two packed sequences, 1024 and 3072 tokens
x = np.random.default_rng(1).standard_normal((8, 4096, 64)).astype(np.float32)
whole = rope(x, pr.packed(np.diff(lengths)))
for rank in range(ranks):
    held = pr.shard_indices(lengths, ranks, rank)
    mine = rope(x[:, held], pr.shard_positions(lengths, ranks, rank))
    print(f"rank {rank} holds {held.size} tokens, error {np.abs(mine - whole[:, held]).max():.1e}")
