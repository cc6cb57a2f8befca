"""Check the structure of a GGUF file before the ``gguf`` package reads it.

The package trusts every length in the file: one flipped bit makes it loop over 2**40 values that
are not there.  This module walks through the header once and raises ValueError for any number that
does not fit the file or the bounds of :mod:`posenc_ref.limits`.

The format is that of ggml's ``docs/gguf.md``, versions 2 and 3.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc_ref._documents import open_regular, require_regular
from posenc_ref._text import shown
from posenc_ref.limits import AXES, RECORDS, VOCABULARY

#: The size in bytes of each scalar type of the metadata, by its number.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_UINT32, _STRING, _ARRAY = 4, 8, 9
_ALIGNMENT = "general.alignment"


def require_sound(path: Path) -> None:
    """Raise ValueError unless every length in the header of a GGUF file fits the file.

    Raise ImportError if the ``gguf`` package is not installed.
    """
    require_regular(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        import gguf
    except ImportError as error:
        raise ImportError(
            'the gguf package reads GGUF files; pip install "posenc-ref[gguf]"'
        ) from error
    # Numbers in a block, and bytes of a block, by the number of the tensor's type.
    blocks = {int(kind): sizes for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    with open_regular(path) as file:
        magic = file.read(4)
        if magic != b"GGUF":
            raise ValueError(f"{path} is no GGUF file: it begins with {magic!r}")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _Header(path, data, blocks).walk()


class _Header:
    """The header of a file, with the place that is read next."""

    def __init__(self, path: Path, data: Any, blocks: Mapping[int, tuple[int, int]]) -> None:
        self.path, self.data, self.blocks = path, data, blocks
        self.at, self.size, self.order, self.what = 4, len(data), "<", "the header"

    def wrong(self, message: str) -> ValueError:
        return ValueError(f"{self.path} is no GGUF file that can be read: {message}")

    def take(self, count: int) -> int:
        """Go on by ``count`` bytes, and return the place where they begin."""
        begin = self.at
        if count > self.size - begin:
            raise self.wrong(
                f"{self.what} needs {count} bytes at byte {begin}, but the file has {self.size}"
            )
        self.at = begin + count
        return begin

    def number(self, kind: str) -> int:
        """Return the next number, of a type of ``struct``."""
        kind = self.order + kind
        (found,) = struct.unpack_from(kind, self.data, self.take(struct.calcsize(kind)))
        return int(found)

    def string(self) -> bytes:
        """Return the next string."""
        length = self.number("Q")
        begin = self.take(length)
        return bytes(self.data[begin : begin + length])

    def name(self, what: str) -> str:
        """Return the next string as the name of a key or tensor."""
        self.what = f"the name of {what}"
        try:
            found = self.string().decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.wrong(f"{self.what} is not UTF-8: {error.reason}") from None
        self.what = f"{what} ({shown(found)})"
        return found

    def walk(self) -> None:
        """Read the whole header."""
        version = self.number("I")
        if version & 0xFFFF == 0:
            self.order, self.at = ">", 4
            version = self.number("I")
        if version not in (2, 3):
            raise self.wrong(f"its version must be 2 or 3, got {version}")
        tensors, keys = self.number("Q"), self.number("Q")
        for what, number in (("tensors", tensors), ("keys", keys)):
            if number > RECORDS:
                raise self.wrong(f"it must have at most {RECORDS} {what}, got {number}")
        alignment, seen = 32, {"GGUF.version", "GGUF.tensor_count", "GGUF.kv_count"}
        for n in range(keys):
            name = self.name(f"key {n}")
            if name in seen:
                raise self.wrong(f"the key {shown(name)} occurs twice")
            seen.add(name)
            kind = self.number("I")
            if name == _ALIGNMENT:
                alignment = self.alignment(kind)
            else:
                self.value(kind, text=not name.startswith("tokenizer."))
        infos = [self.tensor(n) for n in range(tensors)]
        start = math.ceil(self.at / alignment) * alignment
        names = [name for name, _, _ in infos]
        for name, offset, count in infos:
            if offset + count > self.size - start:
                raise self.wrong(
                    f"the tensor {shown(name)} needs {count} bytes at byte {start + offset}, but "
                    f"the file has {self.size}"
                )
        if len(set(names)) < len(names):
            raise self.wrong("two tensors have the same name")

    def alignment(self, kind: int) -> int:
        """Return the alignment of the tensors."""
        number = self.number("I") if kind == _UINT32 else 0
        if number == 0 or number & (number - 1):
            raise self.wrong(f"{_ALIGNMENT} must be a power of two of type uint32, got {number}")
        return number

    def value(self, kind: int, text: bool) -> None:
        """Go past a value of the metadata; ``text`` says whether its strings must be UTF-8."""
        if kind == _ARRAY:
            kind, count = self.number("I"), self.number("Q")
            if count > VOCABULARY:
                raise self.wrong(f"{self.what} must have at most {VOCABULARY} values, got {count}")
            if kind in _SIZES:
                self.take(count * _SIZES[kind])
                return
            if kind != _STRING:
                raise self.wrong(f"{self.what} must be a list of numbers or strings")
            for _ in range(count):
                self.text(text)
        elif kind == _STRING:
            self.text(text)
        elif kind in _SIZES:
            self.take(_SIZES[kind])
        else:
            raise self.wrong(f"{self.what} must have a type from 0 to 12, got {kind}")

    def text(self, text: bool) -> None:
        """Go past a string."""
        found = self.string()
        if text:
            try:
                found.decode("utf-8")
            except UnicodeDecodeError as error:
                raise self.wrong(f"{self.what} is not UTF-8: {error.reason}") from None

    def tensor(self, n: int) -> tuple[str, int, int]:
        """Return the name of a tensor, and its place and size in bytes."""
        name = self.name(f"tensor {n}")
        axes = self.number("I")
        if axes > AXES:
            raise self.wrong(f"{self.what} must have at most {AXES} axes, got {axes}")
        shape = [self.number("Q") for _ in range(axes)]
        kind, offset = self.number("I"), self.number("Q")
        if kind not in self.blocks:
            raise self.wrong(f"{self.what} has the unknown type {kind}")
        block, width = self.blocks[kind]
        if block > 1 and (not shape or shape[0] % block):
            raise self.wrong(f"{self.what} must have rows of whole blocks of {block} numbers")
        return name, offset, math.prod(shape) // block * width
