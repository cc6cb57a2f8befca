"""Identify the encoding that a function implements, from the results of calls alone."""

from .function import identify

__all__ = ["identify"]
