"""``gallery``: identify every entry, a few at a time, and count."""

from __future__ import annotations

import datetime
import multiprocessing
import os
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import SPEC_VERSION, __version__

from .entry import Entry
from .judge import RIGHT, Shown, show
from .table import LIBRARIES, entries, missing, version

#: Called with the last name, the number done, and the number of all.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Gallery:
    """Every entry that was asked for, with its outcome where its library is installed."""

    entries: tuple[Entry, ...]
    shown: dict[str, Shown]
    seconds: float = 0.0

    @property
    def absent(self) -> tuple[Entry, ...]:
        """Entries whose library is not installed."""
        return tuple(entry for entry in self.entries if entry.name not in self.shown)

    @property
    def wrong(self) -> tuple[Shown, ...]:
        """Cards that are not what the source says."""
        return tuple(found for found in self.shown.values() if not found.right)

    @property
    def cpu_seconds(self) -> float:
        """Processor time of all of them; loading the libraries included."""
        return sum(found.seconds for found in self.shown.values())

    @property
    def exit_code(self) -> int:
        """0 if all cards are as their source says, and there are some; else 1."""
        return 1 if self.wrong or not self.shown else 0

    @property
    def summary(self) -> str:
        """One line of counts."""
        good = [found.right for found in self.shown.values() if found.right]
        text = f"{len(self.shown)} functions identified, {len(good)} as their source says"
        if good:
            text += f" ({', '.join(f'{good.count(k)} {k}' for k in RIGHT if k in good)})"
        if self.wrong:
            text += f", {len(self.wrong)} WRONG"
        if self.absent:
            names = dict.fromkeys(entry.library for entry in self.absent)
            text += f"; {len(self.absent)} not run, as {', '.join(names)} is not installed"
        return f"{text} ({self.seconds:.0f} s)"

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return {
            "date": datetime.date.today().isoformat(),
            "versions": versions(),
            "summary": self.summary,
            "entries": [
                {
                    "name": entry.name,
                    "library": entry.library,
                    "source": entry.source,
                    "expected": None if entry.expected is None else entry.expected.to_dict(),
                    "says": entry.says,
                    "outcome": self.shown[entry.name].to_dict()
                    if entry.name in self.shown
                    else None,
                }
                for entry in self.entries
            ],
        }


def versions() -> dict[str, str]:
    """What the outcome depends on."""
    libraries = {name: found for name in LIBRARIES if (found := version(name)) is not None}
    return libraries | {
        "torch": version("torch") or "none",
        "numpy": np.__version__,
        "python": platform.python_version(),
        "posenc_ref": __version__,
        "specification": SPEC_VERSION,
    }


def gallery(
    only: Sequence[str] = (), *, processes: int = 2, progress: Progress | None = None
) -> Gallery:
    """Identify the entries whose name has one of ``only`` in it, or all.

    ``processes`` 0 runs everything here; else that many are started, with one thread each.
    """
    begin = time.perf_counter()
    chosen = tuple(entry for entry in entries() if entry.wanted(tuple(only)))
    names = [entry.name for entry in chosen if entry.library not in missing()]
    found: dict[str, Shown] = {}

    def keep(one: Shown) -> None:
        found[one.name] = one
        if progress is not None:
            progress(one.name, len(found), len(names))

    if progress is not None:
        progress("", 0, len(names))
    if processes:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, context, _prepare) as pool:
            try:
                for done in as_completed([pool.submit(show_by_name, name) for name in names]):
                    keep(done.result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    else:
        for name in names:
            keep(show_by_name(name))
    ordered = {name: found[name] for name in names}
    return Gallery(chosen, ordered, time.perf_counter() - begin)


def show_by_name(name: str) -> Shown:
    """One entry, in this process or another."""
    return show(next(entry for entry in entries() if entry.name == name))


def _prepare() -> None:
    """Processes share the cores, not threads; and nothing is downloaded or told."""
    os.dup2(2, 1)
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
