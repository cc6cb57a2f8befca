"""Judge another library's implementation: the rotary embedding of a transformers model.

The adapter reads head_dim, base and scaling from the model's configuration, and the suite says
whether the code follows it. No weights are downloaded.
"""

import sys

try:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
except ImportError:
    sys.exit('this example needs transformers: pip install "posenc-ref[torch,peers]"')

from posenc_ref.conformance import check
from posenc_ref.conformance.adapters import from_transformers

config = LlamaConfig(hidden_size=256, num_attention_heads=4)
implementation = from_transformers(LlamaRotaryEmbedding(config), layout="half")
for dtype in ("float32", "bfloat16"):
    print(check(implementation, dtype=dtype))
    print()
