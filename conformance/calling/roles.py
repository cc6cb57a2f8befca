"""Call a function by the roles of its parameters.

Libraries name the same argument differently: `q`, `xq` and `query_layer` have the role "query".
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from .signatures import signature_of

#: The role of a parameter, and the names that libraries give it; the first match counts.
ROLES: dict[str, str] = {
    "packed": r"x?qkv",
    "query": r"x?q|query(_layer|_states|_rot)?|q_(states|embed|rot|pe|rope)",
    "key": r"x?k|key(_layer|_states|_rot)?|k_(states|embed|rot|pe|rope)",
    "value": r"x?v|value(_layer|_states)?",
    "x": r"x|t|tensor|hidden_states|qk|states|embeds?|inputs|inp|vec(tor)?s?|x_in|input_tensor",
    "logits": r"attn(_scores|_weights|_logits)?|attention_scores|(qk_)?logits",
    "rows_height": r"rel(ative)?_pos(ition)?(_(emb|embed|table))?_(h|height|y)",
    "rows_width": r"rel(ative)?_pos(ition)?(_(emb|embed|table))?_(w|width|x)",
    "cos": r"cos(ines?|_(table|cache|cached|pos|freqs|embs?|emb(edding)?s?))?|freqs_cos|c",
    "sin": r"sin(es?|_(table|cache|cached|pos|freqs|embs?|emb(edding)?s?))?|freqs_sin|s",
    "turns": r"freqs_(cis?|complex)",
    "sin_cos": r"sinusoidal_pos",
    "cos_sin": r"(relative_)?position_embeddings|rotary_pos_emb",
    "table": r"freqs?|(rotary_|image_)?rope(_cache|_table)?|rotary_(emb|freqs|pos)|angles?|"
    r"(rotary_|rope_)?pos_embs?|cos_sin(_cache|_table)?|sin_cos|freqs_(real|cos_sin)|cache|"
    r"emb(ed)?s?|rotations?",
    "frames": r"[TfF]|(num_|n_)?frames|grid_(t|depth)|(num_|n_)?[tT]_patches|end_t|"
    r"(t|temporal)_(len(gth)?|size)",
    "grid_height": r"h|H|hh|ph|ny|(grid|patch|num|n|feat|img|image|latent)_?(h|height|rows)|"
    r"[hH](eight)?_(len(gth)?|size|patches)|(len|win)_h|height|num_patches_(h|height|y)|end_y|n_rows|size_[hy]",
    "grid_width": r"w|W|ww|pw|nx|(grid|patch|num|n|feat|img|image|latent)_?(w|width|cols|columns)|"
    r"[wW](idth)?_(len(gth)?|size|patches)|(len|win)_w|width|num_patches_(w|width|x)|end_x|n_cols|size_[wx]",
    "crop": r"crops?_coords",
    "grid_of_each": r"grid_sizes",
    "grid": r"(feat(ure)?|grid|patch(es)?|spatial|latent|tokens?|win(dow)?)_?"
    r"(shapes?|sizes|dims|resolution|hw|size(?<!patch_size))|hw|HW|shape|size_hw|hw_size|grid",
    "image_size": r"(img|image|input)_(size|resolution|shape|dims)|resolution",
    "grid_thw": r"(image_|video_)?grid_thws?|grid_hws?",
    "side": r"(pt|ft)_(hw_)?seq_len|(grid_|feat_)?side(_len(gth)?)?",
    "grid_tokens": r"(num|n)_patches",
    "patch": r"patch_size",
    "merge": r"(spatial_)?merge_size|merge",
    "in_pixels": r"in_pixels",
    "position_row": r"(pos(itions?)?|ids?|idx|coords?)_(h|y|rows?|height)|(h|y|row|height)_"
    r"(pos(itions?)?|ids?|idx|coords?)",
    "position_column": r"(pos(itions?)?|ids?|idx|coords?)_(w|x|cols?|columns?|width)|"
    r"(w|x|cols?|column|width)_(pos(itions?)?|ids?|idx|coords?)",
    "position_frame": r"(pos(itions?)?|ids?|idx|coords?)_(t|frames?|time)|(t|frame|time)_"
    r"(pos(itions?)?|ids?|idx|coords?)",
    "positions": r"(img_|txt_|image_)?ids|coords|pos_hw|"
    r"(input_)?position_ids|(token_|input_)?positions?|(input_)?pos(_ids?|_idx)?|"
    r"positions_ids|indices|timesteps?",
    "offset": r"(seq_?(len)?_|pos(ition)?_|kv_|cache_|rope_)?offsets?|start(_pos(ition)?|_index)?|"
    r"past_len(gth)?|input_offset|index_pos",
    "image": r"pixel_values",
    "points": r"keypoints",
    "coordinates": r"ref_pos",
    "identity": r"ref_space_uid",
    "layer_type": r"layer_type",
    "shape": r"inputs?(_ids)?_shape",
    "tokens": r"input(_ids)?|(attention_|pixel_)?mask",
    "embeddings": r"inputs?_embeds",
    "length": r"(max_?)?seq(uence)?_?len(gth)?|max_(length|len|pos(itions?)?)|end|seqlen|"
    r"max_position(s|_embeddings)|n_positions?|num_(positions|pos|embeddings)|max_seq_length|"
    r"length|ctx_len(gth)?|n_ctx|block_size|context_length|max_seqlen|size",
    "cu_seqlens": r"cu_?seq_?len(gth)?s?(_[qk])?|cumulative_seq_?lens?|document_bounds",
    "segments": r"(segment|seg|document|doc|sequence|seq)_ids?|segmentation",
    "start": r"past_key_values_length|past_seen_tokens",
    "dtype": r"dtype|params_dtype",
    "device": r"device",
    "config": r"((text|module|model|decoder|encoder|vision|audio|atom)_)?(config|cfg)|args|params|"
    r"hparams|model_args",
    "num_heads": r"(num|n)_(attention_)?heads?|heads|n_head|num_q_heads",
    "head_dim": r"head_(dim|size|width)|d_head|dim_(per_)?head|kv_channels|head_dimension|"
    r"attention_head_(size|dim)|d_k",
    "rotary_dim": r"dims?|d|rot(ary)?_(emb_)?dims?|rotary_ndims|n_rot|n_elem|rope_dim",
    "width": r"d_model|(hidden|model|embed(ding)?)_(dims?|size)|features|d_hid|(num_)?channels|"
    r"dim_model|n_embd|emb_size|num_pos_feats",
    "base": r"(rope_|rotary_|rotary_emb_|freq_)?(base|theta)|max_wavelength|temperature|"
    r"base_frequency|rope_base_frequency",
    "interleaved": r"(is_|rotary_|rope_)?interleaved?|traditional|adjacent(_pairs)?|"
    r"(is_)?gptj(_style)?",
    "neox": r"(is_|use_)?neox(_style|_rotary_style)?|half_split|(use_)?rotate_half",
    "factor": r"(rope_)?(scaling_?)?factor|scale_factor|rope_scaling_factor|linear_factor",
    "scale": r"scale",
    "dropout": r"dropout(_rate|_p)?",
    "scaling": r"rope_(scaling|parameters|config)|scaling_(config|args|params)|rope_params",
    "partial": r"rotary_(percent(age)?|pct|fraction)|partial_rotary_factor|rope_(pct|percentage)",
    "low_freq_factor": r"low_freq_factor",
    "high_freq_factor": r"high_freq_factor",
    "original_length": r"orig(inal)?_(max_)?(position(s|_embeddings)?|seq_len|seq_length|"
    r"context_len(gth)?|length)|old_context_len(gth)?|initial_context_length|ori_max_pe_len|"
    r"original_max_seq_len",
    "beta_fast": r"beta_fast|ntk_beta|beta_high",
    "beta_slow": r"beta_slow|ntk_alpha|beta_low",
    "sections": r"(m)?rope_sections?|sections?",
    "axes_dim": r"(rope_)?axes_dims?(_rope)?",
    "relative_position": r"(relative|rel)_pos(ition)?s?|distances?|offsets_ij",
    "bidirectional": r"bidirectional",
    "num_buckets": r"(num|n)_buckets|bucket_size",
    "max_distance": r"max_distance",
    "query_length": r"(query|q|tgt)_?(len(gth)?|size)|qlen|real_seq_length|rows|i",
    "key_length": r"(key|k|src)_?(len(gth)?|size)|klen|columns|j",
}


#: Roles of numbers that say how large something is, or of settings: never of a vector or a table.
_NUMBERS = {
    "base", "bidirectional", "factor", "grid", "grid_height", "grid_width", "head_dim",
    "image_size", "max_distance", "num_buckets", "num_heads", "rotary_dim", "side", "width",
}  # fmt: skip


class Unbound(ValueError):
    """The caller has no value for the role of a required parameter."""


def role_of(parameter: str) -> str | None:
    """Return the role that a parameter's name indicates, or None."""
    return next((role for role, names in ROLES.items() if re.fullmatch(names, parameter)), None)


def is_number(parameter: str) -> bool:
    """Return whether a parameter's name says that it is a number, as no single letter does."""
    return len(parameter) > 1 and role_of(parameter) in _NUMBERS


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of `function` by role, or by name if they have no role.

    A second parameter with the same role has its name. `*args` and `**kwargs` are left out.
    """
    found: dict[str, inspect.Parameter] = {}
    for parameter in signature_of(function).parameters.values():
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            role = role_of(parameter.name)
            found[role if role and role not in found else parameter.name] = parameter
    return found


def required_roles(function: Callable[..., Any]) -> set[str | None]:
    """Return the roles of the parameters without a default; None stands for those without a role.

    Raises
    ------
    TypeError, ValueError
        The function has no readable signature.
    """
    every = signature_of(function).parameters.items()
    return {role_of(name) for name, p in every if p.default is p.empty}
