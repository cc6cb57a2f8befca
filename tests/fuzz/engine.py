"""Try mutated inputs on a function, and name each that breaks its promise.

The promise of a target: it returns, or raises one of its documented exceptions with a message,
within its time and memory. What it returns passes the target's own check, if it has one.
"""

import contextlib
import gc
import random
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

#: The largest processor time of one input, in seconds.
SECONDS = 2.0
#: The largest address space that one input may add, in bytes.
MEMORY = 2**30


#: Messages of Python and NumPy that name no argument: a check is missing.
INTERNAL = re.compile(
    r"not supported between|unsupported operand|object is not|has no len|unhashable|not iterable|"
    r"unexpected keyword|required positional|positional arguments but|can't convert|"
    r"could not convert|cannot convert|"
    r"ambiguous|invalid literal|math domain|bad operand|must be real number, not|out of range|"
    r"non-hexadecimal|cannot reshape|buffer size|cannot be interpreted|expected str[ ,]|"
    r"not enough values"
)


class TooSlow(BaseException):
    """One input took more than its processor time; no ``except Exception`` hides it."""


@dataclass(frozen=True)
class Target:
    """A function that reads untrusted data, and its promise."""

    area: str
    promise: str
    seeds: Callable[[], list[Any]]
    mutate: Callable[[random.Random, Any], Any]
    call: Callable[[Any], Any]
    allowed: tuple[type[BaseException], ...] = (ValueError, TypeError)
    check: Callable[[Any, Any], None] | None = None  #: (input, result): raises AssertionError
    mentions: Callable[[], str] | None = None  #: what every message has, such as the file's name


@dataclass
class Tried:
    """The number of inputs, how many were accepted, and each broken promise."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    broken: list[tuple[int, str]] = field(default_factory=list)


def _alarm(signum, frame):
    raise TooSlow(f"more than {SECONDS:g} s of processor time")


@contextlib.contextmanager
def limited():
    """Within this context, too much processor time or memory raises."""
    previous = signal.signal(signal.SIGPROF, _alarm)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, previous)


def verdict(target: Target, given: Any) -> tuple[bool, str]:
    """Return whether the target accepts an input, and how it breaks its promise, or ""."""
    try:
        with limited():
            result = target.call(given)
    except target.allowed as error:
        text = str(error)
        if not text.strip():
            return False, f"{type(error).__name__} without a message"
        if INTERNAL.search(text):
            return False, f"Python's own {type(error).__name__} at {_place(error)}: {text[:200]}"
        if len(text) > 4000:
            return False, f"a message of {len(text)} characters: {text[:200]}"
        if target.mentions is not None and target.mentions() not in text:
            return False, f"{type(error).__name__} does not name the file: {text[:200]}"
        return False, ""
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        return False, f"{type(error).__name__} at {_place(error)}: {str(error)[:200]}"
    if target.check is not None:
        try:
            target.check(given, result)
        except AssertionError as error:
            return True, f"wrong value: {str(error)[:300]}"
        except Exception as error:
            what = f"{type(error).__name__} at {_place(error)}"
            return True, f"the check of its value fails with {what}: {str(error)[:200]}"
    return True, ""


def _place(error: BaseException) -> str:
    """Return the innermost file and line of an exception."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{at.filename.rpartition('/')[2]}:{at.lineno}"


def mutated(target: Target, seeds: list[Any], n: int, seed: int) -> Any:
    """Return input number ``n`` of a run."""
    rng = random.Random(f"{target.area} {seed} {n}")
    return target.mutate(rng, rng.choice(seeds))


def fuzz(
    target: Target,
    seed: int = 0,
    inputs: int | None = None,
    seconds: float | None = None,
    first: int = 0,
) -> Tried:
    """Try a number of inputs, or as many as fit into ``seconds``."""
    seeds, found, begin = target.seeds(), Tried(), time.monotonic()
    gc.collect()
    for n in range(first, sys.maxsize):
        found.seconds = time.monotonic() - begin
        if inputs is not None and found.inputs >= inputs:
            break
        if seconds is not None and found.seconds >= seconds:
            break
        given = mutated(target, seeds, n, seed)
        start = time.process_time()
        accepted, why = verdict(target, given)
        found.slowest = max(found.slowest, time.process_time() - start)
        found.inputs += 1
        found.accepted += accepted
        found.refused += not accepted and not why
        if why:
            found.broken.append((n, why))
    return found
