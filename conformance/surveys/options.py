"""What `posenc verify` was asked to judge."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """What to judge."""

    full: bool = False
    only: str | None = None
    dtypes: tuple[str, ...] = ()

    def wants(self, *words: str | None, dtype: str | None = None) -> bool:
        """Return whether a check described by these words was asked for."""
        if self.dtypes and dtype is not None and dtype not in self.dtypes:
            return False
        text = " ".join(w for w in (*words, dtype) if w).lower()
        return self.only is None or fnmatch.fnmatchcase(text, f"*{self.only.lower()}*")
