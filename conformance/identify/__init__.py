"""Identify the encoding of a function by calling it, with nothing declared."""

from .function import identify

__all__ = ["identify"]
