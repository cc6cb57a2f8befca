"""The type and the bounds of each configuration entry that decides positions: one table.

:func:`entry` reads an entry of a configuration, and :func:`check_rotary` checks the entries of its
rotary parameters.  A missing entry and null are the same; any other value of a wrong type raises,
such as false, "" or [] for a number.

A rule of the table is called with the name of a value, for its message, and the value; it raises
TypeError or ValueError if the value is not allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from posenc_ref import _validate as validate
from posenc_ref._text import shown
from posenc_ref.limits import HEAD_DIM, HEADS, LAYERS, LENGTH, WIDTH

Rule = Callable[[str, Any], object]


def entry(config: Mapping[str, Any], key: str, default: Any = None, rule: str = "") -> Any:
    """Return the value of an entry, or ``default`` if it is missing or null.

    Raise TypeError or ValueError for a value that the table does not allow for ``rule``, by
    default the name of the entry.
    """
    value = config.get(key)
    if value is None:
        return default
    check = _RULES.get(rule or key)
    if check is not None:
        check(key, value)
    return value


def check_rotary(parameters: Mapping[str, Any]) -> None:
    """Raise TypeError or ValueError if a rotary parameter has a value that is not allowed."""
    for key in parameters:
        entry(parameters, key)


def count(name: str, value: Any, minimum: int, maximum: int) -> int:
    """Return an integer within bounds."""
    found = validate.integer(name, value, minimum=minimum)
    if found > maximum:
        raise ValueError(f"{name} must be at most {maximum}, got {shown(value)}")
    return found


def between(minimum: int, maximum: int) -> Rule:
    """Return the rule for integers from ``minimum`` to ``maximum``."""
    return lambda name, value: count(name, value, minimum, maximum)


def length(name: str, value: Any) -> None:
    """Check a number of tokens; some configurations write 4096.0, and some -1 for none."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    if abs(validate.integer(name, value)) > LENGTH:
        raise ValueError(f"{name} must be at most {LENGTH}, got {shown(value)}")


def number(name: str, value: Any) -> None:
    """Check a finite number."""
    validate.real(name, value)


def flag(name: str, value: Any) -> None:
    """Check true or false."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be true or false, got {shown(value)}")


def switch(name: str, value: Any) -> None:
    """Check a flag that early files write as a number: ``attn_temperature_tuning: 4``."""
    if not isinstance(value, bool | int):
        raise TypeError(f"{name} must be true or false, got {shown(value)}")


def mapping(name: str, value: Any) -> None:
    """Check a mapping."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, got {shown(value)}")


def text(name: str, value: Any) -> None:
    """Check a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {shown(value)}")


def list_of(of: Rule, what: str, longest: int = LAYERS) -> Rule:
    """Return the rule for lists whose entries follow the rule ``of``."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, list | tuple | np.ndarray):
            raise TypeError(f"{name} must list {what}, got {shown(value)}")
        if len(value) > longest:
            raise ValueError(f"{name} must have at most {longest} entries, got {len(value)}")
        for i, one in enumerate(value):
            of(f"{name}[{i}]", one)

    return check


def or_list(of: Rule, what: str, longest: int = LAYERS) -> Rule:
    """Return the rule for one value that follows ``of``, or a list of such values."""
    several = list_of(of, what, longest)
    return lambda name, value: (several if isinstance(value, list | tuple | np.ndarray) else of)(
        name, value
    )


def pattern(name: str, value: Any) -> None:
    """Check a period, or letters such as "LLLG"."""
    if not isinstance(value, str):
        count(name, value, 1, LAYERS)
    elif len(value) > LAYERS:
        raise ValueError(f"{name} must have at most {LAYERS} letters, got {len(value)}")


_LAYERS = between(0, LAYERS)
_PERIOD = between(1, LAYERS)
_HEADS = between(1, HEADS)
_CHANNELS = between(1, HEAD_DIM)
_WIDTH = between(1, WIDTH)
_BASES = or_list(number, "numbers")
_NAMES = list_of(text, "names")
_PAIRS = list_of(number, "numbers", HEAD_DIM)
_SECTIONS = list_of(number, "the number of pairs of each axis", HEAD_DIM)


_TABLE: tuple[tuple[Rule, str], ...] = (
    (_LAYERS, "num_hidden_layers n_layer n_layers num_layers first_k_dense_replace "
              "max_window_layers attn_layer_offset"),
    (_PERIOD, "no_rope_layer_interval full_attention_interval layer_group_size attn_layer_period "
              "global_attn_every_n_layers prefix_dense_sliding_window_pattern"),
    (pattern, "sliding_window_pattern"),
    (_HEADS, "num_attention_heads num_heads n_head n_heads speech_encoder_attention_heads "
             "memory_attention_num_attention_heads relative_attention_num_buckets"),
    (or_list(_HEADS, "numbers of heads"), "num_key_value_heads n_kv_heads n_head_kv num_kv_heads "
                                          "num_global_key_value_heads"),
    (_LAYERS, "num_kv_shared_layers"),
    (_CHANNELS, "head_dim global_head_dim swa_head_dim qk_rope_head_dim swa_qk_rope_head_dim "
                "rotary_dim attn_rotary_emb kv_channels"),
    (between(0, HEAD_DIM), "qk_nope_head_dim swa_qk_nope_head_dim rotary_start"),
    (_WIDTH, "dim hidden_size d_model n_embd embed_dim projection_dim q_lora_rank "
             "memory_attention_hidden_size memory_attention_downsample_rate"),
    (length, "max_position_embeddings n_positions max_seq_len seq_length sliding_window "
              "attention_chunk_size original_max_position_embeddings floor_scale "
              "relative_attention_max_distance"),
    (number, "partial_rotary_factor rotary_pct rope_percent attn_scale query_pre_attn_scalar "
              "attention_multiplier alibi_bias_max factor beta_fast beta_slow mscale "
              "mscale_all_dim low_freq_factor high_freq_factor alpha short_mscale long_mscale "
              "llama_4_scaling_beta"),
    (_BASES, "rope_theta rotary_emb_base rotary_embedding_base global_rope_theta local_rope_theta "
             "swa_rope_theta rope_local_base_freq compress_rope_theta layer_rope_theta "
             "partial_rotary_factors attention_factor"),
    (_PAIRS, "short_factor long_factor"),
    (_SECTIONS, "mrope_section xdrope_section"),
    (_NAMES, "layer_types block_types mlp_layer_types"),
    (list_of(lambda name, value: None, "0 and 1"), "no_rope_layers"),
    (list_of(between(0, LENGTH), "tokens for each compressed key"), "compress_ratios"),
    (list_of(_LAYERS, "layers"), "attn_layer_indices rope_scaling_layers"),
    (list_of(length, "window sizes"), "attention_windows"),
    (flag, "use_sliding_window alibi use_dynamic_ntk use_logn_attn position_encoding_2d truncate "
           "mrope_interleaved rope_interleave new_decoder_architecture multi_query"),
    (switch, "attn_temperature_tuning"),
    (mapping, "rope_parameters rope_scaling per_layer_config attn_config"),
    (text, "rope_type type"),
)  # fmt: skip
_RULES: Mapping[str, Rule] = {key: rule for rule, keys in _TABLE for key in keys.split()}
