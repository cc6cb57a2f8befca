"""Read JSON documents that others wrote, within the bounds of :mod:`posenc_ref.limits`."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ._text import one_line, shown
from .limits import DEPTH, DOCUMENT, ENTRIES, INTEGER_BITS

#: Bytes that are read at once: a file may grow while it is read.
_PART = 2**24


@contextmanager
def naming(where: str | None) -> Iterator[None]:
    """Within this context, the message of every TypeError or ValueError names ``where`` it is."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if where is None or where in str(error):
            raise
        raise ValueError(f"{where}: {error}") from None


def require_regular(path: Path) -> None:
    """Raise ValueError for a pipe, a device or a socket; links are followed."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # the reader says what is wrong
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ValueError(_irregular(path))


@contextmanager
def open_regular(path: Path) -> Iterator[IO[bytes]]:
    """Open a regular file for reading; raise ValueError for a pipe, a device or a socket.

    A pipe would block until somebody writes into it, and a device such as /dev/zero has no end.
    The opened file is asked, so it cannot be replaced between the question and the opening.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(_irregular(path))
        yield file


def _irregular(path: Path) -> str:
    return f"{path} is not a regular file: copy what it gives into one, and name that"


def read_bytes(path: Path, limit: int = DOCUMENT) -> bytes:
    """Return the content of a regular file; raise ValueError if it cannot be read or is larger."""
    try:
        data = b""
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > limit:
                raise ValueError(f"{path} must have at most {limit} bytes, it has more")
            while len(data) <= limit and (part := file.read(_PART)):
                data += part
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(data) > limit:
        raise ValueError(f"{path} must have at most {limit} bytes, it has more")
    return data


def read_text(path: Path, limit: int = DOCUMENT) -> str:
    """Return the text of a UTF-8 file; raise ValueError if it cannot be read."""
    try:
        return read_bytes(path, limit).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} must be UTF-8 text, but byte {error.start} is {error.object[error.start]:#04x}"
        ) from None


def inside(folder: Path, name: str, where: str) -> Path:
    """Return the path of a file that a document names; raise unless it is in ``folder`` itself."""
    if not name or name in (".", "..") or any(c in name for c in "/\\:\0"):
        raise ValueError(
            f"{where} must name files of its own folder, without directories, got {shown(name)}"
        )
    return folder / name


def read_json(path: Path, limit: int = DOCUMENT) -> Any:
    """Return the content of a JSON file; raise ValueError that names the file."""
    return parse_json(read_text(path, limit), str(path))


def parse_json(text: str | bytes, where: str) -> Any:
    """Return the content of JSON text; raise ValueError that names ``where`` it stands."""
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError(_too_deep(where)) from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not JSON: {error}") from None
    except _Twice as error:
        raise ValueError(f"{where} must have every key once, it has {error} twice") from None
    except UnicodeDecodeError:
        raise ValueError(f"{where} is not JSON: it must be UTF-8 text") from None
    except ValueError:
        raise ValueError(
            f"{where} is not JSON that can be read: an integer has more than "
            f"{sys.get_int_max_str_digits()} digits"
        ) from None
    check_document(content, where)
    return content


class _Twice(ValueError):
    """An object has a key twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise if it has a key twice, of which Python would keep the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise _Twice(shown(key))
    return found


def check_document(value: Any, where: str, *, arrays: bool = False) -> None:
    """Raise ValueError unless parsed JSON is within the bounds on depth, entries and integers.

    Keys of mappings may be strings or integers.  Arrays raise TypeError, unless they are allowed.
    """
    pending: list[tuple[int, str, Any]] = [(0, where, value)]
    entries = 0
    while pending:
        depth, place, found = pending.pop()
        inner: Any
        if isinstance(found, Mapping):
            inner = [
                (key if isinstance(key, str) else _key(place, key), v) for key, v in found.items()
            ]
        elif isinstance(found, list | tuple):
            inner = enumerate(found)
        else:
            _check_leaf(place, found, arrays)
            continue
        if depth >= DEPTH:
            raise ValueError(_too_deep(where))
        entries += len(found)
        if entries > ENTRIES:
            raise ValueError(f"{where} must have at most {ENTRIES} entries in all, it has more")
        pending += [
            (
                depth + 1,
                f"{where}: {one_line(key, 80)}" if not depth else f"{place}, {one_line(key, 80)}",
                v,
            )
            for key, v in inner
            if isinstance(v, dict | list | tuple | Mapping | int) or hasattr(v, "ndim")
        ]


def _key(place: str, key: Any) -> str:
    if isinstance(key, int):
        return str(key)
    raise TypeError(f"{place} must have strings as keys, got {shown(key)}")


def _check_leaf(place: str, value: Any, arrays: bool) -> None:
    if isinstance(value, int) and value.bit_length() > INTEGER_BITS:
        raise ValueError(
            f"{place} must be an integer of at most {INTEGER_BITS} bits, got one of "
            f"{value.bit_length()} bits"
        )
    if not arrays and hasattr(value, "ndim") and value.ndim:
        raise TypeError(f"{place} must be a list, got an array: pass its .tolist()")


def _too_deep(where: str) -> str:
    return f"{where} must have at most {DEPTH} levels of lists and mappings, it has more"
