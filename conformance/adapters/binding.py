"""Call a library's function by the roles of its parameters.

Libraries name the same argument differently: `q`, `xq` and `query_layer` have the role "query".
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

ROLES: dict[str, str] = {
    "query": r"x?q|query(_layer|_states)?",
    "key": r"x?k|key(_layer|_states)?",
    "value": r"x?v|value(_layer|_states)?",
    "x": r"x|t|tensor|hidden_states|qk|states|embeds?",
    "cos": r"cos(ines?)?",
    "sin": r"sin(es?)?",
    "turns": r"freqs_(cis?|complex)",
    "sin_cos": r"sinusoidal_pos",
    "cos_sin": r"(relative_)?position_embeddings|rotary_pos_emb",
    "positions": r"position_ids|positions?|pos_ids|pos",
    "image": r"pixel_values",
    "points": r"keypoints",
    "coordinates": r"ref_pos",
    "identity": r"ref_space_uid",
    "layer_type": r"layer_type",
    "shape": r"inputs?(_ids)?_shape",
    "tokens": r"input(_ids)?|attention_mask",
    "embeddings": r"inputs?_embeds",
    "length": r"seq(uence)?_?len(gth)?",
    "start": r"past_key_values_length|past_seen_tokens",
    "dtype": r"dtype",
    "device": r"device",
    "num_heads": r"(num|n)_heads",
    "relative_position": r"relative_position",
    "bidirectional": r"bidirectional",
    "num_buckets": r"num_buckets",
    "max_distance": r"max_distance",
    "query_length": r"(query|q)_len(gth)?",
    "key_length": r"(key|k)_len(gth)?",
}


class Unbound(ValueError):
    """The caller has no value for the role of a required parameter."""


def role_of(parameter: str) -> str | None:
    """Return the role that a parameter's name indicates, or None."""
    return next((role for role, names in ROLES.items() if re.fullmatch(names, parameter)), None)


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of `function` by role, or by name if they have no role.

    `*args` and `**kwargs` are left out.
    """
    every = inspect.signature(function).parameters.values()
    named = (p for p in every if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
    return {role_of(p.name) or p.name: p for p in named}


def bind(
    function: Callable[..., Any],
    roles: Mapping[str, Any],
    *,
    only_required: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Return keyword arguments for `function`, or raise `Unbound` naming a missing parameter.

    Roles in `only_required` are passed only to parameters without a default.
    """
    arguments = {}
    for role, parameter in parameters(function).items():
        optional = parameter.default is not parameter.empty
        if role in roles and not (optional and role in only_required):
            arguments[parameter.name] = roles[role]
        elif not optional:
            raise Unbound(f"nothing to pass for the parameter {parameter.name!r}")
    return arguments
