"""The names of query and key weights in the checkpoints of Hugging Face, Meta and llama.cpp.

The name of a tensor is read as ``prefix layers.NUMBER. module . part``: in
``model.layers.3.self_attn.q_proj.weight``, the module is ``self_attn.q_proj``, the part ``weight``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

#: The role of a module, by the last word of its name.
_ROLES = {
    "q": ("q_proj", "wq", "attn_q", "query", "query_proj", "q_b_proj", "wq_b", "attn_q_b"),
    "k": ("k_proj", "wk", "attn_k", "key", "key_proj"),
    # DeepSeek's latent attention: the rotated key is in the last rows.
    "latent": ("kv_a_proj_with_mqa", "wkv_a", "attn_kv_a_mqa", "fused_qkv_a_proj_with_mqa"),
    "qkv": ("qkv_proj", "query_key_value", "Wqkv", "wqkv", "c_attn", "W_pack", "attn_qkv", "qkv",
            "linear_qkv"),
    "q_norm": ("q_norm", "query_norm", "q_layernorm", "query_layernorm", "attn_q_norm"),
    "k_norm": ("k_norm", "key_norm", "k_layernorm", "key_layernorm", "attn_k_norm"),
    # Keys together with values, in an order that differs from model to model.
    "kv": ("kv_proj", "wkv", "attn_kv", "linear_kv"),
}  # fmt: skip
_ROLE = {word: role for role, words in _ROLES.items() for word in words}
#: Modules between the layer and the projection that have no rotary encoding, or one of their own.
_OTHER = re.compile(
    r"cross|encoder_attn|encdec|linear_attn|indexer|mlp|ffn|feed_forward|experts|vision|visual"
)
#: Prefixes of towers for images and sound, which have heads of their own.
_TOWER = re.compile(r"vision|visual|image|audio|speech|video|talker|code_predictor|token2wav")
_LAYER = re.compile(r"^(.*?)\b(?:layers|layer|blk|h|blocks)\.(\d+)\.(.+)$")


class Name(NamedTuple):
    """A tensor name, taken apart."""

    prefix: str  #: what comes before the number of the layer, such as "model."
    layer: int | None  #: the number of the layer; None for a tensor outside numbered layers
    role: str  #: "q", "k", "latent", "qkv", "q_norm", "k_norm" or "kv"
    word: str  #: the module's last word, such as "q_proj"
    part: str  #: what follows the module, such as "weight", "bias" or "lora_B.weight"

    @property
    def tower(self) -> bool:
        """Whether the prefix is that of a tower for images or sound."""
        return _TOWER.search(self.prefix) is not None


def parse(name: str) -> Name | None:
    """Return the parts of a name, or None if it is no query or key tensor of self-attention."""
    match = _LAYER.match(name)
    prefix, layer, rest = (match[1], int(match[2]), match[3]) if match else ("", None, name)
    words = rest.split(".")
    at = next((i for i, word in enumerate(words) if word in _ROLE), None)
    if at is None or at + 1 == len(words):
        return None
    if _OTHER.search(".".join(words[:at])):
        return None
    return Name(prefix, layer, _ROLE[words[at]], words[at], ".".join(words[at + 1 :]))
