"""A configuration without head_dim crashes three of the six rope types."""

from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralRotaryEmbedding

for kind in ("linear", "dynamic", "yarn"):
    rope = {"rope_type": kind, "factor": 4.0}  # transformers 4 and 5 take it under this name
    try:
        MixtralRotaryEmbedding(config=MixtralConfig(rope_theta=1e6, rope_scaling=rope))
        print(f"{kind}: fine")
        assert kind == "linear"
    except TypeError as error:
        print(f"{kind}: {error}")
        if kind == "linear":
            raise  # not this mistake
