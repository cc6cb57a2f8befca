"""Somebody's implementation, with what is needed to drive it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from posenc_ref import Encoding, ModelEncoding


@dataclass(frozen=True)
class Implementation:
    """Somebody's implementation in the shape of a surface.

    ``call`` takes exactly the surface's positional arguments, as arrays of ``backend``.
    """

    call: Callable[..., Any]
    surface: str
    name: str
    encoding: Encoding | ModelEncoding | None = None  #: what its configuration says it is
    backend: str = "numpy"
    tensor_layout: str = "bhsd"
    head_dim: int | None = None
    num_heads: int | None = None
    axes: int = 1  #: position axes: ``apply`` gets positions (A, B, S) where there are several
    factory: Callable[[], Implementation] | None = None  #: a fresh instance, for state tests
    #: What went wrong beside the calls, as (message, evidence) of findings; asked for at the end.
    problems: Callable[[], list[tuple[str, str]]] | None = None

    def __call__(self, *args: Any) -> Any:
        """Call the implementation."""
        return self.call(*args)
