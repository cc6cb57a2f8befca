# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A rotary embedding by hand
#
# Rotary embeddings turn pairs of channels of queries and keys by an angle that grows with the
# position. This notebook writes one from its formula, judges it, and breaks it in two ways.

# %%
import numpy as np

from posenc_ref import RoPE
from posenc_ref.conformance import check

# %% [markdown]
# Pair k of a head of d channels turns by `theta_k = base ** (-2k/d)` per position. In the half-split
# layout, pair k consists of the channels k and k + d/2.

# %%
d, base = 64, 10000.0
theta = base ** (-2 * np.arange(d // 2) / d)


def rotate(x, positions, sign=1):
    angle = positions[:, None] * theta
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype) * sign
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


# %% [markdown]
# The product of a rotated query and a rotated key depends on the difference of their positions
# alone. The two products below have the difference 3 and agree up to rounding; float64 shows it best.

# %%
q, k = np.random.default_rng(0).standard_normal((2, 1, 1, 1, d))
near = rotate(q, np.array([7])) @ rotate(k, np.array([4])).swapaxes(-1, -2)
far = rotate(q, np.array([1007])) @ rotate(k, np.array([1004])).swapaxes(-1, -2)
assert abs(near - far).item() < 1e-11
near.item(), far.item()

# %% [markdown]
# The suite calls the function on many inputs and compares it with the specification.

# %%
report = check(rotate, RoPE(d, layout="half", base=base), "apply")
assert report.verdict == "conforms"
print(report)

# %% [markdown]
# Weights that were trained with the other layout need the other pairs. The product above would not
# show this mistake: it depends on the difference all the same.

# %%
report = check(rotate, RoPE(d, layout="interleaved", base=base), "apply")
assert report.codes == ["layout"]
print(report.findings[0].message)

# %% [markdown]
# Nor would it show the opposite sign.

# %%
report = check(lambda x, p: rotate(x, p, sign=-1), RoPE(d, layout="half", base=base), "apply")
assert report.codes == ["sign"]
print(report.findings[0].message)
