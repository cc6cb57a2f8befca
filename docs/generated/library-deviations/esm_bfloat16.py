"""ESM C and ESM3 on a GPU: the frequencies of the rotation are rounded to bfloat16."""

import torch
from esm.layers.rotary import RotaryEmbedding

right = 10000 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
module = RotaryEmbedding(64).to(torch.bfloat16)  # as ESMC.from_pretrained on a GPU
module._update_cos_sin_cache(1024, device=torch.device("cpu"), dtype=torch.float64)
for pair, position in ((1, 100), (1, 1000), (9, 1000)):
    found = torch.atan2(module._sin_cached, module._cos_cached)[position, pair].item()
    expected = torch.atan2((position * right[pair]).sin(), (position * right[pair]).cos()).item()
    print(f"pair {pair}, position {position:4}: got angle {found:.4f}, expected {expected:.4f}")
error = (module._cos_cached - (torch.arange(1024)[:, None] * right).cos()).abs()
print("largest error of a cosine:", error.max().item())
assert error.max() > 0.4
