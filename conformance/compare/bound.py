"""Bind the two functions that are compared, so that both are called as one surface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from posenc_ref.conformance.calling import NoConvention, bind, takes
from posenc_ref.conformance.harness.foreign import tame
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.signatures import SURFACES

#: The array library, the tensor layout and the name of a function; None: found out.
Settings = tuple[str | None, str | None, str | None]


def bound(
    fn_a: Any,
    fn_b: Any,
    surface: str | None,
    settings: Sequence[Settings],
    *,
    head_dim: int | None,
    **options: Any,
) -> tuple[Implementation, Implementation]:
    """Return both functions as implementations, with one size of a head if they share any.

    A function of x that is compared with one of queries and keys is called for each of them.
    """
    a = _one(fn_a, surface, settings[0], head_dim, options)
    try:
        b = _one(fn_b, surface, settings[1], head_dim or a.head_dim, options)
    except NoConvention:  # B may accept another size than the first that A accepts
        b = _one(fn_b, surface, settings[1], head_dim, options)
        a = _one(fn_a, surface, settings[0], head_dim or b.head_dim, options)
    if {a.surface, b.surface} == {"apply", "apply_qk"}:
        a, b = (one.of_pairs() if one.surface == "apply" else one for one in (a, b))
    return a, b


def _one(
    fn: Any, surface: str | None, settings: Settings, head_dim: int | None, options: dict[str, Any]
) -> Implementation:
    """Return one function with the settings of its calls."""
    backend, tensor_layout, name = settings
    if not callable(fn):
        raise TypeError(f"fn_a and fn_b must be callable, got {type(fn).__name__}")
    fn = tame(fn)
    if surface not in (None, *SURFACES):
        raise ValueError(f"surface must be one of {', '.join(SURFACES)}, got {surface!r}")
    given = isinstance(fn, Implementation)
    found: Implementation = fn if given else _found(fn, surface, settings, head_dim, options)
    return replace(
        found,
        surface=surface or found.surface,
        name=name or found.name,
        backend=backend or found.backend,
        tensor_layout=tensor_layout or found.tensor_layout,
    )


def _found(
    fn: Callable[..., Any],
    surface: str | None,
    settings: Settings,
    head_dim: int | None,
    options: dict[str, Any],
) -> Implementation:
    """Return a function as it is if it has the arguments of its surface, or else as bound."""
    backend, tensor_layout, name = settings
    own = str(getattr(fn, "__name__", type(fn).__name__))
    plain = Implementation(fn, surface or "apply", name or own)
    if surface is not None and takes(fn, surface):
        return plain
    try:
        found = bind(
            fn, None, surface, backend=backend, tensor_layout=tensor_layout, name=name,
            head_dim=head_dim, **options,
        )  # fmt: skip
    except NoConvention:
        if surface is None and takes(fn, "apply"):
            return plain
        raise
    return found if found.how else replace(plain, surface=found.surface, backend=found.backend)
