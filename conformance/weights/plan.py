"""Which rows of which tensors a conversion moves, and what it refuses."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posenc_ref import permute_fused_weights, permute_weights

from .heads import Heads, Model
from .names import Name, parse
from .tensor import Tensor

#: Parts of a module with one row for each output channel.
_ROWS = re.compile(
    r"(base_layer\.|linear\.)?(weight|bias)|lora_B\.(\w+\.)?weight"
    r"|lora_magnitude_vector(\.\w+)?(\.weight)?"
)
#: Parts without output channels.
_NO_ROWS = re.compile(
    r"lora_A\.(\w+\.)?weight|(input|output|k|q)_scale|input_(min|max)"
    r"|layer_norm_(weight|bias)|_extra_state"  # of Megatron
)
#: Scales of quantised weights: one, or one for each row or block of rows.
_SCALES = re.compile(r"weight_(scale(_inv)?|zero_point)")
#: How q, k and v follow each other in fused projections.
ARRANGEMENTS = ("sections", "groups")
#: Models whose fused projection repeats q, k and v for each key head.
_GROUPS = ("gpt_neox", "gpt_neox_japanese", "falcon", "persimmon", "internlm2")
#: Words that mean sections in every model known to use them.
_SECTIONS = ("qkv_proj", "W_pack", "c_attn", "Wqkv", "attn_qkv")


@dataclass(frozen=True)
class Move:
    """The rows of one tensor that a conversion moves.

    Parameters
    ----------
    tensor : Tensor
    name : Name
    heads : Heads
    n_q, n_k : int
        The query and key heads in the tensor.
    stride : int
        The rows from one head to the next.
    groups : int
        How often the rows of q, k and v repeat (fused projections only).
    index : int64 array (rows,)
        Row i of the result is row ``index[i]`` of the tensor.
    """

    tensor: Tensor
    name: Name
    heads: Heads
    n_q: int
    n_k: int
    stride: int
    groups: int
    index: np.ndarray


@dataclass
class Plan:
    """The moved tensors, and the query and key tensors that stay, each with a reason."""

    moves: list[Move] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)


def make_plan(
    tensors: Mapping[str, Tensor],
    model: Model,
    *,
    source: str,
    target: str,
    only: Sequence[str] = (),
    fused: str | None = None,
) -> Plan:
    """Return the moves that convert query and key tensors from one layout to the other.

    Parameters
    ----------
    tensors : mapping of str to Tensor
    model : Model
    source, target : {"half", "interleaved"}
    only : sequence of str
        The prefixes of the layers to convert; by default all except towers for images and sound.
    fused : {"sections", "groups"}, optional
        How q, k and v follow each other in fused projections; by default as known of the model.

    Raises
    ------
    ValueError
        A tensor has another number of rows than the model's heads, is packed, or is fused in an
        unknown way; or there is nothing to convert.
    """
    if fused is not None and fused not in ARRANGEMENTS:
        raise ValueError(f"--fused must be one of {', '.join(ARRANGEMENTS)}, got {fused!r}")
    plan = Plan()
    named = {name: parsed for name in tensors if (parsed := parse(name))}
    prefixes = _prefixes(named.values(), only)
    for name, parsed in named.items():
        if parsed.prefix not in prefixes:
            plan.left[name] = f"{parsed.prefix or 'no prefix'}: not converted"
            continue
        heads = model.at(parsed.layer)
        if heads is None:
            plan.left[name] = "its layer does not rotate queries and keys"
            continue
        move = _move(tensors[name], parsed, heads, model, (source, target), fused)
        if move is not None:
            plan.moves.append(move)
    _scales(plan, named, tensors)
    _complete(plan, model)
    return plan


def _prefixes(names: Iterable[Name], only: Sequence[str]) -> set[str]:
    """Return the prefixes to convert, or raise if there are none or it is unclear which."""
    found = {name.prefix: name.tower for name in names if not name.role.endswith("norm")}
    if only:
        chosen = {p for p in found if any(p.startswith(wanted) for wanted in only)}
        if not chosen:
            listed = ", ".join(repr(p) for p in found) or "none"
            raise ValueError(
                f"--only {' '.join(only)} names no attention layers; there are {listed}"
            )
        return chosen
    text = {prefix for prefix, tower in found.items() if not tower}
    if len(text) > 1:
        raise ValueError(
            f"attention layers are in several places, {', '.join(map(repr, sorted(text)))}: name "
            "those that the configuration describes with --only PREFIX (may be repeated)"
        )
    if not text:
        raise ValueError(
            "no query and key projections were found by name (q_proj, k_proj; wq, wk; attn_q, "
            "attn_k; qkv_proj, ...)"
            + (
                f"; towers are left alone unless --only names them: {', '.join(found)}"
                if found
                else ""
            )
        )
    return text


def _move(
    tensor: Tensor,
    name: Name,
    heads: Heads,
    model: Model,
    layouts: tuple[str, str],
    fused: str | None,
) -> Move | None:
    """Return the move of one tensor, or None if it has no rows to move."""
    if name.role == "kv":
        raise ValueError(f"{tensor.name} holds keys and values in an order that is not known")
    if _NO_ROWS.fullmatch(name.part) or _SCALES.fullmatch(name.part):
        return None
    if not _ROWS.fullmatch(name.part):
        raise ValueError(
            f"{tensor.name} belongs to a packed or quantised projection ({name.part}), where rows "
            "cannot be moved: convert the unquantised checkpoint, then quantise it"
        )
    rows = tensor.shape[0] if tensor.shape else 0
    how: dict[str, Any] = {
        "source": layouts[0],
        "target": layouts[1],
        "rotary_dim": heads.rotary_dim,
        "rotary_start": heads.rotary_start,
    }
    dim = heads.dim
    if name.role.endswith("norm"):
        return _norm(tensor, name, heads, model, how)
    if name.role == "latent":
        start = rows - heads.rotary_dim
        if start < 0:
            raise ValueError(f"{tensor.name} has {rows} rows, fewer than {heads.rotary_dim} rotate")
        how["rotary_start"] = start
        index = permute_weights(np.arange(rows), 1, head_dim=rows, **how)
        return Move(tensor, name, heads, 0, 1, rows, 1, index)
    if name.role == "qkv":
        return _fused(tensor, name, heads, model, how, fused)
    gated = name.role == "q" and model.gated
    stride = 2 * dim if gated else dim
    count = rows // stride
    expected = model.n_heads if name.role == "q" else model.n_kv_heads
    if rows == 0 or rows % stride or (expected is not None and count != expected):
        kind = "query" if name.role == "q" else "key"
        whole = "" if expected is None else f"{expected} {kind} "
        raise ValueError(
            f"{tensor.name} has {rows} rows, but the configuration states {whole}heads of {stride}"
            + ("" if expected is None else f" = {expected * stride} rows")
        )
    index = permute_weights(np.arange(rows), count, head_dim=stride, **how)
    n_q, n_k = (count, 0) if name.role == "q" else (0, count)
    return Move(tensor, name, heads, n_q, n_k, stride, 1, index)


def _norm(
    tensor: Tensor, name: Name, heads: Heads, model: Model, how: dict[str, Any]
) -> Move | None:
    """Return the move of a norm over each head, or over all heads together."""
    if model.latent and tensor.elements == model.query_rank:
        return None  # a norm of the compressed query
    count, rest = divmod(tensor.elements, heads.dim)
    expected = model.n_heads if name.role == "q_norm" else model.n_kv_heads
    if rest or count == 0 or (count > 1 and expected is not None and count != expected):
        raise ValueError(
            f"{tensor.name} has {tensor.elements} weights, which are neither one head of "
            f"{heads.dim} nor all heads of the layer"
        )
    index = permute_weights(np.arange(tensor.elements), count, head_dim=heads.dim, **how)
    n_q, n_k = (count, 0) if name.role == "q_norm" else (0, count)
    return Move(tensor, name, heads, n_q, n_k, heads.dim, 1, index)


def _fused(
    tensor: Tensor,
    name: Name,
    heads: Heads,
    model: Model,
    how: dict[str, Any],
    fused: str | None,
) -> Move:
    rows, n = tensor.shape[0], model.n_heads
    known = "groups" if model.name in _GROUPS or name.word in ("wqkv", "linear_qkv") else None
    if known is None and (name.word in _SECTIONS or model.name == "chatglm"):
        known = "sections"
    arrangement = fused or known
    if model.name == "codegen" or arrangement is None:
        raise ValueError(
            f"{tensor.name} holds q, k and v in an order that is not known for model_type "
            f"{model.name!r}: give --fused sections (all of q, then k, then v, as in Phi-3) or "
            "--fused groups (q, k and v of each key head, as in GPT-NeoX)"
        )
    if n is None:
        raise ValueError(f"{tensor.name} holds q, k and v: num_attention_heads must be one number")
    pairs, rest = divmod(rows - n * heads.dim, 2 * heads.dim)
    expected = model.n_kv_heads
    if rest or pairs < 1 or n % pairs or (expected is not None and pairs != expected):
        states = f"{n} query" + ("" if expected is None else f" and {expected} key and value")
        raise ValueError(
            f"{tensor.name} has {rows} rows, which are not q, k and v: the configuration states "
            f"{states} heads of {heads.dim}"
        )
    groups = pairs if arrangement == "groups" else 1
    sizes = [size * heads.dim // groups for size in (n, pairs, pairs)]
    index = permute_fused_weights(np.arange(rows), sizes, head_dim=heads.dim, groups=groups, **how)
    return Move(tensor, name, heads, n, pairs, heads.dim, groups, index)


def _scales(plan: Plan, named: Mapping[str, Name], tensors: Mapping[str, Tensor]) -> None:
    """Add the moves of scales with one value for each row; check those of blocks of rows."""
    weights = {
        (m.name.prefix, m.name.layer, m.name.word): m for m in plan.moves if m.name.part == "weight"
    }
    for name, parsed in named.items():
        scale, weight = tensors[name], weights.get((parsed.prefix, parsed.layer, parsed.word))
        if not _SCALES.fullmatch(parsed.part) or scale.elements == 1 or weight is None:
            continue
        rows, blocks = len(weight.index), scale.shape[0]
        if blocks == rows:
            plan.moves.append(replace(weight, tensor=scale, name=parsed))
            continue
        size = -(-rows // blocks)
        size = 1 << (size - 1).bit_length()  # the last block may be shorter
        if -(-rows // size) != blocks or (weight.index // size != np.arange(rows) // size).any():
            raise ValueError(
                f"{name} scales blocks of rows, and rows of {weight.tensor.name} would leave their "
                "block: convert the unquantised checkpoint, then quantise it"
            )


def _complete(plan: Plan, model: Model) -> None:
    """Raise ValueError for a layer where only queries or only keys would be converted."""
    roles: dict[int | None, set[str]] = defaultdict(set)
    for move in plan.moves:
        if "lora" not in move.name.part:
            roles[move.name.layer] |= {"q", "k"} if move.name.role == "qkv" else {move.name.role}
    last = max((layer for layer in roles if layer is not None), default=0)
    for layer, found in roles.items():
        shares = layer is not None and layer > last - model.shared
        keys = bool(found & {"k", "latent"})
        if ("q" in found) != keys and not (shares and "q" in found):
            lacking = "key" if "q" in found else "query"
            where = "" if layer is None else f" of layer {layer}"
            raise ValueError(
                f"the {lacking} projection{where} was not found: queries and keys must be "
                "converted together"
            )
