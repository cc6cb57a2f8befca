"""Find names whatever their case, and suggest the known names that resemble an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def key(name: str) -> str:
    """Return a name in lower case, without hyphens, underscores and blanks."""
    return "".join(c for c in name.lower() if c not in "-_ ")


def find(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that equals ``name`` apart from case and punctuation, or None."""
    return {key(one): one for one in known}.get(key(name))


def near(name: str, known: Iterable[str], n: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return the known names that are similar to ``name``, the most similar first."""
    keys = {key(one): one for one in sorted(known)}
    return [keys[k] for k in difflib.get_close_matches(key(name), keys, n=n, cutoff=cutoff)]


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ``; did you mean A or B?`` with similar names, or those that contain it, or ""."""
    names, wanted = sorted(known), str(name)
    alike = near(wanted, names) or [n for n in names if wanted and key(wanted) in key(n)][:3]
    return f"; did you mean {' or '.join(alike)}?" if alike else ""
