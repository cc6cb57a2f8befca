"""A process that is asked and answers in lines, within limits of time, memory and size."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posenc_ref.limits import ANSWER

from .group import Group
from .streams import Capture, Lines, Silent, Writer

#: The pipe size in bytes, where the system can set it: one line may have megabytes.
_PIPE = 1 << 20
#: Seconds between looks at the memory of a process.
_LOOK = 0.1
#: A look takes at most one of so many parts of the time.
_SHARE = 20
#: Seconds to wait for readers after every process was killed.
_AFTER = 1.0


@dataclass(frozen=True)
class Limits:
    """What a process may use until it answers: seconds, and MiB of memory; None is no limit."""

    seconds: float | None = None
    memory: float | None = None


class Conversation:
    """A process in a group of its own, and what it writes.

    Parameters
    ----------
    command : sequence of str, or callable
        The program. A callable takes two private file descriptors or handles, for reading and for
        writing, and returns the program; then lines go over these, and standard input is closed.
    show : callable, optional
        Takes the beginning and the end of what the process prints.

    Raises
    ------
    OSError
        The program cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str] | Callable[[int, int], Sequence[str]],
        *,
        environment: Mapping[str, str] | None = None,
        show: Callable[[str], None] | None = None,
    ) -> None:
        pipes: dict[str, Any] = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.stdout: Capture | None = None
        if callable(command):
            reader, writer, theirs, private = _private_pipes()
            pipes |= private | {"stdin": subprocess.DEVNULL}
            try:
                self.group = Group(command(*theirs[1]), environment, **pipes)
            except BaseException:
                reader.close()
                writer.close()
                raise
            finally:
                for descriptor in theirs[0]:
                    os.close(descriptor)
            process = self.group.process
            self.stdout = Capture(process.stdout, show)
        else:
            pipes |= {"stdin": subprocess.PIPE, "bufsize": _PIPE, "pipesize": _PIPE}
            self.group = Group(command, environment, **pipes)
            process = self.group.process
            reader, writer = process.stdout, process.stdin
        self._lines, self._writer = Lines(reader, ANSWER), Writer(writer)
        self.stderr = Capture(process.stderr, show)
        self._status: int | None = None
        self._next_look = time.monotonic() + _LOOK

    def ask(self, line: bytes, limits: Limits) -> bytes:
        """Send a line, and return the next one; raise :class:`Silent` if a limit is hit."""
        self.send(line)
        return self.answer(limits, time.monotonic())

    def send(self, line: bytes) -> None:
        """Send a line."""
        self._writer.send(line)

    def answer(self, limits: Limits, since: float) -> bytes:
        """Return the next line; raise :class:`Silent` if a limit is hit.

        ``since`` is the time from which the limit counts.
        """
        until = float("inf") if limits.seconds is None else since + limits.seconds
        ended = False
        while True:
            if limits.memory:
                self._look(limits.memory)
            left = until - time.monotonic()
            try:
                return self._lines.next(min(left, _AFTER if ended else _LOOK))
            except Silent as silent:
                if silent.why != "late":
                    raise
            if ended:  # another process holds its pipes open
                raise Silent("ended")
            if self.group.process.poll() is not None:
                ended = True
            elif left <= 0:
                raise Silent("late")

    def _look(self, memory: float) -> None:
        """Raise :class:`Silent` if the group uses more than ``memory`` MiB.

        The clock decides when to look, so that a process which answers fast is looked at as often
        as one that does not answer.
        """
        begin = time.monotonic()
        if begin < self._next_look:
            return
        if self.group.memory() > memory * 2**20:
            raise Silent("memory")
        end = time.monotonic()
        self._next_look = end + max(_LOOK, _SHARE * (end - begin))

    def last_errors(self, lines: int) -> list[str]:
        """Return the last lines that the process wrote to standard error."""
        self.stderr.settle()
        return self.stderr.last(lines)

    def wait(self, seconds: float) -> int | None:
        """Return the exit status of the process if it ends within ``seconds``, else None."""
        try:
            return self.group.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def close(self, seconds: float = 0.0) -> int:
        """End the process and all that it started, and return its exit status.

        Its input is closed first; it may end by itself within ``seconds``.
        """
        if self._status is None:
            if seconds:
                self._writer.close(_LOOK)
                self.wait(seconds)
            self._status = self.group.end()
            self._writer.close(_AFTER)
            self._lines.close(_AFTER)
            self.stderr.close(_AFTER)
            if self.stdout is not None:
                self.stdout.close(_AFTER)
        return self._status


def how_it_ended(status: int) -> str:
    """Return an exit status in words."""
    if status >= 0:
        return f"ended with exit status {status}"
    names = {s.value: s.name for s in signal.Signals}
    return f"killed by {names.get(-status, f'signal {-status}')}"


def _private_pipes() -> tuple[Any, Any, tuple[list[int], tuple[int, int]], dict[str, Any]]:
    """Return our files to read and write, the child's descriptors and their names there.

    The last value are the arguments of ``Popen`` that let the child have them.
    """
    answers, their_answers = os.pipe()
    their_requests, requests = os.pipe()
    files = os.fdopen(answers, "rb", 0), os.fdopen(requests, "wb", 0)
    theirs = [their_requests, their_answers]
    if sys.platform == "win32":
        import msvcrt

        handles = [msvcrt.get_osfhandle(descriptor) for descriptor in theirs]
        for handle in handles:
            os.set_handle_inheritable(handle, True)
        info = subprocess.STARTUPINFO(lpAttributeList={"handle_list": handles})
        return *files, (theirs, (handles[0], handles[1])), {"startupinfo": info}
    return *files, (theirs, (theirs[0], theirs[1])), {"pass_fds": theirs}
