"""Follow the elements of tensors through the operators of a graph that only move them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .model import Model, Scope, kind, used
from .roles import given_table

#: Operators that move, cast or negate elements, with the indices of the inputs that hold elements.
_MOVES: dict[str, tuple[int, ...]] = {
    "Slice": (0,), "Split": (0,), "Reshape": (0,), "Transpose": (0,), "Unsqueeze": (0,),
    "Squeeze": (0,), "Flatten": (0,), "Neg": (0,), "Cast": (0,), "CastLike": (0,), "Identity": (0,),
    "Gather": (0,), "GatherND": (0,), "GatherElements": (0,), "Expand": (0,), "Pad": (0,),
    "Tile": (0,), "DepthToSpace": (0,), "ScatterND": (0, 2), "ScatterElements": (0, 2),
    "Where": (1, 2), "SplitToSequence": (0,), "SequenceAt": (0,),
}  # fmt: skip
#: Operators that mix the elements of a tensor.
_MIXES = ("MatMul", "Gemm", "Conv", "Einsum", "LayerNormalization", "RMSNormalization", "Softmax",
          "ReduceMean", "ReduceSum", "ReduceL2", "ReduceSumSquare")  # fmt: skip
VIEWS = ("Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten", "Cast", "Identity")
_ANY = ("Concat", "Add", "Sub", "Mul", "Div", "Sum", "MatMul", "SequenceConstruct",
        "ConcatFromSequence", "ReduceSum")  # fmt: skip
#: Operators that select rows of a table.
_SELECTS = ("Gather", "GatherElements", "GatherND", "Slice")
#: Operators with a result that depends on the shape of their input only.
_SHAPES = ("Shape", "Size", "ConstantOfShape")
#: The elements of the largest matrix that is read to see whether it only moves elements.
_MOST = 2**16


class Flow:
    """Where the elements of a scope's tensors come from."""

    def __init__(self, model: Model, scope: Scope) -> None:
        self.model, self.scope = model, scope
        self._traits: dict[str, frozenset[str]] = {}
        self.order = {id(node): i for i, node in enumerate(scope.graph.node)}

    def traits(self, name: str) -> frozenset[str]:
        """Return what a tensor depends on.

        "data": an input with floating-point numbers, an input of a Loop, or a product of matrices
        and the like, which are not followed by a cosine or sine; "inputs": any input of the model;
        "rows": rows that are selected from a table; "angle": a cosine or sine.
        """
        stack = [name]
        while stack:
            top = stack[-1]
            if top in self._traits:
                stack.pop()
                continue
            node = self.scope.producer(top)
            if node is None:
                self._traits[top] = self._of_leaf(top)
                continue
            read = list(node.input[:1]) if node.op_type == "CastLike" else used(node)
            lacking = [n for n in read if n not in self._traits]
            if lacking:
                stack.extend(lacking)
                continue
            found = frozenset().union(*(self._traits[n] for n in read))
            if node.op_type in _SHAPES:
                found &= {"inputs"}
            elif node.op_type in ("Cos", "Sin"):
                found = (found & {"inputs"}) | {"angle"}
            elif found and (node.op_type in _MIXES or node.domain not in ("", "ai.onnx")):
                found |= {"data"}
            elif node.op_type in _SELECTS and "data" not in found:
                found |= {"rows"}
            for output in node.output:
                self._traits[output] = found
        return self._traits[name]

    def _of_leaf(self, name: str) -> frozenset[str]:
        owner = self.scope.owner(name)
        if owner is None or name in owner.initializers:
            return frozenset()
        if owner.parent is not None:
            return frozenset({"inputs", "data"})
        floating = owner.inputs[name].type.tensor_type.elem_type in (1, 10, 11, 16)
        if floating and given_table(name):
            return frozenset({"inputs", "angle"})
        return frozenset({"inputs", "data"}) if floating else frozenset({"inputs"})

    def is_table(self, name: str) -> bool:
        """Return whether a tensor may be a table of cosines or sines."""
        traits = self.traits(name)
        if "data" in traits:
            return False
        if traits & {"angle", "rows"}:
            return True
        if traits:
            return False
        stored = self.model.array(self.scope, name)
        return stored is not None and getattr(stored, "ndim", 0) > 1 and stored.dtype.kind == "f"

    def sources(self, node: Any) -> list[str] | None:
        """Return the tensors with the elements of a node's result; None if it computes others."""
        name = node.op_type
        if node.domain not in ("", "ai.onnx"):
            return None
        if name in _MOVES:
            names = [node.input[i] for i in _MOVES[name] if i < len(node.input)]
        elif name in _ANY:
            names = list(node.input)
        else:
            return None
        moving = [n for n in names if n and self.traits(n) and not self._only_table(node, n)]
        if name in ("Mul", "Div", "MatMul") and len(moving) > 1:
            return None
        return None if name == "MatMul" and not self._moves(node) else moving

    def _moves(self, node: Any) -> bool:
        """Return whether a product with a stored matrix only moves and negates elements."""
        matrix = self.model.array(self.scope, node.input[1])
        return matrix is not None and matrix.size <= _MOST and set(matrix.flat) <= {-1, 0, 1}

    def _only_table(self, node: Any, name: str) -> bool:
        return node.op_type in ("Mul", "Where") and self.is_table(name)

    def root(self, names: list[str]) -> str | None:
        """Return the nearest tensor from which all elements of ``names`` come; None if no such."""
        work = set(names)
        while len(work) > 1:
            places = {n: self._place(n) for n in work}
            last = max(work, key=lambda n: places[n])
            node = self.scope.producers.get(last)
            found = None if node is None else self.sources(node)
            if node is None or not found:
                return None
            work = (work - set(node.output)) | set(found)
        return work.pop() if work else None

    def _place(self, name: str) -> int:
        node = self.scope.producers.get(name)
        return -1 if node is None else self.order[id(node)]

    def moved_on(self, name: str) -> list[Any]:
        """Return the nodes that move the elements of a tensor on."""
        readers = self.scope.consumers.get(name, [])
        return [n for n in readers if n.op_type in (*_MOVES, *_ANY) and name in self._read(n)]

    def _read(self, node: Any) -> list[str]:
        return self.sources(node) or []

    def is_view(self, node: Any) -> bool:
        """Return whether a node keeps all elements of its input, in the same or another order."""
        if kind(node) == "Gather":
            index = self.model.array(self.scope, node.input[1])
            return index is not None and np.array_equal(np.sort(index), np.arange(index.size))
        return kind(node) in VIEWS

    def meet(self, names: list[str]) -> str | None:
        """Return the nearest tensor in which the elements of all ``names`` meet."""
        work = set(names)
        while len(work) > 1:
            first = min(work, key=self._place)
            nodes = self.moved_on(first)
            if not nodes:
                return None
            work = (work - {first}) | {node.output[0] for node in nodes}
        return work.pop()
