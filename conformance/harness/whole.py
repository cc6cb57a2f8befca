"""Write a file as a whole: an interrupted run leaves the file as it was."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, data: bytes | str) -> None:
    """Write ``data`` to a file beside ``path``, then rename it to ``path``; text as UTF-8.

    The permissions of an existing file are kept, and a link is followed. What is no regular file,
    such as a pipe, is written directly.
    """
    content = data.encode() if isinstance(data, str) else data
    goal = Path(os.path.realpath(path))
    if goal.exists() and not goal.is_file():
        goal.write_bytes(content)
        return
    partial = goal.with_name(f".{goal.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if goal.exists():
            shutil.copymode(goal, partial)
        os.replace(partial, goal)
    except OSError as error:  # about the user's file, not the one beside it
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):  # its folder may not exist, or be a file
            partial.unlink(missing_ok=True)
