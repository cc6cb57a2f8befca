"""TransformerLens: "dynamic" scales the base below the original length too."""

from types import SimpleNamespace

import torch
from transformer_lens.model_bridge.sources.native.model import NativeRotary

config = SimpleNamespace(rotary_dim=64, d_head=64, n_ctx=2048, rotary_base=10000.0)
plain = NativeRotary(SimpleNamespace(**vars(config), rope_scaling=None))
scaling = {"rope_type": "dynamic", "factor": 2.0}
dynamic = NativeRotary(SimpleNamespace(**vars(config), rope_scaling=scaling))
length = 128
# base * (factor * length / original - (factor - 1)) ** (d / (d - 2)), at most from n_ctx on
growth = max(2.0 * max(length, 2048) / 2048 - 1, 1.0)
right = (10000.0 * growth ** (64 / 62)) ** (-62 / 64)
print(f"slowest frequency in a call of {length} tokens, original length 2048")
found = {}
for name, module in (("no scaling", plain), ("dynamic", dynamic)):
    found[name] = module.sin_cached[1, -1].asin().item()
    print(f"{name:10}: got", found[name])
print("dynamic   : expected", right)
assert abs(found["no scaling"] / right - 1) < 1e-5
assert abs(found["dynamic"] / right - 1 / 2) < 1e-5  # divided by the factor
assert not torch.equal(dynamic.cos_cached[:length], plain.cos_cached[:length])
