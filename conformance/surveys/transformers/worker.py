"""A process that judges cases one after the other, and is ended when one takes too long."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from types import TracebackType
from typing import Any, Self

from .record import Case, Judged


class Worker:
    """Judges cases in a process of its own; a new one is started where the last one ended."""

    def __init__(self, time_limit: float) -> None:
        self.time_limit = time_limit
        self._process: Any = None
        self._pipe: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def judge(self, case: Case) -> list[Judged]:
        """The lines of one case."""
        if self._process is None:
            self._start()
        lines: list[Judged] = []
        blank = case.blank()
        try:
            self._pipe.send(case)
            limit = time.monotonic() + self.time_limit
            while True:
                if not self._pipe.poll(max(0.0, limit - time.monotonic())):
                    self._end()
                    reason = f"the time limit of {self.time_limit:g} s was reached"
                    return [*lines, blank.replace(outcome="gap", reason=reason)]
                item = self._pipe.recv()
                if item is None:
                    return lines or [blank.replace(reason="nothing was judged")]
                lines.append(item)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join()
            reason = f"the process that judged it ended with exit code {self._process.exitcode}"
            self._end()
            return [*lines, blank.replace(outcome="gap", reason=reason)]

    def stop(self) -> None:
        """End the process, from another thread: what is being judged comes to nothing."""
        process = self._process
        if process is not None:
            process.kill()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = self._pipe = None


def _serve(pipe: Any) -> None:
    """The other end; whatever libraries print goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interruption is the sweep's to handle
    os.dup2(2, 1)
    os.environ["OMP_NUM_THREADS"] = "1"  # processes share the cores, not threads
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with contextlib.suppress(EOFError, BrokenPipeError):  # nobody listens any more
        while True:
            _answer(pipe, pipe.recv())


def _answer(pipe: Any, case: Case) -> None:
    """Send the lines of a case, and None after the last."""
    try:
        for line in case.judge():
            pipe.send(line)
    except BrokenPipeError:
        raise
    except Exception as error:
        reason = f"the sweep: {type(error).__name__}: {error}"[:300]
        pipe.send(case.blank().replace(reason=reason))
    pipe.send(None)
