"""The outcomes of mutants: a line of JSON for each; a mutant's last line counts."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from tools.mutation.draw import Mutant


class Results:
    """A file of outcomes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[Mutant, dict[str, Any]]:
        """Return the outcomes by mutant."""
        if not self.path.exists():
            return {}
        rows = map(json.loads, self.path.read_text(encoding="utf-8").splitlines())
        return {Mutant(**row["mutant"]): row for row in rows}

    def add(self, mutant: Mutant, outcome: dict[str, Any]) -> None:
        """Append the outcome of a mutant."""
        row = {"mutant": dataclasses.asdict(mutant), **outcome}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        shown = f"{mutant.module}:{mutant.line} {mutant.old} -> {mutant.new}"
        print(f"{outcome['outcome']} {outcome['seconds']} s {shown}", flush=True)
