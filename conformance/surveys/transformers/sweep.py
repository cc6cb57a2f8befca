"""``sweep``: judge every rotary module of the installed ``transformers``.

Modules are judged in processes of their own, one at a time in each: one that hangs is ended at the
time limit, one that crashes takes nothing with it.  Every line is written as soon as it is known,
so that a sweep that was interrupted can be continued.
"""

from __future__ import annotations

import datetime
import json
import platform
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from posenc_ref import SPEC_VERSION, __version__

from .census import census, version
from .expected import Expected, expected, explanation, stale
from .record import APPLY, AS_CONFIGURED, FLOAT32, OUTCOMES, Case, Judged
from .worker import Worker

#: Called with the lines so far, the number of cases done, and the number of all.
Progress = Callable[[list[Judged], int, int], None]
TIME_LIMIT = 300.0
#: Outcomes that need no explanation.
GOOD = ("conforms", "refused")
#: Outcomes of tables that were driven and compared.
JUDGED = ("conforms", "deviates")


class Resumed(ValueError):
    """The file to be continued is of another sweep."""


@dataclass
class Sweep:
    """Every line, with what explains those that do not conform."""

    lines: list[Judged]
    versions: dict[str, str]
    seconds: float = 0.0
    known: tuple[Expected, ...] = field(default_factory=expected)

    @property
    def counts(self) -> dict[str, int]:
        """How many tables came to each outcome."""
        return {o: sum(line.outcome == o for line in self.lines) for o in OUTCOMES}

    @property
    def unexplained(self) -> list[Judged]:
        """Lines that do not conform, and that no expectation explains.

        Logits are judged where an attention class can be asked for them, and nowhere else.
        """
        return [line for line in self.lines if self.is_open(line)]

    def is_open(self, line: Judged) -> bool:
        """Whether a line does not conform where it should, and nothing explains it."""
        wanted = line.surface == APPLY or line.outcome == "deviates"
        return line.outcome not in GOOD and wanted and explanation(line, self.known) is None

    @property
    def stale(self) -> list[str]:
        """Expectations that are no longer true."""
        return stale(self.lines, self.known)

    @property
    def cpu_seconds(self) -> float:
        """Processor time of all judges."""
        return sum(line.seconds for line in self.lines)

    @property
    def exit_code(self) -> int:
        """0 where everything conforms or is explained, no explanation is out of date: else 1.

        3 if nothing was judged at all.
        """
        if self.unexplained or self.stale:
            return 1
        return 0 if any(line.outcome in JUDGED for line in self.lines) else 3

    def footer(self) -> dict[str, Any]:
        """The last line of the file."""
        return {
            "footer": True,
            "date": datetime.date.today().isoformat(),
            "versions": self.versions,
            "models": len({line.model for line in self.lines}),
            "modules": len({(line.model, line.module) for line in self.lines}),
            "counts": self.counts,
            "unexplained": [line.name for line in self.unexplained],
            "stale": self.stale,
            "seconds": round(self.seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
        }


def versions() -> dict[str, str]:
    """What the outcome depends on."""
    import importlib.metadata

    return {
        "transformers": version(),
        "torch": importlib.metadata.version("torch"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "posenc_ref": __version__,
        "specification": SPEC_VERSION,
    }


def sweep(
    only: Sequence[str] = (),
    *,
    rope_types: Sequence[str] = (AS_CONFIGURED,),
    dtypes: Sequence[str] = (FLOAT32,),
    surfaces: Sequence[str] = (APPLY,),
    file: Path | None = None,
    resume: bool = False,
    time_limit: float = TIME_LIMIT,
    processes: int = 2,
    progress: Progress | None = None,
) -> Sweep:
    """Judge every target that ``only`` names, or all of them.

    Every rope type is judged in the first of ``dtypes``, the one that is configured in all.
    ``file`` gets one line of JSON per judged table, and a last one with versions and counts.  With
    ``resume`` what it already has is kept, and not judged again.
    """
    targets = census(only)
    cases = [
        Case(target, rope_type, dtype, surface)
        for surface in surfaces
        for rope_type in rope_types
        for dtype in dtypes
        if dtype == dtypes[0] or (rope_type == AS_CONFIGURED and surface == APPLY)
        for target in targets
    ]
    return run(
        cases, file=file, resume=resume, time_limit=time_limit, processes=processes,
        progress=progress,
    )  # fmt: skip


def run(
    cases: Sequence[Any],
    *,
    file: Path | None,
    resume: bool,
    time_limit: float,
    processes: int,
    progress: Progress | None,
    known: tuple[Expected, ...] | None = None,
) -> Sweep:
    """Judge cases (what has a name, a blank line and a way to judge it), as :func:`sweep` says."""
    begin = time.perf_counter()
    found = versions()
    old = _read(file, found) if resume and file is not None else []
    names = {case.name for case in cases}
    lines = [line for line in old if line.case in names]
    done = {line.case for line in lines}
    if file is not None:
        _write(file, found, old)
    left: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for case in cases:
        if case.name not in done:
            left.put(case)
    finished, stopped = len(done), threading.Event()
    workers: list[Worker] = []

    def keep(new: list[Judged]) -> None:
        nonlocal finished
        if stopped.is_set():  # interrupted: what was being judged counts as not begun
            return
        lines.extend(new)
        finished += 1
        if file is not None:
            _append(file, (line.to_dict() for line in new))
        if progress is not None:
            progress(lines, finished, len(cases))

    def work(_: int) -> None:
        with Worker(time_limit) as worker:
            workers.append(worker)
            while not stopped.is_set():
                try:
                    case = left.get_nowait()
                except queue.Empty:
                    return
                keep(worker.judge(case))

    if progress is not None:
        progress(lines, finished, len(cases))
    pool = ThreadPoolExecutor(max(1, processes))
    try:
        list(pool.map(work, range(max(1, min(processes, left.qsize())))))
    except BaseException:
        stopped.set()
        for worker in workers:
            worker.stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    lines.sort(key=lambda line: (line.surface, line.rope_type != AS_CONFIGURED, line.name))
    seconds = time.perf_counter() - begin
    result = Sweep(lines, found, seconds, expected() if known is None else known)
    if file is not None:
        _append(file, [result.footer()])
    return result


def _read(file: Path, found: dict[str, str]) -> list[Judged]:
    """The lines of an earlier sweep with the same versions."""
    if not file.exists():
        return []
    lines = [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines() if text]
    head = next((line for line in lines if "header" in line), None)
    if head is None:
        raise Resumed(f"{file} is no sweep: its first line has no versions")
    if head["versions"] != found:
        changed = [name for name in found if head["versions"].get(name) != found[name]]
        was = ", ".join(f"{name} {head['versions'].get(name)}" for name in changed)
        raise Resumed(f"{file} was written with {was}: begin a new file")
    return [Judged.from_dict(line) for line in lines if "case" in line]


def _write(file: Path, found: dict[str, str], lines: list[Judged]) -> None:
    file.write_text(json.dumps({"header": True, "versions": found}) + "\n", encoding="utf-8")
    _append(file, (line.to_dict() for line in lines))


def _append(file: Path, lines: Iterable[dict[str, Any]]) -> None:
    with file.open("a", encoding="utf-8") as out:
        for line in lines:
            out.write(json.dumps(line) + "\n")
