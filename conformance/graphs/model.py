"""Read an ONNX model, look up which node computes a tensor, and cut a part out of the model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .gemma import expand

#: The attributes of a node that hold subgraphs, by the type of the attribute.
_GRAPH, _GRAPHS = 5, 10


@dataclass(eq=False)
class Scope:
    """The main graph, or a subgraph of If, Loop or Scan; it sees the tensors of its parents."""

    graph: Any
    parent: Scope | None = None
    producers: dict[str, Any] = field(init=False)
    initializers: dict[str, Any] = field(init=False)
    inputs: dict[str, Any] = field(init=False)
    consumers: dict[str, list[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.producers = {name: node for node in self.graph.node for name in node.output if name}
        self.initializers = {tensor.name: tensor for tensor in self.graph.initializer}
        self.inputs = {i.name: i for i in self.graph.input if i.name not in self.initializers}
        self.consumers = {}
        for node in self.graph.node:
            for name in dict.fromkeys(used(node)):
                self.consumers.setdefault(name, []).append(node)

    def owner(self, name: str) -> Scope | None:
        """Return the scope that defines a tensor: this one or a parent; None if there is none."""
        for scope in self.chain():
            if name in scope.producers or name in scope.initializers or name in scope.inputs:
                return scope
        return None

    def chain(self) -> Iterator[Scope]:
        """Yield this scope and its parents, the nearest first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def producer(self, name: str) -> Any:
        """Return the node that computes a tensor; None for inputs and stored tensors."""
        owner = self.owner(name)
        return None if owner is None else owner.producers.get(name)


def subgraphs(node: Any) -> list[Any]:
    """Return the subgraphs in the attributes of a node."""
    found = []
    for attribute in node.attribute:
        if attribute.type == _GRAPH:
            found.append(attribute.g)
        elif attribute.type == _GRAPHS:
            found.extend(attribute.graphs)
    return found


def used(node: Any) -> list[str]:
    """Return the tensors that a node reads, including those that its subgraphs read from outside.

    An omitted optional input, "", is left out.
    """
    names = [name for name in node.input if name]
    for graph in subgraphs(node):
        inner = {i.name for i in graph.input} | {t.name for t in graph.initializer}
        inner |= {name for n in graph.node for name in n.output}
        read = [name for n in graph.node for name in used(n)] + [o.name for o in graph.output]
        names += [name for name in dict.fromkeys(read) if name not in inner]
    return names


def attributes(node: Any) -> dict[str, Any]:
    """Return the attributes of a node as Python values."""
    from onnx import helper

    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def kind(node: Any) -> str:
    """Return the operator of a node with its domain, such as "com.microsoft.RotaryEmbedding"."""
    domain = node.domain if node.domain not in ("", "ai.onnx") else ""
    return f"{domain}.{node.op_type}" if domain else str(node.op_type)


class Model:
    """An ONNX file: its scopes, and the tensors that it stores beside it.

    Local functions are inlined. Tensors in external files are read when a part that needs them is
    cut out.

    Raises
    ------
    ValueError
        If the file is no ONNX model.
    """

    def __init__(self, path: Path) -> None:
        import onnx
        from google.protobuf.message import DecodeError
        from onnx import inliner

        try:
            proto = onnx.load(str(path), load_external_data=False)
        except DecodeError as error:
            raise ValueError(f"{path} is no ONNX model: {error}") from None
        if not proto.graph.node:
            raise ValueError(f"{path} is no ONNX model: its graph has no node")
        if proto.functions:
            proto = inliner.inline_local_functions(proto)
        expand(proto.graph)
        self.path, self.proto = path, proto
        self.scopes: list[Scope] = []
        self._add(proto.graph, None)
        self._digests: dict[int, str] = {}

    def _add(self, graph: Any, parent: Scope | None) -> None:
        scope = Scope(graph, parent)
        self.scopes.append(scope)
        for node in graph.node:
            for inner in subgraphs(node):
                self._add(inner, scope)

    def opset(self) -> int:
        """Return the version of the standard operators."""
        versions = {o.domain: o.version for o in self.proto.opset_import}
        return int(versions.get("", versions.get("ai.onnx", 0)))

    def loaded(self, tensor: Any) -> Any:
        """Return a stored tensor with its data, which may be in an external file."""
        import onnx
        from onnx import external_data_helper

        if not external_data_helper.uses_external_data(tensor):
            return tensor
        full = onnx.TensorProto()
        full.CopyFrom(tensor)
        folder = str(self.path.parent.resolve())
        external_data_helper.load_external_data_for_tensor(full, folder)
        full.ClearField("external_data")
        full.data_location = onnx.TensorProto.DEFAULT
        return full

    def array(self, scope: Scope, name: str) -> Any:
        """Return the NumPy array of a stored or constant tensor; None if it is computed."""
        from onnx import numpy_helper

        owner = scope.owner(name)
        if owner is None:
            return None
        if name in owner.initializers:
            return numpy_helper.to_array(self.loaded(owner.initializers[name]))
        node = owner.producers.get(name)
        if node is not None and node.op_type == "Constant":
            values = attributes(node)
            if "value" in values:
                return numpy_helper.to_array(values["value"])
            return next(iter(values.values()), None)
        return None

    def part(self, scope: Scope, outputs: Sequence[str], given: Sequence[str]) -> Part:
        """Return the nodes that compute ``outputs`` from ``given``, from inputs and stored tensors.

        Raises
        ------
        ValueError
            If they depend on a tensor that changes inside a Loop or Scan.
        """
        nodes: list[Any] = []
        stored: dict[str, Any] = {}
        free: dict[str, Any] = {}
        seen: set[str] = set(given)
        done: set[int] = set()
        stack: list[tuple[str, Any]] = [("name", name) for name in reversed(outputs)]
        while stack:
            what, item = stack.pop()
            if what == "node":
                nodes.append(item)
                continue
            if item in seen:
                continue
            seen.add(item)
            owner = scope.owner(item)
            if owner is None:
                raise ValueError(f"nothing in the model computes the tensor {item!r}")
            if item in owner.initializers:
                stored[item] = owner.initializers[item]
            elif item in owner.inputs:
                if owner.parent is not None:
                    raise ValueError(f"{item!r} is an input of a subgraph, which a Loop changes")
                free[item] = owner.inputs[item]
            else:
                node = owner.producers[item]
                if id(node) in done:
                    continue
                done.add(id(node))
                stack.append(("node", node))
                stack.extend(("name", name) for name in reversed(used(node)))
        return Part(self, nodes, stored, free, tuple(given), tuple(outputs))

    def digest(self, tensor: Any) -> str:
        """Return a digest of the type, the shape and the data of a stored tensor."""
        found = self._digests.get(id(tensor))
        if found is None:
            found = self._digests[id(tensor)] = hash_of(self.loaded(tensor), ("name",))
        return found


def hash_of(message: Any, ignored: Sequence[str] = ("name", "doc_string")) -> str:
    """Return a digest of a protobuf message without the fields ``ignored``."""
    copy = type(message)()
    copy.CopyFrom(message)
    for name in ignored:
        copy.ClearField(name)
    return hashlib.sha256(copy.SerializeToString(deterministic=True)).hexdigest()


def _without(node: Any, given: Sequence[str]) -> Any:
    """Return a node that computes the tensors ``given`` under other names, as a Split may have to.

    An empty name instead, for a result that is not wanted, crashes Split of ONNX Runtime.
    """
    if not set(given) & set(node.output):
        return node
    copy = type(node)()
    copy.CopyFrom(node)
    copy.output[:] = [f"{name}/computed" if name in given else name for name in node.output]
    return copy


@dataclass(frozen=True)
class Part:
    """Some nodes of a model in the order of their computation, with the tensors that they need."""

    model: Model
    nodes: Sequence[Any]
    stored: Mapping[str, Any]  #: stored tensors by name
    free: Mapping[str, Any]  #: inputs of the model by name, as in the file
    given: tuple[str, ...]  #: tensors that the caller supplies in place of their producers
    outputs: tuple[str, ...]

    @property
    def key(self) -> str:
        """A digest that is equal for parts that compute the same, whatever their tensors' names."""
        names = {name: f"given {i}" for i, name in enumerate(self.given)}
        names |= {name: f"input {name}" for name in self.free}
        names |= {name: self.model.digest(tensor) for name, tensor in self.stored.items()}
        lines = []
        for n, node in enumerate(self.nodes):
            names |= {name: f"{n}.{i}" for i, name in enumerate(node.output)}
            read = [names.get(name, name) for name in [*node.input, *used(node)]]
            settings = sorted(hash_of(a, ("doc_string",)) for a in node.attribute)
            lines.append(f"{kind(node)} {read} {settings}")
        lines.append(str([names.get(name, name) for name in self.outputs]))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def proto(self, types: Mapping[str, int]) -> Any:
        """Return the part as a model; ``types`` are the element types of ``given``."""
        from onnx import helper

        inputs = [helper.make_tensor_value_info(n, types[n], None) for n in self.given]
        every = [*inputs, *self.free.values()]
        nodes = [_without(node, self.given) for node in self.nodes]
        return self.model_of(nodes, every, self.outputs, self.stored.values())

    def model_of(
        self, nodes: Sequence[Any], inputs: Any, outputs: Sequence[str], stored: Any
    ) -> Any:
        """Return a model of these nodes, with the operator versions of the file."""
        import onnx
        from onnx import helper

        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        tensors = [self.model.loaded(t) for t in stored]
        graph = helper.make_graph(list(nodes), "part", inputs, results, initializer=tensors)
        proto = helper.make_model(graph, opset_imports=list(self.model.proto.opset_import))
        proto.ir_version = self.model.proto.ir_version
        return proto
