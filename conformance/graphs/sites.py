"""Find the rotary parts of an ONNX model, and join those that compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.report import Finding

from .attention_kinds import KINDS, attention_calls, unjudged
from .binding import Bound, bind
from .decomposed import Rotation, rotations
from .feeds import Feeds, of_nodes, other_axes
from .gemma import DEFINED
from .model import Model, Part, Scope, attributes, kind
from .roles import rank_of, role_of, sizes_of
from .session import Unbound
from .shapes import inferred

#: Rotary operators, with the indices of the inputs x, positions and cos.
ROTARY = {
    "com.microsoft.RotaryEmbedding": (0, 1, 2),
    "com.microsoft.MRotaryEmbedding": (0, 1, 2),
    "RotaryEmbedding": (0, 3, 1),
}
_AXES = "Transpose x to the axes that the node reads, or name its axes as they are."
#: Sizes of heads that are tried where the model does not state them.
_HEAD_DIMS = (64, 128, 32, 96, 80, 256, 16, 192, 48, 112, 160, 40, 24, 8)
#: Operators that occur in rotations and around them, for the message where none was found.
_NEAR = ("Cos", "Sin", "Attention", "MultiHeadAttention", "GroupQueryAttention", "Gather")
LOOKED_FOR = (
    "RotaryEmbedding (ONNX 23 and com.microsoft), com.microsoft.MRotaryEmbedding, "
    "com.microsoft.GroupQueryAttention and other attention with do_rotary=1, and rotations of "
    "elementary operators "
    "(two products with cos and sin, added)"
)


@dataclass
class Site:
    """One distinct rotary part of a model, and the nodes that compute the same."""

    operator: str
    names: list[str]
    bound: Bound
    remarks: list[str] = field(default_factory=list)
    twice: dict[str, str] = field(default_factory=dict)  #: nodes, and the one that rotated before
    axes: str = ""  #: a sentence if x has other axes than the node reads

    @property
    def name(self) -> str:
        """The first node's name."""
        return self.names[0]

    @property
    def title(self) -> str:
        """The first node's name, and the number of the others."""
        more = len(self.names) - 1
        return f"{self.name} and {more} other{'s' if more > 1 else ''}" if more else self.name

    def findings(self) -> list[Finding]:
        """Return what is wrong in the model around the nodes, which their results do not show."""
        found = [Finding("position-axis", self.axes, remedy=_AXES)] if self.axes else []
        if self.twice:
            name, before = next(iter(self.twice.items()))
            more = f"; so do {len(self.twice) - 1} others" if len(self.twice) > 1 else ""
            text = f"x is rotated twice: {name} rotates what {before} has rotated{more}"
            found.append(Finding("position-scale", text, remedy="Rotate q and k once."))
        return found

    def implementation(self, subject: str) -> Implementation:
        """Return the part as a function that ``check`` and ``identify`` take."""
        return Implementation(
            call=self.bound.call,
            surface=self.bound.surface,
            name=subject,
            head_dim=self.bound.head_dim or None,
            axes=self.bound.axes,
            how=f"{self.operator}: {self.bound.how}",
        )


@dataclass
class Found:
    """The rotary parts of a model."""

    sites: list[Site]
    problems: list[str]  #: parts that were found and cannot be called, a sentence each
    near: list[str]  #: names of nodes with related operators, if there are no sites


def find(model: Model, head_dim: int | None = None) -> Found:
    """Return the rotary parts of a model; ``head_dim`` is used if the model does not state it."""
    search = _Search(model, head_dim)
    for scope in model.scopes:
        for node in scope.graph.node:
            search.operator(scope, node)
    for scope in model.scopes:
        for found in rotations(model, scope):
            search.rotation(scope, found)
    twice, alone = search.feeds.twice(), search.feeds.alone()
    for site in search.sites.values():
        site.twice = {name: twice[name] for name in site.names if name in twice}
        site.remarks += of_nodes(alone, site.names)
    every = (node for scope in model.scopes for node in scope.graph.node)
    near = [f"{n.name or n.output[0]} ({kind(n)})" for n in every if n.op_type in _NEAR]
    return Found(list(search.sites.values()), search.problems, near)


#: The digest of a part, the part (None if it cannot be cut out), and the sizes of x's axes.
_Called = tuple[str, Part | None, list[int] | None]


class _Search:
    """Collects sites by the digest of what they compute."""

    def __init__(self, model: Model, head_dim: int | None) -> None:
        self.model, self.head_dim = model, head_dim
        self.sites: dict[str, Site] = {}
        self.problems: list[str] = []
        self.feeds = Feeds()
        self._failed: dict[str, str] = {}
        self._chosen: dict[str, tuple[str, Bound] | str] = {}
        self._shapes = inferred(model)

    def operator(self, scope: Scope, node: Any) -> None:
        """Add a node that is a rotary operator."""
        name, settings = node.name or node.output[0], attributes(node)
        if kind(node) in ROTARY:
            self._rotary(scope, node, name, settings)
        elif kind(node) in KINDS and settings.get("do_rotary"):
            self._attention(scope, node, name)
        elif unjudged(node):
            self.problems.append(f"{name} {unjudged(node)}")

    def _attention(self, scope: Scope, node: Any, name: str) -> None:
        of = KINDS[kind(node)]
        if len(node.input) <= max(of.tables) or not node.input[of.tables[0]]:
            self.problems.append(f"{name} has do_rotary=1, but no cos_cache and sin_cache")
            return
        try:
            part = self.model.part(scope, [node.input[i] for i in of.tables], [])
        except ValueError as error:
            self.problems.append(f"{name} ({kind(node)}) cannot be cut out: {error}")
            return
        cache = self._sizes(node.input[of.cache]) or [0]
        dims = [d for d in (cache[-1], self.head_dim) if d]
        self.feeds.add(name, scope, list(node.input[:2]), [])
        for title, key, made in attention_calls(node, part, dims):
            self._add(f"{title} {key} {part.key}", title, name, made)

    def _rotary(self, scope: Scope, node: Any, name: str, settings: dict[str, Any]) -> None:
        x, at, cos = (node.input[i] if i < len(node.input) else "" for i in ROTARY[kind(node)])
        remarks = []
        try:
            if at and not _with_positions(self.model, scope, at):
                remarks = [f"the code that computes its positions ({at}) is not judged"]
                part = self._with_ids(scope, node.output[:1], x, at)
            else:
                part = self.model.part(scope, node.output[:1], [x])
        except ValueError as error:
            self.problems.append(f"{name} ({kind(node)}) cannot be cut out: {error}")
            return
        self.feeds.add(name, scope, [x], list(node.output[:1]))
        sizes, heads = self._sizes(x), int(settings.get("num_heads", 0))
        stated = int(settings.get("rotary_embedding_dim", 0))
        columns = (self._sizes(cos) or [0])[-1]
        dims = [sizes[-1] // heads] if sizes and len(sizes) == 3 and heads and sizes[-1] else []
        dims += [2 * columns] if columns and not stated else []
        dims += [d for d in (self.head_dim, stated) if d]
        self._add(
            f"{kind(node)} {part.key}",
            kind(node), name, lambda: bind(part, list(dict.fromkeys(dims)), sizes, heads), remarks,
        )  # fmt: skip
        for site in self.sites.values():
            if name in site.names:
                site.axes = site.axes or other_axes(site.bound, self._shapes.get(x))

    def rotation(self, scope: Scope, found: Rotation) -> None:
        """Add a rotation of elementary operators."""
        last = scope.producers[found.pairs[0][1]]
        name = last.name or found.pairs[0][1]
        parts = [self._called(scope, pair) for pair in (*found.pairs, *found.wider)]
        key = " ".join(key for key, _, _ in parts)
        if key not in self._chosen:
            near, far = parts[: len(found.pairs)], parts[len(found.pairs) :]
            self._chosen[key] = self._choose(near, far, self._head_dims(found))
        chosen = self._chosen[key]
        if isinstance(chosen, str):
            if not found.sure:
                return  # a sum of products with weights
            self.problems.append(f"{name} looks like a rotation, but cannot be called: {chosen}")
        else:
            operator = last.doc_string if last.doc_string == DEFINED else "elementary operators"
            of_same = f"{operator} {chosen[0]}"
            site = self.sites.setdefault(of_same, Site(operator, [], chosen[1]))
            site.names.append(name)
            (x, _), written = found.pairs[0], [y for _, y in (*found.pairs, *found.wider)]
            self.feeds.add(name, scope, [x], written)
            site.axes = site.axes or other_axes(site.bound, self._shapes.get(x))

    def _head_dims(self, found: Rotation) -> list[int]:
        """Return the sizes of the head to try: as told, as the tables have, then usual ones."""
        columns = [(self._sizes(table) or [0])[-1] for table in found.tables]
        stated = [factor * n for factor in (1, 2) for n in columns]
        return list(dict.fromkeys(d for d in (self.head_dim, *stated, *_HEAD_DIMS) if d))

    def _choose(
        self, near: list[_Called], far: list[_Called], head_dims: list[int]
    ) -> tuple[str, Bound] | str:
        """Return the first part that can be called, or the widest that has the same axes of x."""
        problem = "it cannot be cut out"
        for key, part, sizes in near:
            if part is None:
                continue
            try:
                bound = bind(part, head_dims, sizes, 0)
            except Unbound as error:
                problem = str(error)
                continue
            for wider, whole, others in far:
                if whole is None or (others and sizes and len(others) != len(sizes)):
                    continue
                try:
                    more = bind(whole, [bound.head_dim], others, 0)
                except Unbound:
                    continue
                if (more.how, more.head_dim) == (bound.how, bound.head_dim):
                    return wider, more
            return key, bound
        return problem

    def _called(self, scope: Scope, pair: tuple[str, str]) -> _Called:
        x, y = pair
        sizes = self._sizes(x)
        shape = f"{sizes and (len(sizes), sizes[-1])}"
        try:
            part = self.model.part(scope, [y], [x])
        except ValueError as error:  # another pair may be free of loops
            return f"{error} {shape}", None, sizes
        return f"{part.key} {shape}", part, sizes

    def _with_ids(self, scope: Scope, outputs: Any, x: str, positions: str) -> Part:
        """Return a part of the model that takes the positions as an input."""
        from onnx import TensorProto, helper

        part = self.model.part(scope, outputs, [x, positions])
        value = helper.make_tensor_value_info(positions, TensorProto.INT64, [None, None])
        free = {**part.free, positions: value}
        return Part(self.model, part.nodes, part.stored, free, (x,), part.outputs)

    def _sizes(self, name: str) -> list[int] | None:
        value = self._shapes.get(name)
        return None if value is None or rank_of(value) is None else sizes_of(value)

    def _add(
        self,
        key: str,
        operator: str,
        name: str,
        made: Any,
        remarks: Sequence[str] = (),
    ) -> None:
        """Add a node to the site with this key, or make the site."""
        if key in self.sites:
            self.sites[key].names.append(name)
            return
        if key not in self._failed:
            try:
                self.sites[key] = Site(operator, [name], made(), list(remarks))
                return
            except Unbound as error:
                self._failed[key] = str(error)
        self.problems.append(f"{name} ({operator}) cannot be called: {self._failed[key]}")


def _with_positions(model: Model, scope: Scope, name: str) -> bool:
    """Return whether a tensor is computed from an input of positions."""
    try:
        free = model.part(scope, [name], []).free
    except ValueError:
        return False
    return any(role_of(n, value) == "positions" for n, value in free.items())
