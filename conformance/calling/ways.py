"""The ways to call a rotation: the roles of its parameters, and what they leave open."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .axes_tables import EACH
from .facts import Facts
from .grids import SIZES, Grid
from .positions import AXES_FORMS, FORMS
from .roles import Unbound, role_of
from .rotations import ONE_TOKEN, SETTINGS, TABLES, VECTORS, Rotation
from .signatures import signature_of
from .tables import SHAPES, Source

#: Roles of positions.
_PLACES = ("positions", "offset", *EACH)
_CALL = {*VECTORS, "cos", "sin", "length", *_PLACES, *TABLES}


def grid_ways(
    function: Callable[..., Any],
    order: Mapping[str, str],
    facts: Facts,
    layouts: Sequence[str],
    grids: Sequence[Grid],
    again: Callable[[tuple[int, ...]], Callable[..., Any]] | None,
    part: tuple[int, int] | None,
) -> Iterator[Rotation]:
    """Yield every way to call a rotation of whole grids."""
    needed = _required(function)
    order = {
        n: r for n, r in order.items()
        if r in VECTORS or r in SIZES or (r == "positions" and n in needed)
    }  # fmt: skip
    if "packed" in order.values():
        layouts = [layout for layout in layouts if layout == "bshd"]
    parts = [None, part] if part is not None else [None]
    for cut, grid, layout in itertools.product(parts, grids, layouts):
        yield Rotation(function, order, facts, layout, "grid", part=cut, grid=grid, again=again)


def ways(
    function: Callable[..., Any],
    order: Mapping[str, str],
    facts: Facts,
    layouts: Sequence[str],
    sources: Sequence[Source],
    part: tuple[int, int] | None,
) -> Iterator[Rotation]:
    """Yield every way to call a rotation whose parameters have these roles, likely ones first."""
    roles = set(order.values())
    if "packed" in roles:
        layouts = [layout for layout in layouts if layout == "bshd"]
    required_names = _required(function)
    required = {
        role_ for name, role_ in order.items()
        if signature_of(function).parameters[name].default is inspect.Parameter.empty
    }  # fmt: skip
    tables = bool({"cos", "sin", *TABLES} & required) or (
        bool({"cos", "sin", *TABLES} & roles) and not {"positions", "offset"} & roles
    )
    parts = [None, part] if part is not None else [None]
    forms: tuple[str, ...]
    if tables:
        gathers = bool({"positions", "offset"} & required)
        order = {n: r for n, r in order.items() if n in required_names or r not in _PLACES}
        forms = ("offset",) if "offset" in required else FORMS if gathers else ("",)
        for cut, source, shape, layout in itertools.product(parts, sources, SHAPES, layouts):
            several = gathers and source.axes > 1  # then the function gets what the table gets
            for form in (source.kind,) if several else forms:
                yield Rotation(
                    function, order, facts, layout, form, shape, source, source.axes, cut
                )
        return
    order = {n: r for n, r in order.items() if r not in ("cos", "sin", "length", *TABLES)}
    if set(EACH) & roles:
        forms = ("each (B, S)", "each (S,)")
    elif "positions" in roles:
        order = {n: r for n, r in order.items() if r != "offset"}
        forms = (*FORMS, *AXES_FORMS)
    else:
        forms = ("offset",) if "offset" in roles else ("",)
    for cut, layout, form in itertools.product(parts, layouts, forms):
        yield Rotation(function, order, facts, layout, form, part=cut)
    if "t(hd)" in layouts and {"positions", "offset"} & roles:
        yield Rotation(function, order, facts, "t(hd)", ONE_TOKEN)


def roles_in_call(
    function: Callable[..., Any], facts: Facts, also: Sequence[str] = ()
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the roles of the parameters of a call by name, and the values of the others.

    ``also`` are further roles whose values depend on the call.

    Raises
    ------
    Unbound
        A required parameter has no role in a call, and no known value.
    """
    order: dict[str, str] = {}
    fixed: dict[str, Any] = {}
    unknown: list[str] = []
    for name, parameter in signature_of(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        role = role_of(name)
        if name in facts.by_name:
            fixed[name] = facts.by_name[name]
        elif role == "value" and parameter.default is not parameter.empty:
            continue  # RoFormer rotates it too if it is given
        elif role == "positions" and type(parameter.default) is int and parameter.default:
            continue  # the number of an axis, as in Keras Hub's ESM
        elif role is not None and role in {*_CALL, *also} and role not in order.values():
            order[name] = role
        elif role in SETTINGS and (value := facts.value(name, role)) is not None:
            fixed[name] = value
        elif parameter.default is parameter.empty:
            value = facts.value(name, role)
            if value is None:
                unknown.append(name)
            else:
                fixed[name] = value
    if fixed.keys() >= {"factor", "scale"} and "scale" not in facts.by_name:
        del fixed["scale"]  # one of the two is the whole scaling
    pair = {"query", "key"} <= {*order.values()}
    placed = {"cos", "sin", *_PLACES, *TABLES} & {*order.values()}
    if len(unknown) == 1 and pair and not placed:
        order[unknown.pop()] = "positions"
    if unknown:
        raise Unbound(f"no value is known for the parameter {unknown[0]!r}")
    if not {"query", "key", "x", "packed"} & {*order.values()}:
        order = {name: "x" if role == "value" else role for name, role in order.items()}
    if "query" in order.values() and not {"key", "packed"} & {*order.values()}:
        order = {name: "x" if role == "query" else role for name, role in order.items()}
    return order, fixed


def _required(function: Callable[..., Any]) -> set[str]:
    signature = signature_of(function).parameters
    return {name for name, p in signature.items() if p.default is p.empty}
