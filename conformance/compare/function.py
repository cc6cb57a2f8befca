"""The function ``compare``: judge a function against another one, which is the declaration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref.conformance.check import require_reach
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.signatures import SURFACES

from .comparing import Comparing
from .comparison import Comparison


def compare(
    fn_a: Callable[..., Any],
    fn_b: Callable[..., Any],
    surface: str | None = None,
    *,
    head_dim: int | None = None,
    axes: int = 1,
    backend: str | tuple[str | None, str | None] | None = None,
    dtype: str = "float32",
    tensor_layout: str | tuple[str | None, str | None] | None = None,
    device: str | None = None,
    max_position: int | None = None,
    seed: int = 0,
    names: tuple[str | None, str | None] = (None, None),
) -> Comparison:
    """Judge ``fn_a`` against ``fn_b``, which is the declaration, and say how to convert it.

    If :func:`identify` finds the encoding of ``fn_b``, ``fn_a`` is checked against that encoding.
    If not, the results of ``fn_b`` are the reference: ``fn_a`` conforms if it has the same
    deviations. Both functions are called with the same inputs in any case.

    Parameters
    ----------
    fn_a, fn_b : callable
        As for :func:`check`; an :class:`Implementation` includes its surface and sizes.
    surface : str, optional
        How both functions are called; by default that of an :class:`Implementation`, else
        ``apply``.
    head_dim : int, optional
        Size of the last axis of x, or of q and k; by default the first usual size that both
        functions accept.
    axes : int
        Number of position axes; with several, ``apply`` takes positions (A, B, S).
    backend, tensor_layout : str or tuple, optional
        As for :func:`check`; a tuple has one value for each function.
    dtype, device, max_position, seed
        As for :func:`check`.
    names : tuple
        The names of the functions in the report.

    Returns
    -------
    Comparison
        A :class:`Report` with ``.agreement``, ``.difference``, ``.differs``, ``.conversion`` and
        ``.converted``; print it to read it.

    Raises
    ------
    TypeError, ValueError
        Invalid settings, or ``fn_b`` cannot be called as the surface requires.
    """
    bound = [
        _bound(fn, surface, *values)
        for fn, *values in zip(
            (fn_a, fn_b), _each(backend), _each(tensor_layout), names, strict=True
        )
    ]
    wanted = [one.surface for one in bound]
    if wanted[0] != wanted[1]:
        raise ValueError(
            f"surface must be the same for both functions, got {wanted[0]!r} for the first and "
            f"{wanted[1]!r} for the second: wrap one of them"
        )
    require_reach(wanted[0], max_position)
    options = {"dtype": dtype, "device": device, "max_position": max_position, "seed": seed}
    sizes = {
        "head_dim": head_dim or bound[0].head_dim or bound[1].head_dim,
        "axes": max(axes, *(one.axes for one in bound)),
    }
    with np.errstate(all="ignore"):  # errors of the functions become findings
        return Comparing(bound[0], bound[1], options, sizes).compared()


def _each(value: Any) -> tuple[Any, Any]:
    return value if isinstance(value, tuple) else (value, value)


def _bound(
    fn: Callable[..., Any],
    surface: str | None,
    backend: str | None,
    tensor_layout: str | None,
    name: str | None,
) -> Implementation:
    """Return the function with the settings of its calls."""
    if not callable(fn):
        raise TypeError(f"fn_a and fn_b must be callable, got {type(fn).__name__}")
    if not isinstance(fn, Implementation):
        own = str(getattr(fn, "__name__", type(fn).__name__))
        fn = Implementation(fn, surface or "apply", own)
    surface = surface or fn.surface
    if surface not in SURFACES:
        raise ValueError(f"surface must be one of {', '.join(SURFACES)}, got {surface!r}")
    return replace(
        fn,
        surface=surface,
        name=name or fn.name,
        backend=backend or fn.backend,
        tensor_layout=tensor_layout or fn.tensor_layout,
    )
