"""``gallery``: identify every function of the libraries, several at a time."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from posenc_ref.conformance.adapters.library import (
    LIBRARIES,
    LibraryFunction,
    carded,
    functions,
    missing,
    version,
)
from posenc_ref.conformance.surveys.record import Outcome, Survey, versions
from posenc_ref.conformance.surveys.runner import Progress, run

from .judge import RIGHT, blank_of, judge_function

#: The keys in the JSON of the gallery, each with the field of :class:`Outcome`.
KEYS = {
    "name": "name", "right": "right", "wrong": "reason", "encoding": "encoding", "score": "worst",
    "deviations": "codes", "card": "card", "seconds": "seconds",
}  # fmt: skip


@dataclass
class Gallery(Survey):
    """The selected functions, and the outcomes of those with an installed library."""

    functions: tuple[LibraryFunction, ...] = ()

    def outcome(self, function: LibraryFunction) -> Outcome | None:
        """Return the outcome of a function, or None if its library is not installed."""
        return next((o for o in self.outcomes if o.case == function.name), None)

    @property
    def absent(self) -> list[LibraryFunction]:
        """Return the functions of libraries that are not installed."""
        return [function for function in self.functions if self.outcome(function) is None]

    @property
    def exit_code(self) -> int:
        """Return 0 if all cards agree with the source, 1 if one does not, 3 if there is none."""
        return 3 if not self.outcomes else int(not all(o.right for o in self.outcomes))

    @property
    def summary(self) -> str:
        """Return the numbers of functions judged, right, wrong and not run, in one line."""
        good = [o.right for o in self.outcomes if o.right]
        text = f"{len(self.outcomes)} functions identified, {len(good)} agree with the source"
        if good:
            text += f" ({', '.join(f'{good.count(k)} {k}' for k in RIGHT if k in good)})"
        if len(good) < len(self.outcomes):
            text += f", {len(self.outcomes) - len(good)} WRONG"
        if self.absent:
            names = dict.fromkeys(function.library for function in self.absent)
            packages = [f"'{word}'" for name in names for word in LIBRARIES[name].split()]
            text += f"; {len(self.absent)} not run, as {', '.join(names)} "
            text += f"{'is' if len(names) == 1 else 'are'} not installed: "
            text += f"pip install {' '.join(dict.fromkeys(packages))}"
        return f"{text} ({self.seconds:.0f} s)"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        return {
            "date": datetime.date.today().isoformat(),
            "versions": installed() | versions(),
            "summary": self.summary,
            "entries": [
                {name: getattr(function, name) for name in ("name", "library", "source", "says")}
                | {
                    "expected": function.expected and function.expected.to_dict(),
                    "outcome": (found := self.outcome(function)) and found.to_dict(KEYS),
                }
                for function in self.functions
            ],
        }


def installed() -> dict[str, str]:
    """Return the versions of the libraries that are installed."""
    found = {name: number for name in LIBRARIES if (number := version(name)) is not None}
    return found | {"torch": version("torch") or "none"}


def gallery(
    only: Sequence[str] = (), *, processes: int = 2, progress: Progress | None = None
) -> Gallery:
    """Identify the functions of the page, or all those with one of ``only`` in their name.

    ``processes`` is the number of processes, each with one thread; 0 uses this process.
    """
    begin = time.perf_counter()
    listed = functions() if only else carded()
    chosen = tuple(function for function in listed if function.wanted(tuple(only)))
    names = [function.name for function in chosen if function.library not in missing()]

    def failed(name: str, reason: str) -> Outcome:
        return blank_of(_named(name)).replace(reason=reason)

    found = run(names, judge_name, failed, processes=processes, progress=progress)
    found.sort(key=lambda o: names.index(o.case))
    return Gallery(found, time.perf_counter() - begin, chosen)


def judge_name(name: str) -> Iterator[Outcome]:
    """Yield the outcome of the function with this name."""
    yield judge_function(_named(name))


def _named(name: str) -> LibraryFunction:
    return next(function for function in functions() if function.name == name)
