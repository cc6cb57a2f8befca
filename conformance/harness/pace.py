"""Measure the seconds of the function's own calls; judge a slow function in fewer calls.

Where a process runs nothing else, a call that does not return can be ended.

A function is slow if even its cheapest call takes ``SLOW`` seconds. All others are judged alike,
whatever the speed of the machine. A slow function gets the reduced workload: fewer lengths and
fewer repeats, optional calls only while ``SECONDS`` are not spent, and a diagnosis with few calls.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from types import FrameType

#: The seconds that the cheapest call of a slow function takes at least.
SLOW = 0.05
#: The seconds of all calls after which optional calls are left out.
SECONDS = 12.0
#: The seconds after which no other way of calling a function is tried with the same sizes.
SEARCH_SECONDS = 3 * SECONDS
#: The seconds of further calls that look for the cause of a failure, and the calls that are free.
SEARCH, FREE = 5.0, 12
#: The message of a call that is not made, because all calls have had their time.
OVER = "the time for calls of the function is over"
#: The message of a call that is not made, because the search for the cause has had its calls.
ENDED = "the function is slow: no further call is made to find the cause"
#: The calls after which a function is slow or not.
KNOWN = 3
#: The calls of a crossing that are made in any case.
CROSSED = 4


@dataclass
class Pace:
    """What the calls of one run cost, and what was left out for it."""

    least: float = SLOW
    seconds: float = SECONDS
    clock: Callable[[], float] = perf_counter
    slow: bool = False  #: whether every one of the first calls took ``least`` seconds
    calls: int = 0  #: the measured calls, until the function is known to be slow
    cheapest: float = float("inf")  #: the seconds of the cheapest call
    spent: float = 0.0  #: the seconds of all calls
    left: dict[str, tuple[int, int]] = field(default_factory=dict)  #: calls made, of how many
    inside: bool = False  #: whether the cause of a failure is being searched
    search: float = 0.0  #: the seconds of the calls of this search
    searched: int = 0  #: the calls of this search
    ended: bool = False  #: whether the search was ended

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure one call; one that raises does not count as cheap."""
        start, answered = self.clock(), False
        try:
            yield
            answered = True
        finally:
            taken = self.clock() - start
            self.spent += taken
            if answered and not self.slow:
                self.calls += 1
                self.cheapest = min(self.cheapest, taken)
            if self.inside:
                self.search, self.searched = self.search + taken, self.searched + 1

    def unsure(self) -> bool:
        """Return whether the last call is to be repeated: its cost may be that of a new shape."""
        return self.calls == KNOWN and self.cheapest >= self.least

    def decide(self) -> None:
        """Decide whether the function is slow, after a call was repeated."""
        self.slow = self.cheapest >= self.least

    def room(self, calls: int, least: int = 0, share: float = 1.0) -> int:
        """Return how many of ``calls`` optional calls are made, ``least`` or more.

        They may take this share of the seconds that are left.
        """
        if not self.slow:
            return calls
        fit = int(share * (self.seconds - self.spent) / self.cheapest)
        return min(calls, max(least, fit))

    def grants(self, calls: int, what: str) -> bool:
        """Return whether ``calls`` optional calls are made; record the name of those left out."""
        granted = self.room(calls) == calls
        if not granted:
            self.left.setdefault(what, (0, calls))
        return granted

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Bound the calls that look for the cause of a failure."""
        before, self.inside = self.inside, True
        try:
            yield
        finally:
            self.inside = before

    def over(self) -> bool:
        """Return whether the search has made all its calls."""
        found = self.slow and self.inside and self.searched >= FREE and self.search >= SEARCH
        self.ended = self.ended or found
        return found

    def said(self) -> str:
        """Return what was judged less, or nothing if the function is not slow."""
        if not self.slow:
            return ""
        parts = [
            f"{made} of {of} {what} were made" if made else f"no {what} were made"
            for what, (made, of) in self.left.items()
        ]
        if self.ended:
            parts.append("the search for the cause was ended early")
        more = "; ".join(["fewer lengths, sizes and repeats are judged", *parts])
        return f"the function takes at least {self.cheapest:.2g} s per call: {more}"


@dataclass
class Watch:
    """The time that all calls of one identification may take, and what was left out for it."""

    seconds: float = float("inf")  #: no call is made after so many
    clock: Callable[[], float] = perf_counter
    step: str = "the search for a way of calling the function"  #: what is being done
    calls: int = 0
    searched: float = 0.0  #: the seconds of looking for ways to call the function
    search_begun: float | None = None  #: when the search that goes on began
    left: list[str] = field(default_factory=list)  #: the steps that calls were left out of
    begun: float = 0.0
    depth: int = 0  #: how many calls are being made, one inside the other
    pace: Pace | None = None  #: that of the runs to be made, if they share one

    def __post_init__(self) -> None:
        """Begin to measure."""
        self.begun = self.clock()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call, but none that it makes itself."""
        self.calls += self.depth == 0
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def over(self) -> bool:
        """Return whether the time is over; if so, the step lacks a call."""
        if self.clock() - self.begun <= self.seconds:
            return False
        if self.step not in self.left:
            self.left.append(self.step)
        return True

    @contextmanager
    def doing(self, step: str, pace: Pace | None = None) -> Iterator[None]:
        """Name the step to which calls belong, and the pace that its runs share."""
        before, self.step, self.pace = (self.step, self.pace), step, pace
        try:
            yield
        finally:
            self.step, self.pace = before

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Measure the search for a way to call the function."""
        self.search_begun = start = self.clock()
        try:
            yield
        finally:
            self.searched += self.clock() - start
            self.search_begun = None

    def search_over(self) -> bool:
        """Return whether the search that goes on has taken too long to go on."""
        return self.search_begun is not None and self.clock() - self.search_begun > SEARCH_SECONDS

    def said(self) -> str:
        """Return what was left out, or nothing."""
        if not self.left:
            return ""
        return (
            f"the {self.seconds:g} s for its calls were over after {self.calls} calls; calls are "
            f"missing in: {', '.join(self.left)}"
        )


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


def watch() -> Watch:
    """Return the watch of the current identification, or one without a limit."""
    return _WATCH.get() or Watch()


@contextmanager
def watched(seconds: float = float("inf")) -> Iterator[Watch]:
    """Limit all calls in this context to so many seconds, or to what is left of those around it."""
    around = _WATCH.get()
    found = around if around is not None else Watch(seconds)
    token = _WATCH.set(found)
    try:
        yield found
    finally:
        _WATCH.reset(token)


_OF_CALL: ContextVar[float | None] = ContextVar("of_call", default=None)


class _Stuck(BaseException):
    """No Exception, so that the function does not catch it by chance."""


@contextmanager
def calls_end_after(seconds: float) -> Iterator[None]:
    """End every call in this context after so many seconds; it then counts as refused.

    This takes the timer of the process, and works in its main thread, on systems that have such a
    timer. Compiled code is ended only when it returns to Python.
    """
    main = threading.current_thread() is threading.main_thread()
    token = _OF_CALL.set(seconds if main and hasattr(signal, "setitimer") else None)
    try:
        yield
    finally:
        _OF_CALL.reset(token)


@contextmanager
def ended() -> Iterator[None]:
    """Raise TimeoutError if the body takes longer than the context allows."""
    seconds = _OF_CALL.get()
    if seconds is None:
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _Stuck

    token = _OF_CALL.set(None)  # a call inside a call belongs to it
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Stuck:
        raise TimeoutError(f"the call did not return within {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        _OF_CALL.reset(token)
