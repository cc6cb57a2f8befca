"""Recipes of golden vectors: the inputs of each case, without the expected outputs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Encoding

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Recipe:
    """One case of a group: its inputs are NumPy arrays and plain numbers, in call order."""

    name: str  #: the case's id is the id of the group followed by this name
    comment: str
    inputs: Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """Cases of one encoding on one surface."""

    id: str
    surface: str
    encoding: Encoding | None
    spec: str  #: the published definition: paper or code, with its section
    cases: tuple[Recipe, ...]

    def __post_init__(self) -> None:
        for ident in (self.id, *(recipe.name for recipe in self.cases)):
            if not _SLUG.fullmatch(ident):
                raise ValueError(f"ids are lower-case words joined by hyphens, got {ident!r}")
        if not self.spec:
            raise ValueError(f"{self.id} must say where its definition is published")


@dataclass(frozen=True)
class Theme:
    """The groups of one file."""

    name: str
    title: str
    groups: tuple[Group, ...]


def numbers(seed: str, *shape: int) -> np.ndarray:
    """Return float32 multiples of 1/8 between -8 and 8, none of them 0.

    Every floating dtype holds them exactly.  They come from SHA-256, so no library version
    changes them.
    """
    count = int(np.prod(shape))
    blocks = range(-(-count // 16))
    data = b"".join(hashlib.sha256(f"{seed}/{i}".encode()).digest() for i in blocks)
    raw = np.frombuffer(data[: 2 * count], dtype=">u2").astype(np.int64)
    signed = np.where(raw % 2 == 0, 1, -1) * (raw // 2 % 63 + 1)
    return np.asarray((signed / 8).astype(np.float32).reshape(shape))


def whole(*values: Any) -> np.ndarray:
    """Return nested integers as an int64 array."""
    return np.array(values, dtype=np.int64)


def rotated(
    group: str, name: str, comment: str, head_dim: int, positions: np.ndarray,
    batch: int = 1, heads: int = 1,
) -> Recipe:  # fmt: skip
    """Return a case of ``apply`` with x (batch, heads, S, head_dim), computed from the id."""
    x = numbers(f"{group}-{name}", batch, heads, positions.shape[-1], head_dim)
    return Recipe(name, comment, {"x": x, "positions": positions})
