"""Which function of a file rotates, and how it wants its vectors and its table."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from .binding import bind, parameters
from .rotary_table import B, H, S, Table, describe, length_of

# How a table of shape (B, S, W) may have to be laid out.
TABLE_SHAPES: dict[str, Callable[[Any], Any]] = {
    "(B, S, W)": lambda table: table,
    "(B, 1, S, W)": lambda table: table[:, None],
    "(B, S, 1, W)": lambda table: table[:, :, None],
    "(S, B, 1, W)": lambda table: table.transpose(0, 1)[:, :, None],
    "(1, S, W)": lambda table: _one_row(table),
}
# The shape of the probe in each tensor layout.
LAYOUTS: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "bhsd": lambda heads, width: (B, heads, S, width),
    "bshd": lambda heads, width: (B, S, heads, width),
    "bs(hd)": lambda heads, width: (B, S, heads * width),
}


def rotating_functions(file: types.ModuleType) -> dict[str, tuple[Callable[..., Any], type | None]]:
    """Return the functions of a file that rotate, and the methods with their class."""
    wanted = re.compile("(apply|rotate_queries).*(rotary|rope|keys)")
    found: dict[str, tuple[Callable[..., Any], type | None]] = {}
    for name, value in vars(file).items():
        if inspect.isclass(value) and value.__module__ == file.__name__:
            for attribute, method in vars(value).items():
                if isinstance(method, staticmethod) and wanted.search(attribute):
                    found[attribute] = (method.__func__, None)
                elif inspect.isfunction(method) and wanted.search(attribute):
                    found[attribute] = (method, value)
        elif callable(value) and wanted.search(name):
            found[name] = (value, None)
    return found


def ranked(module: Any, file: types.ModuleType, config: Any, target: Any) -> Iterator[Any]:
    """Yield (name, function), first what the attention class named most like `module` calls.

    A configuration with `rope_interleave` decides between two functions that both are called.
    """
    called = _called_by_attention(type(module).__name__, file)
    interleave = bool(getattr(config, "rope_interleave", True))
    found = rotating_functions(file)
    for name in sorted(
        found, key=lambda n: (-called.get(n, -1), ("interleave" in n) != interleave)
    ):
        function, owner = found[name]
        if owner is None:
            yield name, function
        elif (instance := _instance(owner, config, target)) is not None:
            yield name, partial(function, instance)


def _called_by_attention(module: str, file: types.ModuleType) -> dict[str, int]:
    """Return names that attention classes of the file use, with how alike the class names are.

    Vision towers rotate on their own: their classes speak for vision modules only.
    """
    called: dict[str, int] = {}
    for name, value in vars(file).items():
        if (
            inspect.isclass(value)
            and "Attention" in name
            and ("Vision" in name) == ("Vision" in module)
        ):
            alike = sum(1 for end in range(1, len(name)) if module.startswith(name[:end]))
            for method in filter(inspect.isfunction, vars(value).values()):
                for word in method.__code__.co_names:
                    called[word] = max(alike, called.get(word, 0))
    return called


def _instance(owner: type, config: Any, target: Any) -> Any:
    """Return an object whose method can be called: the target's own, or a new one."""
    own = next((module for module in target.modules() if isinstance(module, owner)), None)
    if own is not None or config is None:
        return own
    try:
        return owner(config)
    except Exception:  # a constructor that wants more than the configuration
        return None


@dataclass(frozen=True)
class Rotation:
    """A function that rotates, with the table it needs and the layouts it wants."""

    name: str
    function: Callable[..., Any]
    table: Table
    tensor_layout: str
    table_shape: str
    head_dim: int
    rotary_dim: int | None  # where attention, not the function, cuts the head: the leading part

    def __call__(self, q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
        """Return q and k rotated; positions are (S,), (B, S) or (A, B, S)."""
        if self.tensor_layout != "bs(hd)":
            return self._rotate(q, k, positions)
        # A method of an attention module knows its number of heads: as many calls as it takes.
        heads = self._owner_heads() * self.head_dim
        parts = zip(_filled(q, heads), _filled(k, heads), strict=True)
        rotated = [self._rotate(a, a if q is k else b, positions) for a, b in parts]
        one, two = zip(*rotated, strict=True)
        return _joined(one, q.shape), _joined(two, k.shape)

    def _owner_heads(self) -> int:
        owner = self.function.args[0] if isinstance(self.function, partial) else None
        return int(getattr(owner, "num_heads", H))

    def _rotate(self, q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
        import torch

        named = parameters(self.function)
        positions = positions if positions.ndim > 1 else positions[None]
        if self.table.arrangement == "tuple":  # it makes its own cosines and sines
            roles = {"positions": self.table.arranged(positions), "x": q}
            y = self.function(**bind(self.function, roles))
            return y, y if q is k else self.function(**bind(self.function, roles | {"x": k}))
        gathers = "positions" in named and named["positions"].default is inspect.Parameter.empty
        if gathers and self.table.axes == 1:  # it wants every row, and picks its own
            every = torch.arange(length_of(positions, self.name), device=positions.device)
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
            raise ValueError(f"{self.name} takes neither vectors nor queries")
        whole = [
            rotated if cut == vectors.shape[-1] else torch.cat([rotated, vectors[..., cut:]], -1)
            for rotated, vectors in zip(parts, (q, k), strict=False)
        ]
        return whole[0], whole[-1]


def find_direct(module: Any, config: Any) -> Rotation | None:
    """Return how `module` rotates vectors by a method of its own, told positions and no table.

    Positions are then a tuple with one array for each axis.
    """
    import torch

    file = sys.modules[type(module).__module__]
    for name, (function, owner) in rotating_functions(file).items():
        if owner is None or not isinstance(module, owner):
            continue
        if {"x", "positions"} != set(parameters(partial(function, module))):
            continue
        for axes in (3, 2):
            for head_dim, _ in _widths(config, 2):
                table = Table(module, "tuple", "?", axes)
                bound = partial(function, module)
                trial = Rotation(name, bound, table, "bhsd", "(B, S, W)", head_dim, None)
                x = torch.zeros(LAYOUTS["bhsd"](H, head_dim))
                try:
                    if trial(x, x, table.probe_positions())[0].shape == x.shape:
                        return trial
                except Exception:  # another number of axes, or another width
                    continue
    return None


def _one_row(table: Any) -> Any:
    """Return the table's only row, which a function takes for every row of a batch."""
    if not bool((table == table[:1]).all()):
        raise ValueError("rows of a batch share their positions here")
    return table[:1]


def _filled(x: Any, width: int) -> list[Any]:
    """Return (B, S, W) vectors in parts of `width` channels, the last one filled with zeros."""
    import torch

    missing = -x.shape[-1] % width
    return list(torch.cat([x, x.new_zeros((*x.shape[:-1], missing))], -1).split(width, -1))


def _joined(parts: Any, shape: Any) -> Any:
    import torch

    return torch.cat(list(parts), -1)[..., : shape[-1]]


def find_rotation(table: Table, functions: Iterator[Any], config: Any, width: int) -> Rotation:
    """Return how to rotate with `table`, or raise ValueError with what was tried.

    `width` is the table's. Whatever has a chance is tried on vectors of distinct sizes.
    """
    import torch

    positions, tried = table.probe_positions(), []
    for name, function in functions:
        for head_dim, rotary_dim in _widths(config, width):
            for table_shape in TABLE_SHAPES:
                for layout, sizes in LAYOUTS.items():
                    if layout == "bs(hd)" and rotary_dim is not None:
                        continue
                    trial = Rotation(
                        name, function, table, layout, table_shape, head_dim, rotary_dim
                    )
                    x = torch.zeros(sizes(H, head_dim))
                    try:
                        y = trial(x, x, positions)[0]
                        if y.shape == x.shape:
                            return trial
                        reason = f"{tuple(x.shape)} came back as {tuple(y.shape)}"
                    except Exception as error:
                        reason = describe(error)
                    tried.append(f"{name} on {layout} with D={head_dim}: {reason}")
    module = type(table.module)
    if not tried:
        raise ValueError(
            f"{module.__module__} has no function that applies {module.__name__}, or a method "
            "only, of a class that could not be built: pass the model that contains both"
        )
    raise ValueError(
        f"found no way to rotate with {module.__name__}, whose tables are {width} wide; tried "
        f"{len(tried)}, among them {'; '.join(dict.fromkeys(tried[:3]))}"
    )


def _widths(config: Any, width: int) -> Iterator[tuple[int, int | None]]:
    """Yield (head_dim, rotary_dim or None) in the order of trust.

    Latent attention rotates a part of its own, and a table says how wide the rotated part is.
    """
    head_dim, latent = head_dim_of(config), attribute(config, "qk_rope_head_dim")
    for direct in dict.fromkeys(d for d in (head_dim, latent) if d):
        yield direct, None
    if head_dim and not latent:
        yield from ((head_dim, cut) for cut in (width, 2 * width) if cut < head_dim)
    yield width, None
    yield 2 * width, None


def attribute(config: Any, name: str) -> Any:
    """Return a configuration's value, or None where it is absent or differs between layers."""
    try:
        return getattr(config, name, None)
    except Exception:  # what transformers raises for per-layer values is not an AttributeError
        return None


def head_dim_of(config: Any) -> int | None:
    """Return the width of an attention head, as configurations of `transformers` spell it."""
    width = attribute(config, "embed_dim") or attribute(config, "hidden_size")
    heads = attribute(config, "num_attention_heads")
    explicit = attribute(config, "head_dim")
    return explicit or (width // heads if width and heads else None)
