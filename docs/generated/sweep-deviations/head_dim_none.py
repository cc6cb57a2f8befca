"""A configuration without head_dim crashes three of the six rope types."""

from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralRotaryEmbedding

LENGTH = {"original_max_position_embeddings": 4096}
KINDS = {
    "default": {},
    "linear": {},
    "llama3": {"low_freq_factor": 1.0, "high_freq_factor": 4.0, **LENGTH},
    "dynamic": {},
    "yarn": {},
    "longrope": {"short_factor": [1.0] * 64, "long_factor": [1.0] * 64, **LENGTH},
}
right = []
for kind, more in KINDS.items():
    # transformers 4 and 5 take the parameters under this name
    rope = {"rope_type": kind, "factor": 4.0, **more}
    try:
        MixtralRotaryEmbedding(config=MixtralConfig(rope_theta=1e6, rope_scaling=rope))
    except Exception as error:
        print(f"{kind}: {type(error).__name__}: {error}")
        if "unsupported operand type(s) for *: 'NoneType'" not in str(error):
            raise  # not this mistake
    else:
        print(f"{kind}: fine")
        right.append(kind)
assert right == ["default", "linear", "llama3"]
