"""The type and the bounds of each key of a GGUF file that decides positions: one table.

Keys are without the prefix of the architecture.
"""

from __future__ import annotations

from collections.abc import Mapping

from posenc_ref.limits import HEAD_DIM, HEADS, LAYERS, LENGTH, WIDTH

from .config_fields import Rule, between, flag, list_of, number, or_list, text

_CHANNELS = between(1, HEAD_DIM)
_TOKENS = between(0, LENGTH)

_TABLE: tuple[tuple[Rule, str], ...] = (
    (between(1, LAYERS), "block_count"),
    (between(1, WIDTH), "embedding_length"),
    (or_list(between(0, HEADS), "numbers of heads"),
     "attention.head_count attention.head_count_kv"),
    (_CHANNELS, "attention.key_length attention.key_length_mla rope.dimension_count "
                "rope.dimension_count_swa"),
    (_TOKENS, "context_length attention.sliding_window rope.scaling.original_context_length"),
    (number, "rope.freq_base rope.freq_base_swa rope.scale_linear rope.scaling.factor "
             "rope.scaling.alpha rope.scaling.attn_factor rope.scaling.yarn_log_multiplier "
             "rope.scaling.yarn_ext_factor rope.scaling.yarn_attn_factor "
             "rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow attention.scale"),
    (flag, "rope.scaling.finetuned"),
    (text, "rope.scaling.type"),
    (list_of(between(0, HEAD_DIM), "numbers of pairs"), "rope.dimension_sections"),
)  # fmt: skip
#: The rule for each key.
RULES: Mapping[str, Rule] = {key: rule for rule, keys in _TABLE for key in keys.split()}
