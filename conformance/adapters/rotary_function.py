"""A rotary function of a library, with the tensor layouts of its vectors and its table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from posenc_ref.conformance.calling.roles import bind, parameters

from .rotary_table import B, CosSinTable, H, S, length_of

# Shapes that functions require for a table of shape (B, S, W).
TABLE_SHAPES: dict[str, Callable[[Any], Any]] = {
    "(B, S, W)": lambda table: table,
    "(B, 1, S, W)": lambda table: table[:, None],
    "(B, S, 1, W)": lambda table: table[:, :, None],
    "(S, B, 1, W)": lambda table: table.transpose(0, 1)[:, :, None],
    "(1, S, W)": lambda table: _one_row(table),
}
# The shape of the trial vectors in each tensor layout.
LAYOUTS: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "bhsd": lambda heads, width: (B, heads, S, width),
    "bshd": lambda heads, width: (B, S, heads, width),
    "bs(hd)": lambda heads, width: (B, S, heads * width),
}


@dataclass(frozen=True)
class Rotation:
    """A rotary function, its table, and the tensor layouts that it requires."""

    name: str
    function: Callable[..., Any]
    table: CosSinTable
    tensor_layout: str
    table_shape: str
    head_dim: int
    rotary_dim: int | None  # the leading channels that attention passes; None: all
    before: Callable[[Any], Any] | None = None  # applied to vectors first

    def __call__(self, x: Any, positions: Any) -> Any:
        """Return x rotated, as for the surface ``apply``."""
        return self.both(x, x, positions)[0]

    def both(self, q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
        """Return q and k rotated; positions are (S,), (B, S) or (A, B, S)."""
        import torch

        # A function that takes one sequence is called once for each row.
        takes_one = self.table_shape == "(1, S, W)" or self.table.arrangement == "(S, A)"
        if takes_one and positions.ndim == 3 and positions.shape[1] > 1:
            rows = [self._rotate(q[b : b + 1], k[b : b + 1], positions[:, b : b + 1])
                    for b in range(len(q))]  # fmt: skip
            one, two = map(torch.cat, zip(*rows, strict=True))
            return one, two
        if self.tensor_layout != "bs(hd)":
            return self._rotate(q, k, positions)
        # A method of an attention module has a fixed number of heads, so call it several times.
        owner = self.function.args[0] if isinstance(self.function, partial) else None
        width = int(getattr(owner, "num_heads", H)) * self.head_dim
        parts = zip(_filled(q, width), _filled(k, width), strict=True)
        rotated = [self._rotate(a, a if q is k else b, positions) for a, b in parts]
        one, two = (torch.cat(parts, -1) for parts in zip(*rotated, strict=True))
        return one[..., : q.shape[-1]], two[..., : k.shape[-1]]

    def _rotate(self, q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
        import torch

        if self.before is not None:
            q, k = self.before(q), self.before(k)
        named = parameters(self.function)
        positions = positions if positions.ndim > 1 else positions[None]
        if self.table.arrangement == "tuple":  # the function computes cos and sin itself
            roles = {"positions": self.table.arranged(positions), "x": q}
            y = self.function(**bind(self.function, roles))
            return y, y if q is k else self.function(**bind(self.function, roles | {"x": k}))
        gathers = "positions" in named and named["positions"].default is inspect.Parameter.empty
        if gathers and self.table.axes == 1:  # the function looks up rows of the whole table
            every = torch.arange(length_of(positions), device=positions.device)
            cos, sin = (part[0] for part in self.table(q, every[None]))
        else:
            cos, sin = map(TABLE_SHAPES[self.table_shape], self.table(q, positions))
            positions = self.table.arranged(positions)
        cut = q.shape[-1] if self.rotary_dim is None else self.rotary_dim
        parts = [q[..., :cut], k[..., :cut]]
        roles = {"cos": cos, "sin": sin, "positions": positions}
        roles |= {"query": parts[0], "key": parts[1], "value": parts[0]}
        if "turns" in named:
            roles["turns"] = torch.complex(cos, sin)
        elif "sin_cos" in named:
            roles["sin_cos"] = torch.cat([sin, cos], -1)
        elif "cos_sin" in named:
            roles["cos_sin"] = torch.stack([cos, sin])
        optional = frozenset({"value", "positions"})
        if "query" in named:
            parts = list(self.function(**bind(self.function, roles, only_required=optional))[:2])
        elif "x" in named:
            parts = [
                self.function(**bind(self.function, roles | {"x": part}, only_required=optional))
                for part in (parts if q is not k else parts[:1])
            ]
        else:
            raise ValueError(f"{self.name} has no parameter for queries or vectors")
        whole = [
            rotated if cut == vectors.shape[-1] else torch.cat([rotated, vectors[..., cut:]], -1)
            for rotated, vectors in zip(parts, (q, k), strict=False)
        ]
        return whole[0], whole[-1]


def _one_row(table: Any) -> Any:
    """Return the table's only row, which the function uses for the whole batch."""
    if not bool((table == table[:1]).all()):
        raise ValueError("rows of a batch must have equal positions: the function takes one table")
    return table[:1]


def _filled(x: Any, width: int) -> list[Any]:
    """Split the channels of (B, S, W) vectors into parts of size `width`; zeros fill the last."""
    import torch

    missing = -x.shape[-1] % width
    return list(torch.cat([x, x.new_zeros((*x.shape[:-1], missing))], -1).split(width, -1))


def attribute(config: Any, name: str) -> Any:
    """Return a configuration's value, or None if it is absent or differs between layers."""
    try:
        return getattr(config, name, None)
    except Exception:  # per-layer values raise other errors than AttributeError
        return None


def head_dim_of(config: Any) -> int | None:
    """Return the head size in a configuration of `transformers`."""
    width = attribute(config, "embed_dim") or attribute(config, "hidden_size")
    heads = attribute(config, "num_attention_heads")
    explicit = attribute(config, "head_dim")
    return explicit or (width // heads if width and heads else None)
