"""Call a program in any language: one process, one line per request and per answer."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .wire import PROTOCOL, WireError, line, outcome, read_answer, request

#: The time in seconds for a program to end after its input is closed.
_LEAVE = 2.0
#: The pipe size in bytes, where the system can set it: one line may have megabytes.
_PIPE = 1 << 20
#: The number of last lines of standard error that a message shows.
_SHOWN = 5


class HarnessError(RuntimeError):
    """The program cannot be judged: it does not start, or breaks the protocol."""


class Refusal(Exception):
    """The program answered ``refused``, as a Python function raises an exception."""


class ProgramDied(Exception):
    """The process ended, with a signal or an error status, instead of answering."""


@dataclass
class Program:
    """The command to run, and the errors of all its processes."""

    command: tuple[str, ...]
    call: str  #: the surface, named in every request
    hello: Mapping[str, Any]
    timeout: float
    broken: str = ""  #: the reason why nothing more can be judged
    deaths: list[str] = field(default_factory=list)

    def problems(self) -> list[tuple[str, str]]:
        """Return the findings (message, evidence) since the last call, or raise HarnessError."""
        deaths, self.deaths = self.deaths, []
        broken, self.broken = self.broken, ""
        if broken:
            raise HarnessError(broken)
        if not deaths:
            return []
        many = "" if len(deaths) == 1 else f", and {len(deaths) - 1} times more"
        text = "the program ends without an answer; it must refuse calls that it does not support"
        return [(text, f"ProgramDied: {deaths[0]}{many}")]

    def give_up(self, what: str) -> HarnessError:
        """Record that nothing more can be judged, and return the exception to raise."""
        self.broken = self.broken or f"{self.command[0]} {what}"
        return HarnessError(self.broken)


@dataclass
class Session:
    """One process of a program, started by the first call and again after it died."""

    program: Program
    name: str = ""
    _process: Any = None  #: a :class:`subprocess.Popen`, or None before the first call
    _errors: Any = None  #: the file that receives standard error
    _stop: Any = None  #: the finalizer that ends the process
    _count: int = 0

    def __call__(self, *args: Any) -> Any:
        """Return the program's result, or raise :class:`Refusal` or :class:`ProgramDied`."""
        if self.program.broken:
            raise HarnessError(self.program.broken)
        if self._process is None:
            self.start()
        self._count += 1
        what = f"call {self._count}, {self.program.call}({_described(args)})"
        body = self._ask(request(self._count, self.program.call, args), self._count, what)
        try:
            answered, value = outcome(body)
        except WireError as error:
            raise self._broken(f"answered {what} with a line that {error}") from None
        if not answered:
            raise Refusal(value)
        return value

    def start(self) -> None:
        """Start the program, send the first request, ``hello``, and check the answer."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by _end)
        try:
            process = subprocess.Popen(
                self.program.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=_PIPE,
                pipesize=_PIPE,
            )
        except OSError as error:
            self._errors.close()
            why = error.strerror or error
            raise self.program.give_up(
                f"cannot be started: {why}; give the path of an executable file (./my_binary)"
            ) from None
        self._process, self._count = process, 0
        self._stop = weakref.finalize(self, _end, process, self._errors)
        hello = {"id": 0, "call": "hello", "protocol": PROTOCOL, **self.program.hello}
        try:
            body = self._ask(line(hello), 0, "hello")
        except ProgramDied as error:
            raise self.program.give_up(f'did not answer "hello": {error}') from None
        if "refused" in body:
            raise self._broken(f"refuses to be judged: {body['refused']}")
        if body.get("protocol") != PROTOCOL or isinstance(body.get("protocol"), bool):
            raise self._broken(
                f'must answer "hello" with {{"id": 0, "protocol": {PROTOCOL}}}, got '
                f"{json.dumps(body)[:80]}"
            )
        self.name = " ".join(str(body[key]) for key in ("name", "version") if body.get(key))

    def close(self) -> None:
        """End the process; the next call starts another."""
        if self._stop is not None:
            self._stop()
        self._process = None

    def _ask(self, text: bytes, number: int, what: str) -> dict[str, Any]:
        process = self._process
        late = threading.Event()

        def give_up_waiting() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self.program.timeout, give_up_waiting)
        timer.start()
        answer = b""
        try:
            process.stdin.write(text)
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:  # it ended or closed its input, which is reported below
            pass
        finally:
            timer.cancel()
        if late.is_set():
            raise self._broken(
                f"did not answer {what} within {self.program.timeout:g} s; it must flush its "
                "output after every line and read lines of any length. If it is slow, raise the "
                "time limit (--timeout)."
            )
        if not answer.endswith(b"\n"):
            raise self._ended(what, answer)
        try:
            body = read_answer(answer, number)
        except WireError as error:
            raise self._broken(
                f"answered {what} with a line that {error}; write only answers to standard output, "
                "one line each, and anything else to standard error"
            ) from None
        if "call" in body and {"surface", "arguments"} & set(body):  # keys of requests alone
            raise self._broken(
                f"answered {what} with the request itself: it echoes what it reads. It must write "
                'its own answer to each request, {"id": ..., "result": ...}; docs/any-language.md '
                "describes both"
            )
        return body

    def _ended(self, what: str, answer: bytes) -> Exception:
        """Return the exception for a process that ended before it answered."""
        part = f" after {len(answer)} characters of an unfinished line" if answer else ""
        try:
            status = self._process.wait(_LEAVE)
        except subprocess.TimeoutExpired:
            return self._broken(f"closed its standard output instead of answering {what}{part}")
        if status == 0:
            return self._broken(
                f"ended (exit status 0) instead of answering {what}{part}: it must answer requests "
                "until standard input is closed, and write a newline after every answer"
            )
        how = f"ended with exit status {status}"
        if status < 0:
            names = {s.value: s.name for s in signal.Signals}
            how = f"killed by {names.get(-status, f'signal {-status}')}"
        text = f"{how} in {what}{part}{self._last_errors()}"
        self.close()
        self.program.deaths.append(text)
        return ProgramDied(text)

    def _broken(self, what: str) -> HarnessError:
        what += self._last_errors()
        self.close()
        return self.program.give_up(what)

    def _last_errors(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"; standard error: {' | '.join(lines[-_SHOWN:])}" if lines else ""


def _end(process: Any, errors: Any) -> None:
    """Close the input, then kill the program if it does not end."""
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(BrokenPipeError):  # unwritten input is not needed
            pipe.close()
    until = time.monotonic() + _LEAVE
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    if process.poll() is None:
        process.kill()
        process.wait()
    errors.close()


def _described(args: tuple[Any, ...]) -> str:
    """Return arguments as text: arrays by dtype and shape, short integer arrays in full."""
    words = []
    for value in args:
        if isinstance(value, np.ndarray):
            short = value.dtype.kind == "i" and value.size <= 8
            words.append(f"{value.dtype} {value.shape}" + f" = {value.tolist()}" * short)
        elif isinstance(value, list | tuple):
            words.append(f"[{_described(tuple(value))}]")
        else:
            words.append(str(value))
    text = ", ".join(words)
    return text if len(text) <= 120 else text[:117] + "..."
