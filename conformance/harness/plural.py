"""Agree a noun and its verb with a number, and write numbers as ranges."""

from __future__ import annotations

from collections.abc import Iterable


def plural(count: int, one: str, many: str, of: int | None = None) -> str:
    """Return a count with a noun and maybe its verb: ``1 case is``, ``2 cases are``.

    With ``of`` the verb alone agrees with the count: ``1 of 8 slopes is``.
    """
    if of is None:
        return f"{count} {one if count == 1 else many}"
    noun = (one if of == 1 else many).partition(" ")[0]
    return f"{count} of {of} {noun} {(one if count == 1 else many).partition(' ')[2]}"


def ordinal(n: int) -> str:
    """Return a number in its order: ``1st``, ``2nd``, ``3rd``, ``4th``, ``11th``."""
    last = 0 if n // 10 % 10 == 1 else n % 10
    return f"{n}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending integers with those that follow each other as a range: ``0-3, 5``."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def rooted(factor: float, near: float) -> str:
    """Return a factor in digits, and as the root of an integer n or 1/sqrt(n) if it is one."""
    for power, words in ((-0.5, "1/sqrt"), (0.5, "sqrt")):
        n = round(factor ** (1 / power)) if factor > 0 else 0
        if 2 <= n <= 2**20 and abs(factor / n**power - 1) <= near:
            return f"{factor:.6g} = {words}({n})"
    return f"{factor:.6g}"
