"""A configuration without head_dim crashes three of the six rope types.

The classes that a release lacks, or whose configurations fill head_dim in there, are left out.
"""

from importlib import import_module

LENGTH = {"original_max_position_embeddings": 4096}
KINDS = {
    "default": {},
    "linear": {},
    "llama3": {"low_freq_factor": 1.0, "high_freq_factor": 4.0, **LENGTH},
    "dynamic": {},
    "yarn": {},
    "longrope": {"short_factor": [1.0] * 64, "long_factor": [1.0] * 64, **LENGTH},
}
CLASSES = {
    "mixtral": ("MixtralConfig", "MixtralRotaryEmbedding"),
    "minimax": ("MiniMaxConfig", "MiniMaxRotaryEmbedding"),
    "ministral": ("MinistralConfig", "MinistralRotaryEmbedding"),
    "hunyuan_v1_dense": ("HunYuanDenseV1Config", "HunYuanDenseV1RotaryEmbedding"),
    "hunyuan_v1_moe": ("HunYuanMoEV1Config", "HunYuanMoEV1RotaryEmbedding"),
    "hunyuan_vl": ("HunYuanVLTextConfig", "HunYuanVLRotaryEmbedding"),
}
built = {}
for name, (config_class, rotary_class) in CLASSES.items():
    models = f"transformers.models.{name}"
    try:
        config = getattr(import_module(f"{models}.configuration_{name}"), config_class)
    except ModuleNotFoundError:
        continue
    if getattr(config(), "head_dim", 0) is not None:
        continue
    rotary = getattr(import_module(f"{models}.modeling_{name}"), rotary_class)
    right = built[name] = []
    for kind, more in KINDS.items():
        # transformers 4 and 5 take the parameters under this name
        rope = {"rope_type": kind, "rope_theta": 1e6, "factor": 4.0, **more}
        try:
            rotary(config=config(rope_scaling=rope))
        except Exception as error:
            said = " ".join(str(error).split())
            print(f"{name}, {kind}: {type(error).__name__}: {said}")
            other = name.startswith("hunyuan") and said == "'alpha'"  # a dynamic scaling of its own
            if "unsupported operand type(s) for *: 'NoneType'" not in said and not other:
                raise  # not this mistake
        else:
            print(f"{name}, {kind}: fine")
            right.append(kind)
assert built
assert all(right == ["default", "linear", "llama3"] for right in built.values())
