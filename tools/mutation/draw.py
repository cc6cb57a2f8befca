"""Draw mutants by seed from every module, and apply one.

A place is a line and a column of an executable line where Cosmic Ray has at least one mutant. Every
place of a stratum has the same probability, and so has every mutant of a place.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.mutation.lines import PACKAGES

#: The judges of chunks and sequences, which are drawn from first, and the others.
FIRST = ("conformance/sequences/",)
#: Pairs of operators that differ for equal objects only that are not identical.
IDENTITY = ("Eq_Is", "NotEq_IsNot", "Is_Eq", "IsNot_NotEq")

Place = tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """One change of one place: what Cosmic Ray calls it, and the first line that differs."""

    module: str
    line: int
    operator: str
    occurrence: int
    old: str
    new: str


def spans_left_out(tree: ast.Module) -> Iterator[tuple[Place, Place]]:
    """Yield the places (first, last) of annotations, messages, ``__all__`` and TYPE_CHECKING."""

    def span(node: ast.AST) -> tuple[Place, Place]:
        return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore

    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                yield span(getattr(node, name))
        match node:
            case ast.Raise(exc=ast.Call(args=arguments)):
                yield from map(span, arguments)
            case ast.JoinedStr() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield span(node)
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                yield span(node)


def mutants_of(path: Path) -> dict[Place, list[tuple[str, int]]]:
    """Return the mutants of a module by place: {(line, column): [(operator, occurrence), ...]}."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast

    source = path.read_text(encoding="utf-8")
    skipped = list(spans_left_out(ast.parse(source)))
    nodes = list(ast_nodes(get_ast(source)))
    families: dict[str, list[str]] = {}  # of operators that change the same places
    for name in sorted(plugins.operator_names()):
        if not plugins.get_operator(name).arguments() and not name.endswith(IDENTITY):
            replaces = name.startswith(("core/ReplaceBinary", "core/ReplaceUnary", "core/ReplaceC"))
            family = name.rpartition("_")[0] if replaces and name.count("_") == 2 else name
            families.setdefault(family, []).append(name)
    places: dict[Place, list[tuple[str, int]]] = {}
    for names in families.values():
        operator, occurrence = plugins.get_operator(names[0])(), 0
        for node in nodes:
            for start, _ in operator.mutation_positions(node):
                if not any(first <= start < last for first, last in skipped):
                    places.setdefault(start, []).extend((name, occurrence) for name in names)
                occurrence += 1
    return places


def mutated(source: str, operator: str, occurrence: int) -> str | None:
    """Return the mutated source, or None if it is not Python or means the same."""
    from cosmic_ray import mutating, plugins

    text = mutating.mutate_code(source, plugins.get_operator(operator)(), occurrence)
    try:
        same = text is None or ast.dump(ast.parse(text)) == ast.dump(ast.parse(source))
    except SyntaxError:
        return None
    return None if same else text


def mutant(module: str, source: str, line: int, operator: str, occurrence: int) -> Mutant | None:
    """Return the mutant of a place on a line; None if it changes nothing."""
    text = mutated(source, operator, occurrence)
    if text is None:
        return None
    before, after = source.splitlines(), text.splitlines()
    new = after[line - 1].strip() if len(after) == len(before) else ""  # a decorator goes
    return Mutant(module, line, operator, occurrence, before[line - 1].strip(), new)


def modules(root: Path) -> list[str]:
    """Return the modules of the two packages."""
    paths = [path for name in PACKAGES for path in sorted((root / name).rglob("*.py"))]
    return [path.relative_to(root).as_posix() for path in paths]


def draw(root: Path, seed: object, first: int, others: int) -> list[Mutant]:
    """Return ``first`` mutants of the modules in FIRST, and ``others`` of all other modules."""
    drawn = []
    for left, inside in ((first, True), (others, False)):
        if not left:
            continue
        rng = random.Random(f"{seed} {inside}")
        names = [name for name in modules(root) if name.startswith(FIRST) is inside]
        found = {name: mutants_of(root / name) for name in names}
        places = [(name, at) for name, there in found.items() for at in sorted(there)]
        rng.shuffle(places)
        for name, at in places:
            source = (root / name).read_text(encoding="utf-8")
            one = mutant(name, source, at[0], *rng.choice(found[name][at]))
            if left and one is not None:
                left -= 1
                drawn.append(one)
            if not left:
                break
    return drawn


def again(root: Path, old: Mutant) -> Mutant | None:
    """Return the mutant in the present source, whose lines may have moved; None if it is gone.

    Of several that read the same, it is the one nearest to the old line.
    """
    source = (root / old.module).read_text(encoding="utf-8")
    lines = source.splitlines()
    found = []
    for (line, _), there in mutants_of(root / old.module).items():
        for operator, occurrence in there:
            if operator == old.operator and lines[line - 1].strip() == old.old:
                one = mutant(old.module, source, line, operator, occurrence)
                if one is not None and (one.old, one.new) == (old.old, old.new):
                    found.append(one)
    return min(found, key=lambda one: abs(one.line - old.line), default=None)
