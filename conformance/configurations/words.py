"""Differences of two encodings in words, field by field."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from posenc_ref import Encoding, MultiAxisRoPE, RoPE
from posenc_ref._namespace import is_array
from posenc_ref.accuracy import SAME_FREQUENCY
from posenc_ref.rotary import Rotary

#: Fields of the rules that a draft model shares with its target.
_OF_SIZE = ("head_dim", "rotary_dim", "rotary_start", "num_heads", "dim", "sections")


def differences(
    a: Encoding | None, b: Encoding | None, *, converted: str, rules: bool
) -> tuple[list[str], list[str]]:
    """Return what differs between two encodings, and what has no effect or was not compared.

    Parameters
    ----------
    a, b : Encoding or None
        None is attention without a positional encoding.
    converted : {"A", "B", ""}
        Which of them is that of a GGUF file, if exactly one is: the converter permutes weights.
    rules : bool
        Whether heads may have different sizes: only base, scaling, the rotated fraction and
        similar rules are compared.
    """
    axes = isinstance(a, RoPE | MultiAxisRoPE) and isinstance(b, RoPE | MultiAxisRoPE)
    if a is None or b is None or (type(a) is not type(b) and not axes):
        return ([] if a is b else [f"encoding: {_name(a)} against {_name(b)}"]), []
    fields = (_fields(a), _fields(b))
    found = [
        f"{key}: {sizes[0]} against {sizes[1]} numbers"
        for key in learned(a)
        if None not in (sizes := [learned_size(e, key) for e in (a, b)]) and sizes[0] != sizes[1]
    ]
    notes = [f"{key}: learned numbers, which were not compared" for key in learned(a)]
    spelled = _same_rotation(a, b)
    if type(a) is not type(b):
        found.append(f"position axes: {_axes(a)} against {_axes(b)}")
    for key in fields[0]:
        if key not in fields[1]:
            continue
        one, other = (f[key] for f in fields)
        if key == "rotary_dim" and all(e.rotary_dim == e.head_dim for e in (a, b)):  # type: ignore[attr-defined]
            continue
        if key in learned(a) or one == other or (rules and key in _OF_SIZE):
            continue
        said = f"{key}: {_value(one)} against {_value(other)}"
        if key == "output_layout":
            notes.append(f"{said}; queries and keys are written alike, so no logit differs")
        elif key == "layout":
            found += [] if rules else _layout(said, (a, b), converted, notes)
        elif spelled is not None and key in ("base", "scaling"):
            notes.append(f"{said}: the same frequencies, {spelled}")
        else:
            found += _scaling(one, other) if key == "scaling" else [said]
    if rules:
        found += _fraction(a, b)
    return found, notes


def learned(encoding: Encoding | None) -> list[str]:
    """Return the fields of an encoding that hold learned numbers: its arrays."""
    fields = getattr(encoding, "__dataclass_fields__", ())
    return [key for key in fields if is_array(getattr(encoding, key, None))]


def learned_size(encoding: Any, key: str) -> str | None:
    """Return the shape of a learned table, or None if it is unknown.

    Where a preset leaves its table out, a column of zeros stands for it.
    """
    rows, columns = getattr(encoding, key).shape
    return None if columns == 1 else f"{rows} x {columns}"


def _fields(encoding: Encoding) -> dict[str, Any]:
    """Return the fields of an encoding, with values that can be compared and shown."""
    names = (field.name for field in dataclasses.fields(encoding))  # type: ignore[arg-type]
    made = {name: getattr(encoding, name) for name in names}
    return {k: (v.tolist() if isinstance(v, np.ndarray) else v) for k, v in made.items()}


def _axes(encoding: Any) -> str:
    sections = getattr(encoding, "sections", None)
    return "one" if sections is None else f"{len(sections)} (of {sections} pairs)"


def _layout(said: str, both: tuple[Any, Any], converted: str, notes: list[str]) -> list[str]:
    """Return the difference of two layouts, or add a note if a converter permutes the weights."""
    expected = {"A": ["interleaved", "half"], "B": ["half", "interleaved"]}.get(converted)
    if [e.layout for e in both] == expected:
        notes.append(
            f"{said}: llama.cpp's converter permutes the weights of queries and keys accordingly, "
            "so no logit differs"
        )
        return []
    return [f"{said}; logits agree only if the weights of queries and keys are permuted alike"]


def _scaling(one: Any, other: Any) -> list[str]:
    if one is None or other is None or type(one) is not type(other):
        return [f"scaling: {_value(one)} against {_value(other)}"]
    names = [field.name for field in dataclasses.fields(one)]
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in names}
    return [
        f"{type(one).__name__}.{name}: {_value(x)} against {_value(y)}"
        for name, (x, y) in pairs.items()
        if x != y
    ]


def _fraction(a: Encoding, b: Encoding) -> list[str]:
    if not isinstance(a, RoPE | MultiAxisRoPE) or not isinstance(b, RoPE | MultiAxisRoPE):
        return []
    parts = [float(e.rotary_dim or 0) / e.head_dim for e in (a, b)]
    if parts[0] == parts[1]:
        return []
    return [f"rotated fraction of a head: {parts[0]:g} against {parts[1]:g}"]


def _same_rotation(a: Encoding, b: Encoding) -> str | None:
    """Return how far the frequencies differ, in words, if they count as the same; else None."""
    if not isinstance(a, Rotary) or not isinstance(b, Rotary):
        return None
    if a.depends_on_length or b.depends_on_length:
        return None
    one, other = a.frequencies(), b.frequencies()
    if one.shape != other.shape or a.attention_factor() != b.attention_factor():
        return None
    gap = float(np.max(np.abs(one - other) / np.maximum(one, np.finfo(float).tiny), initial=0.0))
    if gap > SAME_FREQUENCY:
        return None
    return "bit for bit" if gap == 0 else f"up to a rounding of {gap:.1e}"


def _name(encoding: Encoding | None) -> str:
    return "no positional encoding" if encoding is None else type(encoding).__name__


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    shown = repr(value)
    return shown if len(shown) <= 90 else f"{shown[:87]}..."
