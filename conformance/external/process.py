"""Call a program in any language: one process, one line per request and per answer."""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posenc_ref.conformance.isolation.conversation import (
    Conversation,
    Limits,
    how_it_ended,
)
from posenc_ref.conformance.isolation.streams import Silent
from posenc_ref.limits import ANSWER

from .wire import PROTOCOL, WireError, line, outcome, read_answer, request

#: The time in seconds for a program to end after its input is closed.
_LEAVE = 2.0
#: The number of last lines of standard error that a message shows.
_SHOWN = 5


class HarnessError(RuntimeError):
    """The program cannot be judged: it does not start, or breaks the protocol."""


class NotStarted(HarnessError):
    """There is no such program, or it may not be run."""


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
    limits: Limits  #: for one answer
    total: float  #: seconds from the first request to the last answer
    broken: str = ""  #: the reason why nothing more can be judged
    deaths: list[str] = field(default_factory=list)
    begin: float | None = None  #: the time of the first request

    def left(self) -> Limits:
        """Return the limits for the next answer, which may not exceed the time for all."""
        self.begin = time.monotonic() if self.begin is None else self.begin
        seconds = max(0.0, self.begin + self.total - time.monotonic())
        if self.limits.seconds is not None:
            seconds = min(seconds, self.limits.seconds)
        return replace(self.limits, seconds=seconds)

    @property
    def over(self) -> bool:
        """Return whether the time for all answers has passed."""
        return self.begin is not None and time.monotonic() >= self.begin + self.total

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

    def give_up(self, what: str, kind: type[HarnessError] = HarnessError) -> HarnessError:
        """Record that nothing more can be judged, and return the exception to raise."""
        self.broken = self.broken or f"{self.command[0]} {what}"
        return kind(self.broken)


@dataclass
class Session:
    """One process of a program, started by the first call and again after it died."""

    program: Program
    name: str = ""
    _talk: Conversation | None = None  #: None before the first call
    _stop: Any = None  #: the finalizer that ends the process
    _count: int = 0

    def __call__(self, *args: Any) -> Any:
        """Return the program's result, or raise :class:`Refusal` or :class:`ProgramDied`."""
        if self.program.broken:
            raise HarnessError(self.program.broken)
        if self._talk is None:
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
        try:
            talk = Conversation(self.program.command)
        except OSError as error:
            why = error.strerror or error
            raise self.program.give_up(
                f"cannot be started: {why}; give the path of an executable file (./my_binary)",
                NotStarted,
            ) from None
        self._talk, self._count = talk, 0
        self._stop = weakref.finalize(self, talk.close, _LEAVE)
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
        self._talk = None

    def _ask(self, text: bytes, number: int, what: str) -> dict[str, Any]:
        assert self._talk is not None
        try:
            answer = self._talk.ask(text, self.program.left())
        except Silent as silent:
            raise self._silent(silent, what) from None
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

    def _silent(self, silent: Silent, what: str) -> Exception:
        """Return the exception for a process that did not answer."""
        limits = self.program.limits
        if silent.why == "late" and self.program.over:
            return self._broken(
                f"took more than {self.program.total:g} s for all calls, until {what}. If it is "
                "slow, raise the time limit (--timeout): all calls may take 20 times that long."
            )
        if silent.why == "late":
            return self._broken(
                f"did not answer {what} within {limits.seconds:g} s; it must flush its "
                "output after every line and read lines of any length. If it is slow, raise the "
                "time limit (--timeout)."
            )
        if silent.why == "memory":
            return self._broken(
                f"used more than {limits.memory:g} MiB of memory in {what}; if it needs more, "
                "raise the limit (--memory)"
            )
        if silent.why == "long":
            return self._broken(
                f"answered {what} with a line of more than {ANSWER >> 20} MiB: it must write one "
                "line for each answer"
            )
        part = f" after {len(silent.part)} characters of an unfinished line" if silent.part else ""
        assert self._talk is not None
        status = self._talk.wait(_LEAVE)
        if status is None:
            return self._broken(f"closed its standard output instead of answering {what}{part}")
        if status == 0:
            return self._broken(
                f"ended (exit status 0) instead of answering {what}{part}: it must answer requests "
                "until standard input is closed, and write a newline after every answer"
            )
        text = f"{how_it_ended(status)} in {what}{part}{self._last_errors()}"
        self.close()
        self.program.deaths.append(text)
        return ProgramDied(text)

    def _broken(self, what: str) -> HarnessError:
        what += self._last_errors()
        if self._talk is not None:
            self._talk.close()
        self.close()
        return self.program.give_up(what)

    def _last_errors(self) -> str:
        lines = [] if self._talk is None else self._talk.last_errors(_SHOWN)
        return f"; standard error: {' | '.join(lines)}" if lines else ""


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
