"""MLX-VLM: InternLM2 and InternLM3 double all positions."""

import importlib

import mlx.core as mx
import numpy as np

settings = {
    "hidden_size": 64, "num_hidden_layers": 1, "intermediate_size": 8, "num_attention_heads": 1,
    "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "vocab_size": 9, "bias": False,
    "qkv_bias": False, "head_dim": 64, "max_position_embeddings": 32768, "rope_theta": 1e6,
    "rope_scaling": {"type": "dynamic", "rope_type": "dynamic", "factor": 2.0},
}  # fmt: skip
x = np.ones((1, 1, 4, 64), "float32")
angle = 3 * 1e6 ** (-np.arange(32) / 32)
right = np.cos(angle) - np.sin(angle)  # of token 3, in half-split pairs
for model in ("internlm2", "internlm3"):
    config = importlib.import_module(f"mlx_vlm.models.{model}.config")
    language = importlib.import_module(f"mlx_vlm.models.{model}.language")
    args = config.ModelConfig.from_dict({"model_type": model, **settings})
    rope = language.Attention(args).rope
    got = np.array(rope(mx.array(x)))[0, 0, 3, :32]
    doubled = np.cos(2 * angle) - np.sin(2 * angle)
    print(model, "rotates by positions times", rope.scale)
    print("  token 3 expected", right[:3].round(4), "got", got[:3].round(4))
    print("  token 6 would be", doubled[:3].round(4))
    assert np.allclose(got, doubled, atol=1e-5)
assert rope.scale == 2.0
