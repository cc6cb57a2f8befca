"""Compare two functions: judge one against the other, which serves as the declaration."""

from .function import compare

__all__ = ["compare"]
