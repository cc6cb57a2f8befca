"""Find rotations that are written out in elementary operators.

A rotation adds two products of data and a table, ``x1 * cos - x2 * sin`` or ``x * cos +
rotate_half(x) * sin``, or multiplies pairs by a table of 2 x 2 matrices. All data operands come
from one tensor x through operators that only move, negate or cast elements. The nearest such x is
the input of the rotation, and the tensor in which all its parts meet again is its output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .flow import VIEWS, Flow
from .model import Model, Scope, kind

#: Operators that may multiply pairs by 2 x 2 matrices of cosines and sines.
_MATRICES = ("MatMul", "Einsum")
#: The number of views that may separate the rotation from the tensor with its usual shape.
_FAR = 4


@dataclass(frozen=True)
class Rotation:
    """A rotation in a scope: its possible inputs and outputs, of which the first are preferred.

    ``pairs`` are input and output tensors. ``wider`` are pairs further apart, with operators in
    between that may permute channels, as DeepSeek does before the rotation.  ``tables`` hold cos
    and sin, and ``sure`` is whether they depend on an input or are computed by Cos and Sin.
    """

    pairs: tuple[tuple[str, str], ...]
    wider: tuple[tuple[str, str], ...]
    tables: tuple[str, ...]
    sure: bool


def rotations(model: Model, scope: Scope) -> Iterator[Rotation]:
    """Yield the rotations in a scope."""
    flow = Flow(model, scope)
    groups: dict[str, list[str]] = {}
    tables: dict[str, list[str]] = {}
    sums: set[str] = set()
    for node in scope.graph.node:
        x, found = _rotated(flow, node)
        if x is not None:
            groups.setdefault(x, []).append(node.output[0])
            tables.setdefault(x, []).extend(found)
            sums |= set() if node.op_type in _MATRICES else {x}
    seen: set[tuple[str, str]] = set()
    for x, parts in groups.items():
        y = flow.meet(parts)
        if y is None:
            continue
        joined = _widened(flow, x, y)
        if joined and (joined[0] in groups or joined in seen):
            continue  # another rotation holds this one
        seen |= {joined} if joined else set()
        of = (tuple(tables[x]), x in sums and any(flow.traits(t) for t in tables[x]))
        befores, afters = _before(flow, x), _after(flow, y)
        near = _apart(befores, afters)
        if not joined:
            yield Rotation(tuple(near), tuple(near[:0:-1]), *of)
            continue
        far = _apart(_before(flow, joined[0]), _after(flow, joined[1]))
        yield Rotation((joined, *near), tuple(far[:0:-1]), *of)


def _apart(befores: list[str], afters: list[str]) -> list[tuple[str, str]]:
    """Return all pairs, the nearest first."""
    total = len(befores) + len(afters) - 1
    return [
        (befores[i], afters[n - i])
        for n in range(total)
        for i in range(n + 1)
        if i < len(befores) and n - i < len(afters)
    ]


def _rotated(flow: Flow, node: Any) -> tuple[str | None, list[str]]:
    """Return the tensor x whose rotation ``node`` is a part of, and the tables.

    The tensor is None if the node is no sum of products, and no product with matrices.
    """
    if kind(node) in _MATRICES and len(node.input) == 2:
        matrices = [n for n in node.input if flow.traits(n) and flow.is_table(n)]
        data = [n for n in node.input if n not in matrices and flow.traits(n)]
        return (data[0], matrices) if len(data) == len(matrices) == 1 else (None, [])
    if kind(node) not in ("Add", "Sub", "Sum") or len(node.input) != 2:
        return None, []
    products = [found for name in node.input if (found := _product(flow, name))]
    if len(products) < len(node.input):
        return None, []
    return flow.root([data for data, _ in products]), [table for _, table in products]


def _product(flow: Flow, name: str) -> tuple[str, str] | None:
    """Return the data and the table of which ``name`` is the product, or None."""
    for _ in range(_FAR):
        node = flow.scope.producers.get(name)
        if node is None:
            return None
        if kind(node) in (*VIEWS, "Neg", "Slice", "Gather"):
            name = node.input[0]
            continue
        if kind(node) != "Mul":
            return None
        tables = [n for n in node.input if flow.is_table(n)]
        data = [n for n in node.input if n not in tables]
        if len(tables) != 1 or len(data) != 1 or not flow.traits(data[0]):
            return None
        return data[0], tables[0]
    return None


def _widened(flow: Flow, x: str, y: str) -> tuple[str, str] | None:
    """Return input and output with the channels that pass through, where the result joins them."""
    found = None
    last = flow.scope.producers.get(y)
    if last is not None and last.op_type == "Concat":  # of channels that pass through, too
        root = flow.root(flow.sources(last) or [])
        if root not in (None, x):
            found = x, y = str(root), y
    for _ in range(_FAR):
        joins = [n for n in flow.moved_on(y) if n.op_type == "Concat"]
        views = [n for n in flow.moved_on(y) if n.op_type in VIEWS]
        if not joins and len(views) == 1:
            y = views[0].output[0]
            continue
        if len(joins) != 1:
            return found
        parts = flow.sources(joins[0]) or []
        root = flow.root(parts) if len(parts) > 1 else None
        if root is None or root == x:
            return found
        x, y = root, joins[0].output[0]
        found = (x, y)
    return found


def _before(flow: Flow, x: str) -> list[str]:
    """Return x, and the tensors of which x is a view, the nearest first."""
    found = [x]
    node = flow.scope.producers.get(x)
    while node is not None and flow.is_view(node) and len(found) <= _FAR:
        found.append(node.input[0])
        node = flow.scope.producers.get(node.input[0])
    return found


def _after(flow: Flow, y: str) -> list[str]:
    """Return y, and the tensors that are views of y, the nearest first."""
    found = [y]
    while len(found) <= _FAR:
        views = [n for n in flow.moved_on(found[-1]) if flow.is_view(n)]
        if len(views) != 1:
            break
        found.append(views[0].output[0])
    return found
