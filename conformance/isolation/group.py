"""A process in a session of its own, ended together with every process that it started."""

from __future__ import annotations

import atexit
import contextlib
import os
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
        while left := {*_marked(self._token), *_in_session(self.process.pid)}:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > until:
                break
            time.sleep(0.005)

    def others(self) -> bool:
        """Return whether a second process of the group runs (only known on Linux)."""
        return any(pid != self.process.pid for pid in _in_session(self.process.pid))

    def memory(self) -> int:
        """Return the bytes of memory that the group uses (0 where that is not known)."""
        page = os.sysconf("SC_PAGE_SIZE") if LINUX else 0
        used = 0
        for pid in _in_session(self.process.pid):
            with contextlib.suppress(OSError, ValueError, IndexError):
                total, shared = _read(pid, "statm").split()[1:3]
                used += page * (int(total) - int(shared))
        return used


def end_all() -> None:
    """End every group."""
    for group in list(_live):
        group.end()


atexit.register(end_all)


def end_all_on_signals() -> None:
    """End every group before SIGTERM and SIGHUP end this process; for command lines only."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end_all_and_die)


def _end_all_and_die(number: int, frame: Any) -> None:
    for group in list(_live):
        group.kill()  # not end: this thread may hold the lock
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


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
