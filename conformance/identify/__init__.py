"""Identify a function from outside, with nothing declared."""

from .function import identify

__all__ = ["identify"]
