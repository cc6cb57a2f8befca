"""What the code of a function shows about sizes: those of vectors, and the order in a pair."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from .roles import role_of
from .signatures import inner, signature_of

#: The packages whose classes are not the user's.
FRAMEWORKS = (
    "builtins",
    "abc",
    "typing",
    "torch",
    "keras",
    "flax",
    "jax",
    "equinox",
    "tensorflow",
    "transformers",
)
#: Names of pairs that say their order.
_HEIGHT_FIRST = r"(.*_)?t?(hw|HW|yx)s?(_.*)?|(.*_)?shapes?"
_WIDTH_FIRST = r"(.*_)?(wh|WH|xy)s?(_.*)?"
#: The largest size of a head that is tried because the code has this number.
_LARGEST = 1024
#: Names of one number that are no roles of parameters.
_ROWS, _COLUMNS = r"(.*_)?(y|rows?)", r"(.*_)?(x|col(umn)?s?)"


def width_first(call: Callable[..., Any], name: str) -> bool | None:
    """Return whether the pair in a parameter is (width, height); None if nothing says it.

    Its name says it, or the names of what its two numbers are assigned to or passed as, as in
    ``height, width = size`` and ``table(end_x=size[0])``.  What the function returns does not.
    """
    for names, found in ((_HEIGHT_FIRST, False), (_WIDTH_FIRST, True)):
        if re.fullmatch(names, name):
            return found
    return _shown(call, name, 3)


def own_members(cls: type) -> dict[str, Any]:
    """Return what a class defines and inherits, without what the frameworks define."""
    found: dict[str, Any] = {}
    for each in reversed(cls.__mro__):
        if each is cls or each.__module__.partition(".")[0] not in FRAMEWORKS:
            found |= vars(each)
    return found


def stated_sizes(target: Any) -> Iterator[int]:
    """Yield the sizes that vectors of a function may have, as its code and its object state them.

    First come attributes with the name of a head's size, then numbers, then the lengths of arrays
    and twice each, as a table has a column for each pair.
    """
    call = target if inspect.isclass(target) or inspect.isroutine(target) else type(target)
    own = _attributes(getattr(target, "__self__", target))
    named = named_size(target)
    yield from () if named is None else (named,)
    tree, scope = _code(call)
    used = {node.id: scope.get(node.id) for node in ast.walk(tree) if isinstance(node, ast.Name)}
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    values += [*own.values(), *used.values()]
    with suppress(ValueError):  # an empty cell
        values += [cell.cell_contents for cell in getattr(inner(call), "__closure__", None) or ()]
    shapes = [getattr(value, "shape", None) for value in values]
    pairs = [int(shape[-1]) for shape in shapes if isinstance(shape, tuple) and shape]
    numbers = [value for value in values if isinstance(value, int)]
    yield from filter(is_size, numbers + pairs)
    yield from filter(is_size, (2 * n for n in numbers + pairs))


def named_size(target: Any) -> int | None:
    """Return the size of a head that an object states by its name, or None."""
    own = _attributes(getattr(target, "__self__", target))
    return next((n for name, n in own.items() if role_of(name) == "head_dim" and is_size(n)), None)


def stated_channels(owner: Any) -> Iterator[int]:
    """Yield the numbers of channels that an object, or its configuration, states by name."""
    own = _attributes(owner)
    for found in (own, _attributes(own.get("config"))):
        for name, n in found.items():
            if role_of(name) == "width" and isinstance(n, int) and 0 < n <= 4 * _LARGEST:
                yield n


def is_size(size: Any) -> bool:
    """Return whether a number may be the size of a head."""
    return isinstance(size, int) and size % 2 == 0 and 8 <= size <= _LARGEST


def _attributes(owner: Any) -> dict[str, Any]:
    """Return the attributes of an object, with the arrays that its class registers."""
    found = dict(getattr(owner, "__dict__", {})) if not inspect.isclass(owner) else {}
    for name in ("_buffers", "_parameters"):
        found |= found.get(name) or {}
    return found


def _code(call: Any) -> tuple[ast.Module, dict[str, Any]]:
    """Return the code of a class or of a function, and the names of its files."""
    codes = own_members(call).values() if inspect.isclass(call) else [inspect.unwrap(inner(call))]
    tree, scope = ast.Module([], []), dict[str, Any]()
    for code in codes:
        try:
            source = inspect.getsource(code) if inspect.isroutine(code) else ""
            tree.body += ast.parse(textwrap.dedent(source)).body
        except (OSError, TypeError, SyntaxError):
            continue
        scope |= getattr(getattr(code, "__func__", code), "__globals__", {})
    return tree, scope


def _shown(call: Any, name: str, depth: int) -> bool | None:
    """Return what the code of a class or of a function shows."""
    tree, scope = _code(call)
    names = {name}
    for _ in range(2):  # a name may have another one that has another one
        names |= set(_aliases(tree, names))
    votes = set()
    for target, place in _uses(tree, names):
        role = role_of(target)
        rows = role == "grid_height" or bool(re.fullmatch(_ROWS, target))
        if rows or role == "grid_width" or re.fullmatch(_COLUMNS, target):
            votes.add(rows == bool(place))
    if not votes and depth:
        for node in ast.walk(tree):
            votes |= set(_inside(node, names, scope, depth))
    return votes.pop() if len(votes) == 1 else None


def _aliases(tree: ast.AST, names: set[str]) -> Iterator[str]:
    """Yield other names of the pair: of the whole, and of a pair made of its two numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            value = node.value
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            both = [_place(part, names) for part in parts] == [0, 1]
            target = _name(node.targets[0])
            if both or _name(value) in names:
                yield target
            elif target in names:
                yield _name(value)


def _uses(tree: ast.AST, names: set[str]) -> Iterator[tuple[str, int]]:
    """Yield what each of the two numbers is called, with its place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if not isinstance(target, ast.Tuple | ast.List):
                    yield from _use(_name(target), node.value, names)
                elif _name(node.value) in names and len(target.elts) >= 2:
                    yield from ((_name(target.elts[n - 2]), n) for n in (0, 1))
                elif isinstance(node.value, ast.Tuple | ast.List):
                    for one, value in zip(target.elts, node.value.elts, strict=False):
                        yield from _use(_name(one), value, names)
        elif isinstance(node, ast.keyword) and node.arg is not None:
            yield from _use(node.arg, node.value, names)


def _use(target: str, value: ast.AST, names: set[str]) -> Iterator[tuple[str, int]]:
    place = _place(value, names)
    if place is not None:
        yield target, place


def _inside(node: ast.AST, names: set[str], scope: dict[str, Any], depth: int) -> Iterator[bool]:
    """Yield what the parameters of a function say to which the numbers are passed by place."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return
    called = scope.get(node.func.id)
    if not inspect.isroutine(called) and not inspect.isclass(called):
        return
    try:
        takes = list(signature_of(called).parameters)
    except (TypeError, ValueError):
        return
    for n, argument in enumerate(node.args):
        found = None
        if isinstance(argument, ast.Starred) and _name(argument.value) in names:
            found = _of_names(takes[n : n + 2])
        elif _name(argument) in names and n < len(takes):
            found = _shown(called, takes[n], depth - 1)
        elif [_place(each, names) for each in node.args[n : n + 2]] == [0, 1]:
            found = _of_names(takes[n : n + 2])
        if found is not None:
            yield found


def _of_names(pair: list[str]) -> bool | None:
    roles = [role_of(name) for name in pair]
    known = {"grid_height": False, "grid_width": True}
    return known.get(roles[0] or "") if len(set(roles)) == 2 else None


def _place(value: ast.AST, names: set[str]) -> int | None:
    """Return which of the two numbers an expression is made of, or None for none or both."""
    places = set()
    for node in ast.walk(value):
        if isinstance(node, ast.Subscript) and _name(node.value) in names:
            try:
                places.add(int(ast.literal_eval(node.slice)) % 2)
            except (ValueError, TypeError):
                return None
    return places.pop() if len(places) == 1 else None


def _name(node: ast.AST) -> str:
    """Return the name of a variable or of an attribute, else the empty string."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
