"""One tensor of a checkpoint file: its bytes, its rows, and its values in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

#: Elements that are decoded at once: 64 MiB in float64.
_CHUNK = 1 << 23


def _bfloat16(raw: np.ndarray) -> np.ndarray:
    return (raw.view("<u2").astype("<u4") << 16).view("<f4")


def _e4m3(raw: np.ndarray) -> np.ndarray:
    exponent, fraction = raw >> 3 & 15, raw & 7
    small = np.ldexp(fraction / 8.0, -6)
    value = np.where(exponent == 0, small, np.ldexp(1 + fraction / 8.0, exponent.astype(int) - 7))
    value = np.where(raw & 127 == 127, np.nan, value)
    return np.where(raw & 128 != 0, -value, value)


#: How the bytes of each dtype become numbers, and the relative size of one rounding (2 ** -p).
_DECODERS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int]] = {
    "F64": (lambda raw: raw.view("<f8"), 53),
    "F32": (lambda raw: raw.view("<f4"), 24),
    "F16": (lambda raw: raw.view("<f2"), 11),
    "BF16": (_bfloat16, 8),
    "I8": (lambda raw: raw.view("i1"), 8),
    "F8_E4M3": (_e4m3, 4),
    "F8_E5M2": (lambda raw: (raw.astype("<u2") << 8).view("<f2"), 3),
}


@dataclass(frozen=True)
class Tensor:
    """A tensor in a safetensors or GGUF file.

    Parameters
    ----------
    name, dtype : str
        As in the file; dtypes are spelled as in safetensors (``BF16``).
    shape : tuple of int
        The first axis counts the rows (output channels) of a projection.
    file : Path
    offset, size : int
        Where its bytes begin in the file, and how many they are.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    offset: int
    size: int

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def precision(self) -> int:
        """The bits of the significand; raises ValueError for dtypes that are no numbers."""
        if self.dtype not in _DECODERS:
            raise ValueError(
                f"{self.name} in {self.file} is {self.dtype}, which cannot be read as numbers; "
                f"allowed are {', '.join(_DECODERS)}: use an unquantised file"
            )
        return _DECODERS[self.dtype][1]

    def rows(self, count: int) -> np.ndarray:
        """Return the bytes as an array (count, bytes per row)."""
        if self.size == 0 or self.size % count:
            raise ValueError(
                f"{self.name} has {self.size} bytes, which are not {count} rows of equal size"
            )
        raw = np.fromfile(self.file, np.uint8, self.size, offset=self.offset)
        return raw.reshape(count, -1)

    def values(self, count: int) -> Iterator[np.ndarray]:
        """Yield the values in float64 as arrays (rows, columns), ``count`` rows in total."""
        self.precision  # noqa: B018 - raises for dtypes without numbers
        decode = _DECODERS[self.dtype][0]
        width = self.elements // count
        size = self.size // self.elements
        step = max(1, _CHUNK // max(width, 1))
        for first in range(0, count, step):
            n = min(step, count - first)
            at = self.offset + first * width * size
            raw = np.fromfile(self.file, np.uint8, n * width * size, offset=at)
            yield np.asarray(decode(raw), np.float64).reshape(n, width)
