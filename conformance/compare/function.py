"""The function ``compare``: judge a function against another one, which is the declaration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref.conformance.check import require_reach

from .bound import bound
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
    strict: bool = False,
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
        How both functions are called; by default as :func:`bind` finds out.
    head_dim : int, optional
        Size of the last axis of x, or of q and k; by default the first usual size that both
        functions accept.
    axes : int
        Number of position axes; with several, ``apply`` takes positions (A, B, S).
    backend, tensor_layout : str or tuple, optional
        As for :func:`check`; a tuple has one value for each function.
    dtype, device, max_position, strict, seed
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
    settings = list(zip(_each(backend), _each(tensor_layout), names, strict=True))
    a, b = bound(fn_a, fn_b, surface, settings, dtype=dtype, head_dim=head_dim, axes=axes)
    if a.surface != b.surface:
        raise ValueError(
            f"surface must be the same for both functions, got {a.surface!r} for the first and "
            f"{b.surface!r} for the second: wrap one of them"
        )
    require_reach(a.surface, max_position)
    options = {"dtype": dtype, "device": device, "max_position": max_position, "seed": seed}
    sizes = {
        "head_dim": head_dim or a.head_dim or b.head_dim,
        "axes": max(axes, a.axes, b.axes),
    }
    with np.errstate(all="ignore"):  # errors of the functions become findings
        return Comparing(a, b, options, sizes, strict).compared()


def _each(value: Any) -> tuple[Any, Any]:
    return value if isinstance(value, tuple) else (value, value)
