"""Judge many cases, several at a time: the loop of every survey."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .record import Outcome
from .worker import Judge, Worker, outcomes_here

#: Called with the name of the last outcome, the number of completed cases, and the total number.
Progress = Callable[[str, int, int], None]


def run(
    cases: Sequence[Any],
    judge: Judge,
    failed: Callable[[Any, str], Outcome],
    *,
    processes: int,
    time_limit: float | None = None,
    reuse: bool = True,
    keep: Callable[[list[Outcome]], None] | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Return the outcomes of all cases, in the order of their completion.

    Parameters
    ----------
    judge, failed : callable
        ``judge(case)`` returns the outcomes of a case; ``failed(case, reason)`` returns the outcome
        of a case that raised, crashed or took too long.
    processes : int
        The number of cases to judge at a time; 0 judges one by one in this process.
    time_limit : float, optional
        The time limit for one case, in seconds.
    reuse : bool
        Whether a process judges many cases; otherwise a new one is started for each.
    keep : callable, optional
        Called with the outcomes of each completed case.
    """
    outcomes: list[Outcome] = []
    done, stopped, lock = 0, threading.Event(), threading.Lock()
    left: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for case in cases:
        left.put(case)
    if progress is not None:
        progress("", 0, len(cases))

    def work(worker: Worker | None) -> None:
        nonlocal done
        while not stopped.is_set():
            try:
                case = left.get_nowait()
            except queue.Empty:
                return
            new: list[Outcome] = []
            for item in outcomes_here(judge, case) if worker is None else worker.outcomes(case):
                new.append(failed(case, item) if isinstance(item, str) else item)
                if progress is not None:
                    progress(new[-1].name, done, len(cases))
            if worker is not None and not reuse:
                worker.close()
            with lock:
                if stopped.is_set():  # interrupted: drop the unfinished case
                    return
                outcomes.extend(new)
                done += 1
                if keep is not None:
                    keep(new)
                if progress is not None:
                    progress(new[-1].name if new else "", done, len(cases))

    if processes:
        _in_processes(work, judge, time_limit, min(processes, left.qsize()), stopped)
    else:
        work(None)
    return outcomes


def _in_processes(
    work: Callable[[Worker], None],
    judge: Judge,
    time_limit: float | None,
    processes: int,
    stopped: threading.Event,
) -> None:
    """Run ``work`` in ``processes`` workers; end all of them on an interruption."""
    workers = [Worker(judge, time_limit) for _ in range(processes)]

    def work_and_close(worker: Worker) -> None:
        with contextlib.closing(worker):
            work(worker)

    with ThreadPoolExecutor(max(1, processes)) as pool:
        try:
            list(pool.map(work_and_close, workers))
        except BaseException:
            stopped.set()
            for worker in workers:
                worker.stop()
            raise
