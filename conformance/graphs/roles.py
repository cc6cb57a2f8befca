"""What the inputs of an ONNX model mean, and their values in a call."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref.conformance.calling.rotations import window_start

from .model import Part
from .session import Unbound, run, session_of

ROLES = {
    "positions": r"(.*[._/])?(position_ids?|positions?|pos_?ids?|pos|cache_position|input_pos)",
    "mask": r"(.*[._/])?attention_mask",
    "total": r"(.*[._/])?total_(seq|sequence)_?len(gth)?",
    "last": r"(.*[._/])?seqlens_k",
    "start": r"(.*[._/])?(past_(seq|sequence|key_values)?_?len(gth)?|start(_pos|_index)?|offset"
    r"|seqlen_offset|past_seen_tokens)",
    "past": r"(.*[._/])?past(_|\.).*",
    "tokens": r"(.*[._/])?(input_ids|inputs?_embeds|tokens|hidden_states)",
}  # fmt: skip


def role_of(name: str, value: Any) -> str | None:
    """Return what an input of a model means, by its name, else by its element type and rank."""
    for role, pattern in ROLES.items():
        if re.fullmatch(pattern, name.lower()):
            return role
    if value.type.tensor_type.elem_type in (6, 7):
        rank = rank_of(value)
        return {0: "start", 1: "positions", 2: "positions"}.get(-1 if rank is None else rank)
    return None


def given_table(name: str) -> bool:
    """Return whether an input is cos or sin, by its name."""
    return (
        re.fullmatch(r"(.*[._/])?(cos|sin)(_(cached?|emb|embed|embedding|table))?", name)
        is not None
    )


def rank_of(value: Any) -> int | None:
    """Return the number of axes of an input; None if the model does not say."""
    tensor = value.type.tensor_type
    return len(tensor.shape.dim) if tensor.HasField("shape") else None


def sizes_of(value: Any) -> list[int]:
    """Return the sizes of an input's axes: 0 where the model leaves one open."""
    return [int(d.dim_value) for d in value.type.tensor_type.shape.dim]


def value_of(
    role: str, value: Any, batch: int, length: int, at: np.ndarray, start: int
) -> np.ndarray:
    """Return the value of an input for ``length`` tokens at positions ``at``, after ``start``."""
    dtype, rank = _dtype(value), rank_of(value)
    if role == "positions":
        return _positions(value, at, batch, length).astype(dtype)
    if role == "mask":
        return np.ones((batch, start + length), dtype)
    if role in ("start", "total", "last"):
        number = {"start": start, "total": start + length, "last": start + length - 1}[role]
        return np.full(() if rank == 0 else (batch,) if role == "last" else (1,), number, dtype)
    sizes = sizes_of(value) if rank is not None else [0, 0]
    if role == "past":
        sizes = [batch, *(n or 1 for n in sizes[1:])]
        sizes[-2 if len(sizes) > 2 else -1] = start
    else:  # tokens, of which only the shape is read
        sizes = [batch, length, *(n or 1 for n in sizes[2:])]
    return np.zeros(sizes, dtype)


def roles_of(part: Part) -> dict[str, str]:
    """Return the role of every input of the model that a part needs.

    Raises
    ------
    Unbound
        If the role of an input is unknown.
    """
    found = {name: role_of(name, value) for name, value in part.free.items()}
    lacking = [f"{n} ({_shape(part.free[n])})" for n, role in found.items() if role is None]
    tables = [name for name, role in found.items() if role is None and given_table(name)]
    if len(tables) == len(lacking) > 0:
        raise Unbound(
            f"its cos and sin are inputs of the model ({', '.join(tables)}), which has no "
            "positions: judge the function that computes them, or record q before and after"
        )
    if lacking:
        raise Unbound(
            f"the meaning of its inputs {', '.join(lacking)} is not known: expected positions, an "
            "attention mask, a start, a length or tokens"
        )
    return {name: role for name, role in found.items() if role is not None}


def supplied(part: Part) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Return a function of positions (S,) that computes the outputs of a part without x.

    The attention mask and the lengths are those of a sequence that ends at the largest position.
    """
    session, _ = session_of(part.proto({}))
    roles = roles_of(part)
    kept: list[list[np.ndarray]] = []

    def supply(at: np.ndarray) -> list[np.ndarray]:
        if kept:
            return kept[0]
        start = max(int(at.max(initial=0)) + 1 - at.size, 0)
        feeds = {
            name: value_of(role, part.free[name], 1, at.size, at, start)
            for name, role in roles.items()
        }
        found = [np.asarray(y) for y in run(session, feeds)]
        if not roles:
            kept.append(found)
        return found

    return supply


def _positions(value: Any, at: np.ndarray, batch: int, length: int) -> np.ndarray:
    """Return positions with the rank and the number of rows that the model's input has."""
    rank = rank_of(value)
    if rank in (0, 1):
        flat = at.reshape(-1, at.shape[-1])
        if (flat != flat[0]).any():
            raise ValueError("rows of a batch must have equal positions: the input has one axis")
        single = rank == 0 or (sizes_of(value)[0] == 1 and length != 1)
        if single:
            return np.full([1] * (rank or 0), window_start(flat))
        return np.asarray(flat[0])
    if rank == 3:
        count = sizes_of(value)[0] or 3
        every = at if at.ndim == 3 else np.broadcast_to(at, (count, batch, length))
        return np.broadcast_to(every, (count, batch, length))
    rows = np.broadcast_to(at, (batch, length))
    if rank == 2 and sizes_of(value)[0] == 1 and batch > 1:
        if (rows != rows[0]).any():
            raise ValueError("rows of a batch must have equal positions: the input has one row")
        return rows[:1]
    return rows


def _dtype(value: Any) -> Any:
    from onnx import helper

    return helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)


def _shape(value: Any) -> str:
    from onnx import TensorProto

    kind = TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()
    rank = rank_of(value)
    return f"{kind}, {'rank unknown' if rank is None else f'rank {rank}'}"
