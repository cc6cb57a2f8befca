"""YaRN's truncate=False, given once for all layers, and once for each type of layer."""

from transformers import Gemma3TextConfig, LlamaConfig
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

found = {}
for truncate in (True, False):
    rope = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}
    rope |= {"rope_theta": 150000.0, "truncate": truncate}  # gpt-oss's, but for truncate=True
    one = LlamaRotaryEmbedding(LlamaConfig(head_dim=64, rope_parameters=rope))
    each = {"full_attention": rope, "sliding_attention": rope}
    other = Gemma3RotaryEmbedding(Gemma3TextConfig(head_dim=64, rope_parameters=each))
    found[truncate] = one.inv_freq[17].item(), other.full_attention_inv_freq[17].item()
    print(f"truncate={truncate}: pair 17 has {found[truncate][0]} and {found[truncate][1]}")
assert found[True][0] != found[False][0]
assert found[True][1] == found[False][1]
