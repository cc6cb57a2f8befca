"""Files that a command writes: a file of the user's own is not written over."""

from __future__ import annotations

from pathlib import Path

from posenc_ref._documents import open_regular, require_regular

#: A file is recognised by what stands in its first bytes.
_FIRST = 1024


def require_own(path: Path, mark: bytes, what: str) -> None:
    """Raise an exception unless a file is absent, empty, or one that posenc may replace.

    Parameters
    ----------
    mark : bytes
        What stands at the beginning of the files that may be replaced.
    what : str
        Their name, for the message.

    Raises
    ------
    FileExistsError
        The file is another one.
    ValueError
        The path is a pipe, a device or a socket.
    """
    require_regular(path)
    if not path.is_file() or not path.stat().st_size:
        return
    with open_regular(path) as file:
        if mark in file.read(_FIRST):
            return
    raise FileExistsError(f"{path} is no {what}, so it is not overwritten: name another file")
