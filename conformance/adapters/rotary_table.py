"""The tables of rotary modules: how a module is called, also with an image or with coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from posenc_ref.conformance.calling.facts import Facts
from posenc_ref.conformance.calling.positions import require_indices
from posenc_ref.conformance.calling.roles import parameters
from posenc_ref.conformance.calling.subject import calling
from posenc_ref.conformance.calling.table_search import NoTable, find_source
from posenc_ref.conformance.calling.tables import Source

#: The numbers of position axes to try besides one.
AXES = (2, 3, 4)
#: Rows and columns of the patch grid for modules that take an image, and the patch sizes to try.
SIDE = 160
PATCHES = (1, 2, 4, 8, 14, 16, 32)
#: The most rows of a table, and the most channels.
_LONGEST = 2**21
WIDEST = 4096


def find_table(
    module: Any, layer_types: tuple[str | None, ...] = (None,)
) -> tuple[Source, str | None]:
    """Return the table of `module` and its layer type; raise ValueError with what was tried."""
    import torch

    like, name = torch.zeros(1, 1, 1, WIDEST), type(module).__name__
    tried = []
    for layer_type in layer_types:
        facts = Facts({} if layer_type is None else {"layer_type": layer_type}, {}, {})
        words = name if layer_type is None else f"{name}, layer type {layer_type!r},"
        for call, axes in _calls(module):
            try:
                found = find_source(call, facts, words, like, axes)
                return replace(found, most=_LONGEST), layer_type
            except NoTable as error:
                tried.append(str(error))
    wants = ", ".join(parameters(module.forward)) or "nothing"
    raise ValueError(
        f"{name} gives no table at given positions (its forward takes {wants}); "
        f"tried {'; '.join(dict.fromkeys(tried)) or 'nothing, as it takes no positions'}"
    )


def of_module(source: Source, module: Any) -> Source:
    """Return the same source for another instance of its module."""
    call: Any = source.call
    ask = partial(call.func, module) if isinstance(call, partial) else forward(module)
    return replace(source, call=ask, kept={})


def module_of(source: Source) -> Any:
    """Return the module that makes a table."""
    call: Any = source.call
    return call.args[0] if isinstance(call, partial) else call.__wrapped__.__self__


def on_grid(source: Source) -> bool:
    """Return whether the positions of a table are rows and columns of the patches of an image."""
    return isinstance(source.call, partial) and source.call.func is grid_rows


def forward(module: Any) -> Callable[..., Any]:
    """Return a module with the signature of its ``forward``."""
    return calling(module, module.forward)


def _calls(module: Any) -> Iterator[tuple[Callable[..., Any], Sequence[int]]]:
    """Yield functions that may give the table of a module, and their numbers of position axes."""
    if hasattr(getattr(module, "embed_positions", None), "dtype"):
        yield partial(buffer_rows, module), ()
        return
    names = set(parameters(module.forward))
    if "positions" in names:
        yield forward(module), AXES
    elif {"coordinates", "identity"} <= names:
        yield partial(space_rows, module), (4,)
    elif "points" in names:
        yield partial(point_rows, module), (2,)
    elif names in ({"image"}, {"x"}):
        yield partial(grid_rows, module), (2,)
        if names == {"x"}:
            yield forward(module), ()


def buffer_rows(module: Any, x: Any, positions: Any) -> Any:
    """Return rows of a buffer as attention does: gather, then cast to the dtype of x."""
    rows = module.embed_positions
    index = positions[..., None].expand(*positions.shape, rows.shape[-1])
    return rows.expand(len(positions), *rows.shape).gather(1, index).to(x.dtype)


def space_rows(module: Any, x: Any, positions: Any) -> Any:
    """Return rows at positions (4, B, S): three coordinates and the residue number."""
    coordinates = positions[:3].movedim(0, -1)
    roles = {"coordinates": coordinates, "identity": positions[3], "dtype": x.dtype}
    return module(**Facts({}, roles, {}).arguments(module.forward, {}))


def point_rows(module: Any, positions: Any) -> Any:
    """Return rows at keypoints (2, B, S), which a learned linear map turns into angles."""
    import torch

    points = positions.movedim(0, -1).to(next(module.parameters()).dtype)
    with torch.no_grad():
        return module(**Facts({}, {"points": points}, {}).arguments(module.forward, {}))[0]


def grid_rows(module: Any, x: Any, positions: Any) -> Any:
    """Return rows of the table of a square image, at positions (2, B, S): patch rows and columns.

    The module takes an image and numbers its patches row by row; later tokens, such as Llama 4's
    class token, are omitted.
    """
    name = type(module).__name__
    require_indices(positions)
    for patch in PATCHES:
        side = SIDE * patch
        # The module ignores the values; expanding one number needs no memory.
        raw = module(x.new_zeros(()).expand(1, 3, side, side))
        parts = raw if isinstance(raw, tuple) else (raw,)
        rows = [part.numel() // part.shape[-1] for part in parts]
        sides = {math.isqrt(n) for n in rows}
        if sides == {SIDE} or set(rows) == {n * n + 1 for n in sides}:
            break
    else:
        raise ValueError(f"{name} has tables of {rows} rows for an image of {side} x {side}")
    side = sides.pop()
    if bool((positions >= side).any()):
        raise ValueError(f"positions must be below {side}: the table of {name} has {side} rows "
                         f"and columns of patches")  # fmt: skip
    index = positions[0] * side + positions[1]
    return tuple(part.reshape(-1, part.shape[-1])[index] for part in parts)
