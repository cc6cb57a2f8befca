"""Suggest the known names that resemble an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ``; did you mean A or B?`` with similar names, or those that contain it, or ""."""
    names, wanted = {n.lower(): n for n in sorted(known)}, str(name).lower()
    near = [names[n] for n in difflib.get_close_matches(wanted, names, n=3)]
    near = near or [names[n] for n in names if wanted and wanted in n][:3]
    return f"; did you mean {' or '.join(near)}?" if near else ""
