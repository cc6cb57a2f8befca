"""A process in a session of its own, ended together with every process that it started."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: The environment variable that marks a group's processes, also those that leave its session.
MARK = "POSENC_GROUP"
#: The most seconds to wait for killed processes to be gone.
_GONE = 2.0
#: Whether the memory and the session of other processes are known.
LINUX = sys.platform.startswith("linux")
#: The kinds of memory in /proc/PID/status that a process asked for, in KiB.
_USED = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s*(\d+) kB$", re.MULTILINE)
_live: weakref.WeakSet[Group] = weakref.WeakSet()


class Group:
    """A running program, and the processes that it starts.

    On Linux the group is the program's session and every process that inherited its environment;
    on macOS the session; on Windows the tree of processes.

    Raises
    ------
    OSError
        The program cannot be started.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, **pipes: Any
    ) -> None:
        token = secrets.token_hex(8)
        marks = " ".join(filter(None, (os.environ.get(MARK), token)))
        env = os.environ | dict(environment or {}) | {MARK: marks}
        self._token = token.encode()
        self._lock = threading.Lock()
        self._ended = False
        options: dict[str, Any] = {"env": env, **_APART, **pipes}
        self.process: subprocess.Popen[bytes] = subprocess.Popen(command, **options)
        _live.add(self)

    def end(self) -> int:
        """Kill every process of the group, and return the exit status of the first one."""
        with self._lock:
            if not self._ended:
                self._ended = True
                self.kill()
                _live.discard(self)
        return self.process.wait()

    def kill(self) -> None:
        """Kill every process of the group, and wait until there is none."""
        _kill(self.process)
        until = time.monotonic() + _GONE
        # A killed process may still run for a moment, and start another one.
        while left := self._members():
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > until:
                break
            time.sleep(0.005)

    def others(self) -> bool:
        """Return whether a second process of the group runs (only known on Linux)."""
        return not self._members() <= {self.process.pid}

    def memory(self) -> int:
        """Return the bytes of memory that the group uses (0 where that is not known).

        Pages of files, such as libraries, do not count. Memory that processes share counts once
        for each of them.
        """
        used = 0
        for pid in self._members():
            with contextlib.suppress(OSError):
                used += sum(1024 * int(kib) for kib in _USED.findall(_read(pid, "status")))
        return used

    def _members(self) -> set[int]:
        """Return the processes of the group (none where other processes are not known)."""
        return {*_marked(self._token), *_in_session(self.process.pid)}


def end_all() -> None:
    """End every group."""
    for group in list(_live):
        group.end()


atexit.register(end_all)


def end_all_on_signals() -> None:
    """End every group before SIGTERM, SIGHUP and SIGQUIT end this process, a command line."""
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end_all_and_die)


def _end_all_and_die(number: int, frame: Any) -> None:
    for group in list(_live):
        group.kill()  # not end: this thread may hold the lock
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def fill_closed() -> None:
    """Open /dev/null where a standard descriptor is closed, or a pipe would get its number."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number


def hide_files() -> None:
    """Hide the open files of this process in /proc from other processes of its user (Linux)."""
    if LINUX:
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


if sys.platform == "win32":
    _APART: dict[str, Any] = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}

    def _kill(process: subprocess.Popen[bytes]) -> None:
        command = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
        subprocess.run(command, capture_output=True, check=False)

else:
    _APART = {"start_new_session": True}

    def _kill(process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _in_session(session: int) -> Iterator[int]:
    """Yield the processes of a session."""
    for pid in _processes():
        with contextlib.suppress(OSError, ValueError, IndexError):
            # After the name, in brackets, come the state, the parent, the group and the session.
            state, _, _, own = _read(pid, "stat").rpartition(b")")[2].split()[:4]
            if int(own) == session and state != b"Z":
                yield pid


def _marked(token: bytes) -> Iterator[int]:
    """Yield the processes that have the mark in the environment that they started with."""
    for pid in _processes():
        with contextlib.suppress(OSError):
            if pid != os.getpid() and token in _read(pid, "environ"):
                yield pid


def _processes() -> Iterator[int]:
    if LINUX:
        with contextlib.suppress(OSError):
            yield from (int(name) for name in os.listdir("/proc") if name.isdigit())


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()
