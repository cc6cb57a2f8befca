"""An implementation to judge, with the settings needed to call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from posenc_ref import Attention, ConvPositions, Encoding, ModelEncoding, PositionRule, RoPE
from posenc_ref._text import one_line

#: A declaration: an encoding, a whole model, attention, positions, or None.
Declared = Encoding | ModelEncoding | Attention | PositionRule | ConvPositions | None
#: The classes of declarations.
DECLARED = Encoding, ModelEncoding, Attention, PositionRule, ConvPositions


def rotated_channels(encoding: RoPE) -> RoPE:
    """Return the encoding of the rotated channels alone, such as 64 of DeepSeek's 192."""
    return encoding.replace(head_dim=encoding.rotary_dim, rotary_start=0, rotary_dim=None)


@dataclass(frozen=True)
class Implementation:
    """A callable with the signature of a surface, and the settings needed to call it.

    ``call`` takes exactly the surface's positional arguments, as arrays of ``backend``.

    Attributes
    ----------
    call : callable
        The function.
    surface : str
        The surface, which fixes the signature; see :func:`check`.
    name : str
        Its name in reports.
    encoding : Encoding, ModelEncoding, Attention, PositionRule or ConvPositions, optional
        The encoding that its configuration declares.
    backend : str
        The array library that it takes.
    tensor_layout : str
        The tensor layout of x in ``apply``; see :func:`check`.
    head_dim : int, optional
        Size of the last axis of x, if the encoding does not give it.
    num_heads : int, optional
        The number of heads that it accepts; None: any number.
    axes : int
        The number A of position axes; ``apply`` gets positions (A, B, S) if A > 1.
    factory : callable, optional
        ``factory()`` returns a fresh instance, for the state tests.
    how : str
        How the function is called, in one line, for the report; empty if exactly as the surface.
    problems : callable, optional
        ``problems()`` returns errors outside the calls, such as a program that fails when it exits:
        a message and its evidence for each. It is called once, after all calls.
    bound : mapping, optional
        The arguments of :func:`posenc_ref.conformance.bind` that made it, for code that makes it
        again.
    limits : tuple[str, ...]
        What its calls leave unjudged, for the report.
    """

    call: Callable[..., Any]
    surface: str
    name: str
    encoding: Declared = None
    backend: str = "numpy"
    tensor_layout: str = "bhsd"
    head_dim: int | None = None
    num_heads: int | None = None
    axes: int = 1
    factory: Callable[[], Implementation] | None = None
    how: str = ""
    problems: Callable[[], list[tuple[str, str]]] | None = None
    bound: Mapping[str, Any] | None = None
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", one_line(self.name))
        object.__setattr__(self, "how", one_line(self.how))

    def queries(self, x: Any, positions: Any) -> Any:
        """Return the rotated queries of an implementation of ``apply_qk``."""
        copied = x.clone() if hasattr(x, "clone") else x.copy()
        return self.call(x, copied, positions, positions)[0]

    def pair(self, q: Any, k: Any, q_positions: Any, k_positions: Any) -> tuple[Any, Any]:
        """Return the rotated queries and keys of an implementation of ``apply``."""
        return self.call(q, q_positions), self.call(k, k_positions)

    def of_pairs(self) -> Implementation:
        """Return an implementation of ``apply`` as one of ``apply_qk``."""
        factory = self.factory

        def again() -> Implementation:
            assert factory is not None
            made: Any = factory()
            call = made.call if isinstance(made, Implementation) else made
            return replace(self, call=call, factory=None).of_pairs()

        return replace(
            self, call=self.pair, surface="apply_qk", factory=None if factory is None else again
        )

    def __call__(self, *args: Any) -> Any:
        """Call the implementation."""
        return self.call(*args)
