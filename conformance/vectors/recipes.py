"""All vectors there are, file by file."""

from __future__ import annotations

from . import recipes_rope
from .recipe import Theme


def themes() -> list[Theme]:
    """Every file, in the order of the manifest."""
    return [recipes_rope.plain()]
