"""Find out by trial calls how a callable gives a table of rows.

Every trial call uses a number of rows that no other axis has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref._namespace import namespace, to_host
from posenc_ref.conformance.harness.foreign import Refused, refusals

from .facts import Facts
from .positions import SEVERAL_AXES, arranged
from .roles import parameters, role_of
from .signatures import signature_of
from .tables import AT_POSITIONS, SEQUENCES, WINDOWS, Source

#: The numbers of batch rows and of rows in a trial call.
BATCH, ROWS = 5, 11
#: The roles that every call of a source has a value for.
_CALL = ("x", "positions", "length", "shape", "embeddings", "tokens", "start", "offset", "dtype",
         "device")  # fmt: skip
#: The numbers of an array in the message of an exception.
_ARRAY = re.compile(r":? *(tensor|array|Array)\(\[.*", re.DOTALL)


class NoTable(ValueError):
    """A callable returns no table of cos and sin; the message says what was tried."""


def find_source(
    call: Callable[..., Any], facts: Facts, words: str, like: Any, axes: Sequence[int] = ()
) -> Source:
    """Return how to get rows from ``call``; ``like`` is an array such as x, with D channels.

    ``axes`` are the numbers of position axes to try besides one.

    Raises
    ------
    NoTable
        No way of calling it returns an array with a row for each position.
    """
    tried = []
    missing = _without_value(call, facts)
    for kind, count in _kinds(call, axes, missing):
        trial = Source(call, facts, words, kind, count)
        try:
            with refusals():
                return _measured(trial, like)
        except Refused as error:
            way = kind if count == 1 else f"{kind} with A={count}"
            tried.append(f"called with {way}: {_ARRAY.sub('', str(error))}")
    if len(missing) > 1:
        listed = ", ".join(map(repr, missing))
        raise NoTable(
            f"{words}: no value is known for the parameters {listed}; give all but the number of "
            "rows with --init NAME=VALUE"
        )
    some = "; ".join(list(dict.fromkeys(tried))[:2])
    raise NoTable(f"{words} returns no table of cos and sin: {some}")


def _without_value(call: Callable[..., Any], facts: Facts) -> list[str]:
    """Return the required parameters that neither the facts nor a call has a value for."""
    return [
        p.name
        for p in signature_of(call).parameters.values()
        if p.default is p.empty
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and (role := role_of(p.name)) not in _CALL
        and facts.value(p.name, role) is None
    ]


def _kinds(
    call: Callable[..., Any], axes: Sequence[int], missing: Sequence[str] = ()
) -> Iterator[tuple[str, int]]:
    """Yield the kinds of sources to try, each with its number of position axes.

    A parameter of which nothing is known, if it is the only one, is the number of rows.
    """
    roles = {role_of(name) for name in signature_of(call).parameters}
    if "positions" in roles:
        streams, *others = SEVERAL_AXES
        # Several axes come first: such a table also takes (B, S), and copies it to every axis.
        yield from ((streams, count) for count in axes)
        yield "positions", 1
        yield from ((kind, count) for kind in others for count in axes)
        yield "row of positions", 1
        yield "column of positions", 1
    kinds = ["shape"] if "shape" in roles else []
    counted = len(missing) == 1 and not {"x", "positions", "tokens", "embeddings"} & roles
    kinds += ["length"] if "length" in roles or counted else []
    kinds += WINDOWS if {"tokens", "embeddings", "start"} & roles else []
    kinds += ["positions as x", *SEQUENCES] if "x" in roles else []
    yield from ((kind, 1) for kind in (*kinds, "nothing"))


def _measured(trial: Source, like: Any) -> Source:
    """Return the source with the shape and form of its table, or raise an exception."""
    if trial.axes > 1:
        return _measured_axes(trial, like)
    xp = namespace(like)
    at = xp.arange(ROWS)
    if trial.kind in AT_POSITIONS:
        shape = {"positions": (1, -1), "column of positions": (-1, 1)}.get(trial.kind, (-1,))
        raw = trial._called(like, positions=at.reshape(shape))
    else:
        raw = trial._called(like, length=ROWS)
    parts = trial._parts(raw)
    if not parts or not all(hasattr(part, "shape") for part in parts):
        raise ValueError("it returns no array")
    if len(parts) == 1 and parts[0].ndim > 2 and parts[0].shape[0] == 2:
        trial = replace(trial, stacked=True, kept={})
        parts = (parts[0][0], parts[0][1])
    if trial.kind not in AT_POSITIONS and any(tuple(p.shape).count(ROWS) > 1 for p in parts):
        raise ValueError(f"called for {ROWS} positions, it returns a matrix of {ROWS} x {ROWS}")
    rows = None if trial.kind != "nothing" else max(parts[0].shape)
    templates = tuple(template_of(tuple(part.shape), rows or ROWS) for part in parts)
    if any(_width(t) > 2 * like.shape[-1] for t in templates):
        raise ValueError(f"the rows of its table are too long: shape {tuple(parts[0].shape)}")
    found = replace(trial, templates=templates, kept={})
    two = found.rows(like, at[:2]).parts
    alike = all(np.array_equal(to_host(part[0]), to_host(part[1])) for part in two)
    guessed = (*SEQUENCES, *WINDOWS, "positions as x", "shape", "nothing")
    named = found.kind != "length" or "length" in parameters(found.call)
    if alike and (found.kind in guessed or not named):
        raise ValueError("all rows of its table are equal")
    return replace(found, form=form_of(two), kept={})


def _measured_axes(trial: Source, like: Any) -> Source:
    """Return the source of a table of several position axes, each of which it must depend on."""
    xp = namespace(like)
    batch = 1 if trial.kind == "(S, A)" else BATCH
    at = np.broadcast_to(np.arange(ROWS), (trial.axes, batch, ROWS)).copy()
    parts = trial._parts(trial._called(like, positions=arranged(trial.kind, xp.asarray(at))))
    accepted = [(batch, ROWS), (ROWS,)] if batch == 1 else [(batch, ROWS)]
    if not parts or any(tuple(part.shape[:-1]) not in accepted for part in parts):
        shapes = [tuple(part.shape) for part in parts]
        raise ValueError(f"tables of shape {shapes} for positions {(batch, ROWS)}")
    found = replace(trial, templates=tuple((1, -1, part.shape[-1]) for part in parts), kept={})
    before = found.rows(like, xp.asarray(0 * at)).parts
    for axis in range(trial.axes):
        moved = 0 * at
        moved[axis] = 1
        after = found.rows(like, xp.asarray(moved)).parts
        pairs = zip(after, before, strict=True)
        if all(np.array_equal(to_host(a), to_host(b)) for a, b in pairs):
            raise ValueError(f"the table ignores the positions of axis {axis} of {trial.axes}")
    return replace(found, form=form_of(tuple(part[0] for part in before)))


def template_of(shape: tuple[int, ...], rows: int) -> tuple[int, ...]:
    """Return ``shape`` with -1 for the axis of rows; axes before it must be 1."""
    if rows not in shape:
        raise ValueError(f"called for {rows} positions, it returns shape {shape}")
    axis = shape.index(rows)
    if any(n != 1 for n in shape[:axis]) or len(shape) < axis + 2:
        raise ValueError(
            f"its table has the shape {shape}: expected axes of 1, {rows} positions, channels"
        )
    return (*shape[:axis], -1, *shape[axis + 1 :])


def _width(template: tuple[int, ...]) -> int:
    """Return the number of channels in a row of a table; cos and sin may be in a last axis of 2."""
    width = 1
    for n in template[template.index(-1) + 1 :]:
        width *= n
    return width


def form_of(parts: tuple[Any, ...]) -> str:
    """Return the form of a table, recognized at position 0, where cos is 1 and sin is 0."""
    host = [to_host(part)[0].reshape(-1) for part in parts]
    if np.iscomplexobj(host[0]):
        return "complex"
    if len(host) == 2:
        return "sin, cos" if not host[0].any() and host[1].all() else "cos, sin"
    if not host[0].any():
        return "angles"
    half = len(host[0]) // 2
    first, last = host[0][:half], host[0][half:]
    if not first.any():
        return "sin|cos"
    return "cos|sin" if not last.any() else "other"
