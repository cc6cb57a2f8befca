"""What a vector is before its truth is known: where it belongs, and its inputs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posenc_ref import Encoding

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Recipe:
    """One case of a group; ``inputs`` are NumPy arrays and plain numbers, in call order."""

    id: str
    comment: str
    inputs: Mapping[str, Any]
    spec: str = ""  #: the group's, unless the case has one of its own

    def __post_init__(self) -> None:
        if not _SLUG.fullmatch(self.id):
            raise ValueError(f"id must be lower-case words joined by hyphens, got {self.id!r}")


@dataclass(frozen=True)
class Group:
    """Cases of one encoding on one surface.  Their ids start with the group's."""

    id: str
    surface: str
    encoding: Encoding | None
    spec: str  #: the published definition: paper or code, with its section
    cases: tuple[Recipe, ...]


@dataclass(frozen=True)
class Theme:
    """One file."""

    name: str
    title: str
    groups: tuple[Group, ...] = field(default=())


def numbers(seed: str, shape: tuple[int, ...], *, bits: int = 6) -> np.ndarray:
    """Multiples of 1/8, none of them 0, of both signs, below ``2**bits / 8`` in size: float32.

    Every floating dtype holds them exactly.  They come from SHA-256, whose bytes no library
    version changes.
    """
    count = int(np.prod(shape))
    blocks = range(-(-2 * count // 32))
    data = b"".join(hashlib.sha256(f"{seed}/{i}".encode()).digest() for i in blocks)
    raw = np.frombuffer(data[: 2 * count], dtype=">u2").astype(np.int64)
    top = 2**bits - 1
    signed = np.where(raw % 2 == 0, 1, -1) * (raw // 2 % top + 1)
    return np.asarray((signed / 8).astype(np.float32).reshape(shape))


def whole(*positions: int) -> np.ndarray:
    """Integer positions."""
    return np.array(positions, dtype=np.int64)


def apply_case(
    group: str, name: str, comment: str, head_dim: int, positions: np.ndarray,
    batch: int = 1, heads: int = 1,
) -> Recipe:  # fmt: skip
    """A case of ``apply``: x (batch, heads, S, head_dim) of its own for every id."""
    ident = f"{group}-{name}"
    x = numbers(ident, (batch, heads, positions.shape[-1], head_dim))
    return Recipe(ident, comment, {"x": x, "positions": positions})
