"""Compare the queries and keys of two checkpoints: same, permuted, or neither."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posenc_ref.conformance.harness.plural import ranges

from .checkpoint import Checkpoint, open_checkpoint
from .heads import Model
from .names import parse
from .pair import Pair, problem_of
from .rows import Order, Tolerance, agree, describe_order, match_rows, order_index
from .tensor import Tensor

#: The steps of dtypes below their normal range; bfloat16 has float32's range.
_SMALLEST = {"F16": 2.0**-24, "F8_E4M3": 2.0**-9, "F8_E5M2": 2.0**-16}


@dataclass(frozen=True)
class Comparison:
    """The comparison of two checkpoints.

    Parameters
    ----------
    paths : tuple of Path
    pairs : tuple of Pair
    missing : mapping of str to str
        Tensors that only one has, each with the path of that one.
    problem : str
        Why they are not the same model up to one change of layout; "" if they are.
    """

    paths: tuple[Path, Path]
    pairs: tuple[Pair, ...]
    missing: Mapping[str, str]
    problem: str

    @property
    def verdict(self) -> str:
        """The verdict: "same", "permuted" or "neither"."""
        if self.problem:
            return "neither"
        return (
            "permuted"
            if any(p.order and p.order.kind == "permuted" for p in self.pairs)
            else "same"
        )

    @property
    def exit_code(self) -> int:
        """0 for same or permuted, 1 for neither."""
        return int(bool(self.problem))

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON-ready data."""
        return {
            "a": str(self.paths[0]),
            "b": str(self.paths[1]),
            "verdict": self.verdict,
            "problem": self.problem,
            "pairs": [
                {
                    "stack": p.stack,
                    "layer": p.layer,
                    "role": p.role,
                    "part": p.part,
                    "names": list(p.names),
                    "result": "neither" if p.order is None else p.order.kind,
                    "order": None if p.order is None else p.order._asdict(),
                    "rounded": p.rounded,
                    "difference": p.difference,
                }
                for p in self.pairs
            ],
            "missing": dict(self.missing),
        }

    def __str__(self) -> str:
        lines = [f"a  {self.paths[0]}", f"b  {self.paths[1]}"]
        grouped: dict[tuple[str, str], list[int | None]] = {}
        for pair in self.pairs:
            grouped.setdefault((f"{pair.stack}{pair.role} {pair.part}", pair.said), []).append(
                pair.layer
            )
        for (what, said), layers in grouped.items():
            lines.append(f"{_layers(layers):<14} {what:<14} {said}")
        for name, path in self.missing.items():
            lines.append(f"only in {path}: {name}")
        return "\n".join([*lines, self._last()])

    def _last(self) -> str:
        if self.problem:
            return f"NEITHER  {self.problem}"
        if self.verdict == "same":
            return "SAME  queries and keys have the same layout in both"
        order = next(p.order for p in self.pairs if p.order and p.order.kind == "permuted")
        return f"PERMUTED  b is a, converted from {order.source} to {order.target}"


def compare_checkpoints(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    layouts: tuple[str, str] | None = None,
    model: Model | None = None,
) -> Comparison:
    """Compare the query and key weights of two checkpoints, layer by layer.

    Names of Hugging Face, Meta and llama.cpp are matched with each other.  The order of rows is
    found by comparing the rows themselves, so that no configuration is needed.

    Parameters
    ----------
    a, b : path
        safetensors files, folders of shards, or unquantised GGUF files.
    layouts : tuple of str, optional
        The layouts that a and b must have; by default any.
    model : Model, optional
        The heads that they must have.

    Raises
    ------
    ValueError
        A file cannot be read, holds no queries and keys, or is quantised.
    """
    checkpoints = open_checkpoint(Path(a)), open_checkpoint(Path(b))
    named = [_named(c) for c in checkpoints]
    for checkpoint, found in zip(checkpoints, named, strict=True):
        if not any("norm" not in role for _, _, role, _ in found):
            raise ValueError(f"{checkpoint.path} has no query and key projections known by name")
    named = _numbered(named)
    common = [key for key in named[0] if key in named[1]]
    if not common:
        raise ValueError(f"{a} and {b} have no query and key tensors in common")
    pairs: list[Pair] = []
    last: dict[str, _Found] = {}
    for key in sorted(common, key=_place):
        one, other = (found[key] for found in named)
        role = key[2].removesuffix("_norm")
        pair, order = _pair(one, other, key, last.get(role) or last.get("q"))
        if order is not None and pair.part == "weight" and pair.role == role:
            last[role] = order
        pairs.append(pair)
    missing = {
        tensor.name: str(checkpoint.path)
        for checkpoint, found in zip(checkpoints, named, strict=True)
        for key, tensor in found.items()
        if key not in common
    }
    problem = problem_of(pairs, missing, layouts, model)
    return Comparison((Path(a), Path(b)), tuple(pairs), missing, problem)


#: The stack of layers ("" for the main one), the number of the layer, the role and the part.
_Key = tuple[str, int | None, str, str]
#: An order in words, and as the index of rows.
_Found = tuple[Order, np.ndarray]


def _named(checkpoint: Checkpoint) -> dict[_Key, Tensor]:
    """Return the weights and biases of queries and keys.

    The main stack of layers is the one with most tensors; its prefix depends on the convention.
    """
    names = {name: parsed for name in checkpoint.tensors if (parsed := parse(name))}
    names = {name: n for name, n in names.items() if not n.tower and n.role != "kv"}
    main = Counter(n.prefix for n in names.values()).most_common(1)
    found: dict[_Key, Tensor] = {}
    for name, parsed in names.items():
        tensor = checkpoint.tensors[name]
        if parsed.part not in ("weight", "bias"):
            if parsed.part.startswith("q"):  # qweight, qzeros: packed
                raise ValueError(
                    f"{name} in {checkpoint.path} is quantised: use unquantised weights"
                )
            continue
        stack = "" if parsed.prefix == main[0][0] else parsed.prefix
        key = (stack, parsed.layer, parsed.role, parsed.part)
        if key in found:
            raise ValueError(f"{checkpoint.path} has {found[key].name} and {name}: which is it?")
        found[key] = tensor
    return found


def _place(key: _Key) -> tuple[str, int, bool, bool, bool, str]:
    """Return the order of the report: by layer, weights before norms and biases, q before k."""
    stack, layer, role, part = key
    number = -1 if layer is None else layer
    return stack, number, part != "weight", "norm" in role, role[0] == "k", role


def _numbered(named: list[dict[_Key, Tensor]]) -> list[dict[_Key, Tensor]]:
    """Return them without layers if one has no numbered layers and the other only one layer."""
    layers = [{layer for _, layer, _, _ in found} for found in named]
    if all(len(found) == 1 for found in layers) and layers[0] != layers[1] and {None} in layers:
        return [{(s, None, role, part): t for (s, _, role, part), t in f.items()} for f in named]
    return named


def _pair(one: Tensor, other: Tensor, key: _Key, last: _Found | None) -> tuple[Pair, _Found | None]:
    stack, layer, role, part = key
    names = (one.name, other.name)
    if one.elements != other.elements or one.shape[:1] != other.shape[:1]:
        return Pair(stack, role, part, layer, names, None, "", float("inf")), None
    rows = one.elements if len(one.shape) == 1 or role.endswith("norm") else one.shape[0]
    a, b = (np.concatenate(list(t.values(rows))) for t in (one, other))
    tolerance, rounded = _rounding(one, other)
    difference = float(np.abs(a - b).max(initial=0.0))
    for limit, said in ((Tolerance(), ""), (tolerance, rounded)):
        index = _index(a, b, limit, last)
        if index is not None:
            order = describe_order(index, fused=role == "qkv")
            return Pair(stack, role, part, layer, names, order, said, difference), (order, index)
        if limit == tolerance:
            break
    return Pair(stack, role, part, layer, names, None, "", difference), None


def _index(
    a: np.ndarray, b: np.ndarray, tolerance: Tolerance, last: _Found | None
) -> np.ndarray | None:
    """Return the order of the rows of b in a, or None.

    The order of the last tensor is tried first: it decides where several orders agree, as for a
    bias of zeros.
    """
    guess = None
    if last is not None:
        order, index = last
        guess = index if len(index) == len(a) else order_index(order, len(a))
    if guess is not None and agree(a[guess], b, tolerance):
        return guess
    straight = np.arange(len(a))
    return straight if agree(a, b, tolerance) else match_rows(a, b, tolerance)


def _rounding(one: Tensor, other: Tensor) -> tuple[Tolerance, str]:
    """Return the difference that the rounding of the coarser dtype explains, and this dtype."""
    if one.dtype == other.dtype:
        return Tolerance(), ""
    coarse = min(one, other, key=lambda tensor: tensor.precision)
    relative = 2.0 ** (1 - coarse.precision)
    if {one.dtype, other.dtype} == {"F16", "BF16"}:
        relative += 2.0**-10  # neither holds the other's values
    smallest = max(_SMALLEST.get(tensor.dtype, 0.0) for tensor in (one, other))
    return Tolerance(relative, smallest), coarse.dtype


def _layers(layers: list[int | None]) -> str:
    """Return numbers as ranges: ``layers 0-3, 5``."""
    numbers = sorted(n for n in layers if n is not None)
    if not numbers:
        return ""
    return f"layer{'s' if len(numbers) > 1 else ''} {ranges(numbers)}"
