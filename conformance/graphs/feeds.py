"""What feeds the rotary parts of a model: another rotation, q or k, and x with the wrong axes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .binding import Bound, Caller
from .flow import VIEWS
from .model import Scope, kind
from .roles import role_of

#: The number of a layer in the name of a node, such as /model/layers.3/self_attn/Add_1.
LAYER = re.compile(r"(?:^|[./_])(?:layers?|blocks?|h)[./_](\d+)(?=[./_]|$)")
_WORDS = {"q": "q", "query": "q", "queries": "q", "k": "k", "key": "k", "keys": "k"}
#: How many nodes in front of a rotation may lie between it and a tensor named after q or k.
_FAR = 12


@dataclass
class Feeds:
    """The tensors that the nodes of a model rotate, and those that they return."""

    inputs: dict[str, list[tuple[Scope, str]]] = field(default_factory=dict)  #: by node
    outputs: dict[str, str] = field(default_factory=dict)  #: the node of each rotated tensor

    def add(self, name: str, scope: Scope, read: list[str], written: list[str]) -> None:
        """Add a rotary node, with the tensors that it rotates and returns."""
        self.inputs[name] = [(scope, x) for x in read if x]
        self.outputs |= {y: name for y in written if y}

    def twice(self) -> dict[str, str]:
        """Return the nodes whose input another rotary node has rotated, each with that node."""
        found: dict[str, str] = {}
        for name, read in self.inputs.items():
            for scope, x in read:
                before = next((t for t in _same(scope, x) if t in self.outputs), None)
                if before is not None and self.outputs[before] != name:
                    found[name] = self.outputs[before]
        return found

    def alone(self) -> dict[str, str]:
        """Return the nodes of layers in which only q, or only k, is rotated: a sentence each."""
        roles = {name: {_role(scope, x) for scope, x in read} for name, read in self.inputs.items()}
        layers: dict[str, list[str]] = {}
        for name, read in self.inputs.items():
            text = " ".join([name, *(x for _, x in read)])
            layers.setdefault(" ".join(sorted(set(LAYER.findall(text)))), []).append(name)
        found: dict[str, str] = {}
        for layer, names in layers.items():
            of = names if layer else roles  # a name without a number may be of any layer
            every = set().union(*(roles[name] for name in of))
            for one, other in (("q", "k"), ("k", "q")):
                if every == {one}:
                    where = f" in layer {layer}" if layer else ""
                    text = f"only {one} is rotated{where}: no rotation of {other} was found"
                    found |= dict.fromkeys(names, text)
        return found


def _same(scope: Scope, name: str) -> Iterator[str]:
    """Yield a tensor, and those in front of it with the same elements."""
    yield name
    for _ in range(_FAR):
        node = scope.producer(name)
        if node is None or kind(node) not in VIEWS:
            return
        name = node.input[0]
        yield name


def _role(scope: Scope, name: str) -> str:
    """Return "q" or "k" by the nearest name in front of a rotation; nothing if none says it."""
    for _ in range(_FAR):
        node = scope.producer(name)
        texts = [name] if node is None else [name, node.name, *node.input[1:]]
        for text in texts:
            found = {_WORDS[w] for w in re.split(r"[^a-z]+", text.lower()) if w in _WORDS}
            if len(found) == 1:
                return found.pop()
        if node is None or not node.input:
            break
        name = node.input[0]
    return ""


def other_axes(bound: Bound, value: Any) -> str:
    """Return a sentence if the model names the axis of the tokens of x where heads are read.

    ``value`` has the shape of x. Axes with the same name have the same size, so that such a model
    runs only if the number of heads happens to be that of tokens.
    """
    caller = bound.call
    if not isinstance(caller, Caller) or value is None:
        return ""
    named = [_names(v) for n, v in caller.part.free.items() if role_of(n, v) == "positions"]
    tokens = {names[-1] for names in named if names and names[-1]}
    axes, layout = _names(value), caller.layout
    if len(axes) != len(layout) or not set("hs") <= set(layout):
        return ""
    heads, own = axes[layout.index("h")], axes[layout.index("s")]
    if heads not in tokens or own in tokens:
        return ""
    return (
        f"axis {layout.index('h')} of x is named {heads}, as that of the tokens in the positions, "
        f"but it is read as that of the heads; axis {layout.index('s')} is read as the tokens"
    )


def _names(value: Any) -> list[str]:
    return [d.dim_param for d in value.type.tensor_type.shape.dim]


def of_nodes(sentences: Mapping[str, str], names: list[str]) -> list[str]:
    """Return the sentences about some nodes, each once."""
    return list(dict.fromkeys(sentences[name] for name in names if name in sentences))
