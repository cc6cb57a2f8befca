"""Read .npy and .npz files that others wrote, within the bounds of :mod:`posenc_ref.limits`.

NumPy reads the numbers; the header of every array, and the directory of an archive, are checked
here first, because NumPy parses a header as Python and allocates what it states.
"""

from __future__ import annotations

import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from posenc_ref._documents import open_regular
from posenc_ref._text import shown
from posenc_ref.limits import AXES, HEADER, RATIO, RECORDS, TENSORS, UNPACKED

_MAGIC = b"\x93NUMPY"
#: The header that NumPy writes for such an array; |V2 is bfloat16.
_HEADER = re.compile(
    r"\{'descr': '(?P<dtype>[<>|=]?(?:[fiu][1248]|b1|V2|[^']{1,20}))', "
    r"'fortran_order': (?:True|False), 'shape': \((?P<shape>[0-9, ]*)\), \}\s*"
)
#: The methods of np.savez and np.savez_compressed.  Others allocate what a damaged header states.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: The exceptions of NumPy and zipfile for damaged files.
_DAMAGED = (
    OSError, ValueError, EOFError, RuntimeError, NotImplementedError, struct.error, zlib.error,
    zipfile.BadZipFile,
)  # fmt: skip


def read_npy(path: Path) -> np.ndarray:
    """Return the array of a .npy file; raise ValueError that names the file."""
    try:
        with open_regular(path) as stream:
            return _array(stream, path.stat().st_size)
    except _DAMAGED as error:
        raise ValueError(f"{path} cannot be read as an array: {error}") from error


def read_npz(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the values of every array in a .npz file.

    Raise ValueError that names the file and the array, also for an archive that would unpack to
    much more than its own size.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            total, own = sum(info.file_size for info in members), path.stat().st_size
            names = {info.filename for info in members}
    except _DAMAGED as error:
        raise ValueError(f"{path} cannot be read as a .npz file: {error}") from error
    if total > max(UNPACKED, RATIO * own) or total > TENSORS:
        raise ValueError(f"{path} must not unpack to {total} bytes; it has {own}")
    if len(names) < len(members) or len(members) > RECORDS:
        raise ValueError(f"{path} must hold arrays of different names, at most {RECORDS}")
    packed = next((i for i in members if i.compress_type not in _METHODS), None)
    if packed is not None:
        raise ValueError(
            f"{path}: {shown(packed.filename)} must be stored or deflated, as np.savez writes it, "
            f"got compression method {packed.compress_type}"
        )
    with zipfile.ZipFile(path) as archive:
        for info in members:
            name = info.filename.removesuffix(".npy")
            try:
                with archive.open(info) as stream:
                    found = _array(stream, info.file_size)
            except _DAMAGED as error:
                raise ValueError(f"{path}: {shown(name)} cannot be read: {error}") from error
            yield name, found


def _array(stream: IO[bytes], size: int) -> np.ndarray:
    """Return the array in a stream of ``size`` bytes; raise ValueError unless the header fits."""
    start = stream.read(12)
    if start[:6] != _MAGIC or len(start) < 12 or start[6] not in (1, 2, 3):
        raise ValueError(f"it is no array in NumPy's format: it begins with {start[:8]!r}")
    wide = start[6] > 1
    length = int.from_bytes(start[8:12] if wide else start[8:10], "little")
    if length > HEADER:
        raise ValueError(f"its header must have at most {HEADER} bytes, it has {length}")
    rest = b"" if wide else start[10:12]
    text = (rest + stream.read(length - len(rest))).decode("latin-1")
    header = _HEADER.fullmatch(text)
    if header is None:
        raise ValueError(f"its header is not that of an array of numbers: {shown(text)}")
    try:
        dtype = np.dtype(header["dtype"])
    except TypeError:
        raise ValueError(f"its dtype is not known: {shown(header['dtype'])}") from None
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not read")
    shape = [int(n) for n in header["shape"].replace(",", " ").split()]
    count, begin = math.prod(shape) * dtype.itemsize, (12 if wide else 10) + length
    if len(shape) > AXES or count != size - begin:
        raise ValueError(
            f"its shape {tuple(shape)} of {dtype} needs {count} bytes, and {size - begin} follow"
        )
    stream.seek(0)
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
