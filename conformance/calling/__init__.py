"""Calling conventions: how the functions that people have are called."""

from .bind import NoConvention, UnusedInit, bind, takes
from .conventions import CONVENTIONS, Convention

__all__ = ["CONVENTIONS", "Convention", "NoConvention", "UnusedInit", "bind", "takes"]
