"""Long contexts, images, tables of a million positions, and biases as views."""

import numpy as np

import posenc_ref as pr
from posenc_ref.backends import fused

rng = np.random.default_rng(0)
x = rng.standard_normal((1, 2, 96, 64)).astype(np.float32)

# YaRN: frequencies do not depend on the length.  Its attention factor is in cos and sin.
yarn = fused(pr.RoPE(64, layout="half", scaling=pr.YaRN(4.0, 32768)))
print("YaRN", yarn(x, range(96)).shape, "attention factor", yarn.encoding.attention_factor())

# Frequencies that depend on the length: by default it is the largest position of the call plus one,
# so a decoding step is rotated as at its own length.  seq_len= overrides it.
longrope = pr.RoPE(64, layout="half", scaling=pr.LongRoPE((1.0,) * 32, (8.0,) * 32, 64, factor=4.0))
short, long = fused(longrope)(x[:, :, :32], range(32)), fused(longrope)(x, range(96))[:, :, :32]
print("LongRoPE, 32 tokens alone or with 64 more: equal?", np.array_equal(short, long))
same = fused(longrope)(x[:, :, :32], range(32), seq_len=96)
print("with seq_len=96: equal?", np.array_equal(same, long))
assert np.array_equal(same, long)
assert not np.array_equal(short, long)

# Prepared tables have a fixed length: those of prepare(range(96)) rotate 32 tokens as in 96.
# Prepare one table for each length.
for_short = fused(longrope).prepare(range(64), like=x)
for_long = fused(longrope).prepare(range(4096), like=x)
print("prepared: equal?", np.array_equal(for_short(x[:, :, :32]), short),
      np.array_equal(for_long(x[:, :, :32]), short))  # fmt: skip

# M-RoPE: 4 text tokens, an image of 8 x 12 patches merged two by two, and text again.
kinds = [0] * 4 + [1] * 24 + [0] * 3
at = pr.mrope_positions(kinds, image_grids=[(1, 8, 12)], spatial_merge_size=2)
mrope = fused(pr.preset("qwen2-vl").only)
q = rng.standard_normal((1, 2, len(kinds), 128)).astype(np.float32)
turned, path = mrope(q, at, explain=True)
print("M-RoPE", at.shape, "goes on at", at.max() + 1, "by", path)

# A vision tower: half of the channels follow the row, half the column.
tower = fused(pr.MultiAxisRoPE(64, sections=(16, 16), layout="half"))
patches = rng.standard_normal((1, 2, 6 * 8, 64)).astype(np.float32)
print("2-D", tower(patches, pr.grid_positions(6, 8)).shape)

# Tables of a million positions, each number within half an ulp of float32.
cos, sin = fused(pr.RoPE(64, layout="half")).cos_sin(range(2**20), dtype=np.float32)
pe = fused(pr.Sinusoidal(64))(range(2**20), dtype=np.float32)
print("tables", cos.shape, sin.shape, pe.shape)

# Biases of the distance are views; written out, 32 heads of 32768 tokens would take 137 GB.
alibi, path = fused(pr.ALiBi(32))(32768, 32768, dtype=np.float32, explain=True)
print("ALiBi", alibi.shape, "by", path)
t5 = fused(pr.T5Bias(rng.standard_normal((32, 8)).astype(np.float32)))
print("T5", t5(1, 1000).shape, "for one query at the end of 1000 keys")
kerple = fused(pr.Kerple([0.5] * 8, [2.0] * 8))
print("KERPLE of a rank with heads 2 and 3", kerple(64, 64)[2:4].shape)
