"""Read and write pipes of foreign processes in threads, with caps: no call blocks on a pipe."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from .show import marked

#: The bytes that are shown of an output's beginning, and of its end, which is kept.
SHOWN, KEPT = 1 << 16, 1 << 13
_CHUNK = 1 << 20


class Silent(Exception):
    """No line comes: the stream ended (``part`` is its last, unfinished line), or a limit is hit.

    ``why`` is ``ended``, ``late``, ``long``, ``memory`` or ``forged`` (a line without the secret).
    """

    def __init__(self, why: str, part: bytes = b"") -> None:
        super().__init__(why)
        self.why, self.part = why, part


class Lines:
    """The lines that a process writes to a pipe, read in a thread.

    A line may have ``longest`` bytes. At most two lines are read in advance, so that a process
    that writes without end waits.
    """

    def __init__(self, file: Any, longest: int) -> None:
        self._file, self._longest = file, longest
        self._queue: queue.Queue[bytes | Silent] = queue.Queue(2)
        self._closed = False
        self._thread = _started(self._read)

    def next(self, seconds: float) -> bytes:
        """Return the next line; raise :class:`Silent` if there is none within ``seconds``."""
        try:
            found = self._queue.get(timeout=max(0.0, seconds))
        except queue.Empty:
            raise Silent("late") from None
        if isinstance(found, Silent):
            self._put(found)
            raise found
        return found

    def close(self, seconds: float) -> None:
        """Stop reading; wait for the thread at most ``seconds``."""
        self._closed = True
        _close(self._thread, self._file, seconds)

    def _read(self) -> None:
        parts: list[bytes] = []
        size = 0
        while not self._closed and (chunk := _chunk(self._file)):
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                size += len(line)
                if size > self._longest:
                    return self._put(Silent("long"))
                self._put(b"".join([*parts, line, b"\n"]))
                parts, size = [], 0
            parts.append(rest)
            size += len(rest)
            if size > self._longest:
                return self._put(Silent("long"))
        return self._put(Silent("ended", b"".join(parts)))

    def _put(self, item: bytes | Silent) -> None:
        while not self._closed:
            with contextlib.suppress(queue.Full):
                return self._queue.put(item, timeout=0.1)
        return None


class Writer:
    """Write to a pipe in a thread; what a process does not read is dropped when it ends."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = _started(self._write)

    def send(self, data: bytes) -> None:
        """Write ``data`` as soon as the pipe takes it."""
        self._queue.put(data)

    def close(self, seconds: float) -> None:
        """Close the pipe after everything is written; wait for that at most ``seconds``."""
        self._queue.put(None)
        self._thread.join(seconds)

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the process ended
            while (data := self._queue.get()) is not None:
                self._file.write(data)
                self._file.flush()
        with contextlib.suppress(OSError):
            self._file.close()


class Capture:
    """Read what a process prints: count it, show its beginning, keep its end."""

    def __init__(self, file: Any, show: Callable[[str], None] | None = None) -> None:
        self.bytes = self.lines = 0
        self._file, self._show = file, show
        self._tail = b""
        self._busy = False
        self._thread = _started(self._read)

    def last(self, lines: int) -> list[str]:
        """Return the last lines of the output."""
        return self._tail.decode("utf-8", "replace").strip().splitlines()[-lines:]

    def settle(self, seconds: float = 1.0) -> None:
        """Wait until everything written so far is read, at most ``seconds``."""
        until = time.monotonic() + seconds
        # In this order: the thread is busy before it takes anything from the pipe.
        while time.monotonic() < until and (_readable(self._file, 0) or self._busy):
            time.sleep(0.001)

    def close(self, seconds: float) -> None:
        """Wait for the end of the output, at most ``seconds``."""
        _close(self._thread, self._file, seconds)

    def _read(self) -> None:
        left, part, hidden = SHOWN, b"", 0
        while True:
            _readable(self._file, None)
            self._busy = True
            if not (chunk := _chunk(self._file)):
                break
            self.bytes += len(chunk)
            self.lines += chunk.count(b"\n")
            self._tail = (self._tail + chunk)[-KEPT:]
            if hidden:
                hidden += len(chunk)
            else:  # whole lines are shown
                part += chunk
                end = len(part) if len(part) > left else part.rfind(b"\n") + 1
                taken, used = self._shown(part[:end], left)
                left -= used
                hidden = len(part) - taken if taken < end else 0
                part = part[end:]
            self._busy = False
        if not hidden:
            hidden = len(part) - self._shown(part, left)[0]
        if hidden:
            self._shown(f"... {hidden} more bytes, which end with:".encode(), SHOWN)
            self._shown(self._tail[-hidden:], KEPT, of_end=True)
        self._busy = False

    def _shown(self, output: bytes, most: int, *, of_end: bool = False) -> tuple[int, int]:
        """Show the output that fits into ``most`` bytes; return its size, and that of what it took.

        What is shown counts: a control character takes several bytes.
        """
        text = marked(output)
        while output and (size := len(text.encode())) > most:
            fits = min(len(output) - 1, len(output) * most // size)
            output = output[len(output) - fits :] if of_end else output[:fits]
            text = marked(output)
        if not output:
            return 0, 0
        if self._show is not None:
            try:
                self._show(text)
            except Exception:  # what cannot be shown is still read, or the process would wait
                self._show = None
        return len(output), size


def _chunk(file: Any) -> bytes:
    try:
        return os.read(file.fileno(), _CHUNK)
    except (OSError, ValueError):
        return b""


def _readable(file: Any, milliseconds: int | None) -> bool:
    """Return whether a pipe has data or has ended; Windows cannot say it."""
    if sys.platform == "win32":
        return False
    poll = select.poll()
    with contextlib.suppress(OSError, ValueError):
        poll.register(file, select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(milliseconds))
    return False


def _started(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def _close(thread: threading.Thread, file: Any, seconds: float) -> None:
    """Close a pipe when its thread has ended; one that another process holds open is left."""
    thread.join(seconds)
    if not thread.is_alive():
        file.close()
