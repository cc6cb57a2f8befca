"""A configuration without head_dim crashes three of the six rope types."""

from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralRotaryEmbedding

for kind in ("linear", "dynamic", "yarn"):
    rope = {"rope_type": kind, "factor": 4.0, "rope_theta": 1e6}
    try:
        MixtralRotaryEmbedding(MixtralConfig(rope_parameters=rope))
        print(f"{kind}: fine")
    except TypeError as error:
        print(f"{kind}: {error}")
        assert kind != "linear"
