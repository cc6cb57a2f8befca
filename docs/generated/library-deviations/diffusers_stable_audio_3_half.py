"""diffusers: Stable Audio 3 in half precision counts and turns in half precision."""

import importlib.util
import tempfile

import numpy as np
import torch
from diffusers import StableAudio3DiTModel

if importlib.util.find_spec("accelerate") is None:
    raise ImportError("accelerate is needed: models are loaded in another way without it")
small = dict.fromkeys(("io_channels", "cond_token_dim", "global_cond_dim", "local_add_cond_dim"), 4)
model = StableAudio3DiTModel(embed_dim=64, depth=1, num_heads=1, timestep_features_dim=4, **small)
length = 4096 + 64  # 380 seconds, and the memory tokens
right = np.arange(length)[:, None] * 10000.0 ** (-np.arange(16) / 16)
worst = []
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    for dtype in (torch.float16, torch.bfloat16):
        loaded = StableAudio3DiTModel.from_pretrained(folder, torch_dtype=dtype)
        angles = loaded.rotary_pos_emb(length, torch.device("cpu"))[:, :16].double().numpy()
        print(dtype, "inv_freq is", loaded.rotary_pos_emb.inv_freq.dtype)
        for p in (300, 1001, 3001):
            print(f"  position {p}: expected {right[p, 1]:.4f} rad, got {angles[p, 1]:.4f}")
        first = int(np.argmax(abs(angles - right).max(1) > 0.1))
        print(f"  first more than 0.1 rad off at position {first}")
        worst.append(abs(angles - right).max())
assert min(worst) > 0.5
