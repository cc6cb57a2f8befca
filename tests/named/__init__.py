"""Mistakes that everybody has heard of, each written by several strangers.

Unlike tests/mutants, which asks for a code, this asks for words: what is said first has to name
the mistake so that its author knows where to look.
"""

from . import alibi, ids, relative, t5, tables  # noqa: F401  (importing a module files its cases)
from ._case import CASES, Case

__all__ = ["CASES", "Case"]
