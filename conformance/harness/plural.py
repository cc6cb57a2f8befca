"""Agree a noun and its verb with a number."""

from __future__ import annotations


def plural(count: int, one: str, many: str, of: int | None = None) -> str:
    """Return a count with a noun and maybe its verb: ``1 case is``, ``2 cases are``.

    With ``of`` the verb alone agrees with the count: ``1 of 8 slopes is``.
    """
    if of is None:
        return f"{count} {one if count == 1 else many}"
    noun = (one if of == 1 else many).partition(" ")[0]
    return f"{count} of {of} {noun} {(one if count == 1 else many).partition(' ')[2]}"
