# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # What a frequency scaling changes
#
# A model that was trained on L0 tokens has seen every angle of its fast pairs of channels, and only a
# part of the turn of its slow pairs. This notebook compares four scalings of Llama 3 8B from 8192 to
# 32768 tokens.

# %%
import matplotlib.pyplot as plt
import numpy as np

from posenc_ref import LinearScaling, Llama3Scaling, NTKScaling, YaRN, preset

plain = preset("llama-3-8b").only
trained, planned = 8192, 32768
factor = planned / trained

# %% [markdown]
# A pair with frequency f turns `L0 f / (2 pi)` times within the trained length. The pairs with less
# than one turn reach angles at 32768 that the model never saw.

# %%
turns = trained * plain.frequencies() / (2 * np.pi)
unseen = int((turns < 1).sum())
assert (turns.size, unseen) == (64, 29)
print(f"{unseen} of {turns.size} pairs turn less than once in {trained} tokens")

# %% [markdown]
# Each scaling divides the frequencies by another number. A division by 4 brings all positions back
# into the trained range; a division by 1 keeps the distances between near tokens.

# %% mystnb={"image": {"alt": "Four lines over the pairs of channels: linear divides all frequencies by 4; NTK rises from 1 to 4; YaRN and Llama 3 stay at 1 for fast pairs and reach 4 for slow ones."}}
scalings = {
    "linear": LinearScaling(factor),
    "NTK": NTKScaling(factor),
    "YaRN": YaRN(factor, trained),
    "Llama 3": Llama3Scaling(factor, 1.0, 4.0, trained),
}
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
divisors = {}
for (name, scaling), style in zip(scalings.items(), ["-", "--", "-.", ":"], strict=True):
    divisors[name] = plain.frequencies() / plain.replace(scaling=scaling).frequencies()
    axes.plot(divisors[name], style, label=name)
axes.set(xlabel="pair of channels, fast to slow", ylabel="frequency divided by", title="")
axes.legend()
plt.show()

# %% [markdown]
# All four divide the slowest pair by 4. Only the linear scaling slows down the fastest one.

# %%
ends = {name: (round(d[0], 6), round(d[-1], 6)) for name, d in divisors.items()}
assert ends == {"linear": (4, 4), "NTK": (1, 4), "YaRN": (1, 4), "Llama 3": (1, 4)}
ends

# %% [markdown]
# YaRN does one thing more, which ports forget: it multiplies cos and sin, so that logits get the square
# of this number.

# %%
m = {name: plain.replace(scaling=s).attention_factor() for name, s in scalings.items()}
assert [name for name, value in m.items() if value != 1] == ["YaRN"]
m
