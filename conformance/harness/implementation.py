"""An implementation to judge, with everything needed to call it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from posenc_ref import Encoding, ModelEncoding


@dataclass(frozen=True)
class Implementation:
    """An implementation in the shape of a surface.

    ``call`` takes exactly the surface's positional arguments, as arrays of ``backend``.

    Attributes
    ----------
    call : callable
        The function.
    surface : str
        The shape in which it is called; see :func:`check`.
    name : str
        What reports call it.
    encoding : Encoding | ModelEncoding, optional
        What its configuration says it is.
    backend : str
        The array library that it takes.
    tensor_layout : str
        How ``apply`` wants x; see :func:`check`.
    head_dim : int, optional
        Size of the last axis of x, where nothing else tells.
    num_heads : int, optional
        Heads that it takes; None: any number.
    axes : int
        Position axes: ``apply`` gets positions (A, B, S) where there are several.
    factory : callable, optional
        ``factory()``: a fresh instance, for state tests.
    problems : callable, optional
        ``problems()``: what went wrong beside the calls, as (message, evidence) of findings; asked
        for at the end.
    """

    call: Callable[..., Any]
    surface: str
    name: str
    encoding: Encoding | ModelEncoding | None = None
    backend: str = "numpy"
    tensor_layout: str = "bhsd"
    head_dim: int | None = None
    num_heads: int | None = None
    axes: int = 1
    factory: Callable[[], Implementation] | None = None
    problems: Callable[[], list[tuple[str, str]]] | None = None

    def __call__(self, *args: Any) -> Any:
        """Call the implementation."""
        return self.call(*args)
