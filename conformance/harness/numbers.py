"""Numbers in words."""

from __future__ import annotations


def rooted(factor: float, near: float) -> str:
    """Return a factor in digits, and as the root of an integer n or 1/sqrt(n) if it is one."""
    for power, words in ((-0.5, "1/sqrt"), (0.5, "sqrt")):
        n = round(factor ** (1 / power)) if factor > 0 else 0
        if 2 <= n <= 2**20 and abs(factor / n**power - 1) <= near:
            return f"{factor:.6g} = {words}({n})"
    return f"{factor:.6g}"
