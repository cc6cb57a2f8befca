# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # How exact are angles?
#
# An angle is a position times a frequency. If the frequency is rounded, the error grows with the
# position. This notebook measures it against posenc_ref, whose cosines are exact to a rounding of float64.

# %%
import matplotlib.pyplot as plt
import ml_dtypes
import numpy as np

from posenc_ref import RoPE
from posenc_ref.conformance import check

rope = RoPE(64, layout="half", base=500000.0)
frequencies = rope.frequencies()
positions = 2 ** np.arange(0, 21)

# %% [markdown]
# The largest error of the cosines of all pairs, for frequencies that are rounded to three dtypes. The
# multiplication itself is done in float64 here, so nothing else is rounded.


# %%
def error(dtype):
    rounded = frequencies.astype(dtype).astype(np.float64)
    exact, _ = rope.cos_sin(positions, dtype=np.float64)
    return np.abs(np.cos(positions[:, None] * rounded) - exact).max(axis=-1)


errors = {
    "float32": error(np.float32),
    "float16": error(np.float16),
    "bfloat16": error(ml_dtypes.bfloat16),
}

# %% mystnb={"image": {"alt": "The error grows in proportion to the position in all three dtypes. bfloat16 is wrong by almost 1 at position 1000, float16 by as much at position 20000, float32 by 0.02 at position one million."}}
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for (name, values), style in zip(errors.items(), ["-", "--", ":"], strict=True):
    axes.loglog(positions, np.maximum(values, 1e-9), style, label=name)
axes.axhline(2.0**-9, color="black", linewidth=0.8)
axes.set(xlabel="position", ylabel="largest error of a cosine")
axes.legend()
plt.show()

# %% [markdown]
# The black line is 2 ** -9, the error of rounding 1 to bfloat16. Above it the error is visible in
# bfloat16 models. The first position tried with a visible error is:

# %%
first = {name: int(positions[np.argmax(values > 2.0**-9)]) for name, values in errors.items()}
assert first["bfloat16"] <= 8
assert first["float32"] >= 16384
first

# %% [markdown]
# `model.to(torch.bfloat16)` rounds a buffer of frequencies in this way. `check` names it, from the
# results of the function alone:

# %%
rounded = frequencies.astype(ml_dtypes.bfloat16).astype(np.float32)


def apply(x, positions):
    angle = positions[:, None].astype(np.float32) * rounded
    cos, sin = np.cos(angle), np.sin(angle)
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


report = check(apply, rope, "apply")
assert report.codes == ["angle-precision"]
print(report)
