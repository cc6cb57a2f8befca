"""A process that judges cases one by one and is ended when a case exceeds its time limit."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .record import Outcome, one_line

#: A function that judges a case.  For a :class:`Worker` both must be picklable.
Judge = Callable[[Any], Iterable[Outcome]]


class Worker:
    """A separate process that judges cases; it is restarted after a crash or a time limit."""

    def __init__(self, judge: Judge, time_limit: float | None = None) -> None:
        self.judge = judge
        self.time_limit = time_limit
        self._process: Any = None
        self._pipe: Any = None

    def outcomes(self, case: Any) -> Iterator[Outcome | str]:
        """Yield the outcomes of a case, then a reason if the process crashed or was too slow."""
        if self._process is None:
            self._start()
        try:
            self._pipe.send(case)
            limit = None if self.time_limit is None else time.monotonic() + self.time_limit
            while self._pipe.poll(None if limit is None else max(0.0, limit - time.monotonic())):
                item = self._pipe.recv()
                if item is None:
                    return
                yield item
            yield f"the time limit of {self.time_limit:g} s was reached"
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join()
            yield f"the process that judged it ended with exit code {self._process.exitcode}"
        self.close()

    def stop(self) -> None:
        """End the process from another thread, and drop the case that it judges."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process; the next case starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = self._pipe = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self.judge), daemon=True)
        self._process.start()
        other.close()


def outcomes_here(judge: Judge, case: Any) -> Iterator[Outcome | str]:
    """Yield the same as :meth:`Worker.outcomes`, but judge the case in this process."""
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from judge(case)
    except Exception as error:
        yield one_line(error)


def _serve(pipe: Any, judge: Judge) -> None:
    """Judge the cases from ``pipe``, and redirect standard output to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles interruptions
    os.dup2(2, 1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread per process
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with contextlib.suppress(EOFError, BrokenPipeError):  # the parent has ended
        while True:
            for item in outcomes_here(judge, pipe.recv()):
                pipe.send(item)
            pipe.send(None)
