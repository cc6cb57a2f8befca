"""Judge a function in another process, and receive the verdict; the command itself prints it.

``main`` of :mod:`posenc_ref.conformance.__main__` turns this on. A program that calls ``app`` from
Python judges in its own process, as with ``--in-process``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_ref.conformance.external.process import HarnessError, NotStarted
from posenc_ref.conformance.harness.pace import calls_end_after
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.received import report_of
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.isolation import group
from posenc_ref.conformance.isolation.conversation import Limits
from posenc_ref.conformance.isolation.judge import Child, Died, Raised

from .isolation import own_modules
from .loading import UsageError
from .output import say, waiting

#: The default limits of judging one function.
SECONDS, MEMORY = 600.0, 8192.0
#: The part of the time limit that one call may take, and the least seconds: a call that does not
#: return counts as refused.
_OF_ONE_CALL, _LEAST = 1 / 5, 2.0
#: The most characters of a message.
_MESSAGE = 4000

Timeout = Annotated[
    float | None,
    typer.Option(
        help=f"The time limit in seconds: for judging a function (default: {SECONDS:g}), or for "
        "one answer to --exec (default: 30; all answers may take 20 times that long, at least 600)."
    ),
]
Memory = Annotated[
    float | None,
    typer.Option(
        help=f"The memory limit in MiB, for the function and its processes (default: {MEMORY:g}; "
        "Linux only)."
    ),
]
InProcess = Annotated[
    bool,
    typer.Option(
        "--in-process",
        help="Call the function in the process of this command, for a debugger. If the function "
        "ends that process, there is no verdict.",
    ),
]


@dataclass(frozen=True)
class Started:
    """What is known before a function is judged: the facts of the header of a report file."""

    facts: Mapping[str, str]
    encoding: Mapping[str, Any] | None  #: as ``to_dict`` gives it


@dataclass(frozen=True)
class Printed:
    """The result of a command that prints text or JSON, and its exit code."""

    text: str
    code: int
    several: str = ""  #: why it is not one report


class NoVerdict(Exception):
    """The function ended its process, exceeded a limit, or broke the protocol."""


class InternalError(Exception):
    """An error of posenc itself, in the process that judged; its argument is the traceback."""


_child: Child | None = None
#: The file or module whose functions the process judges.
_source: str | None = None


def judge_apart(child: Child | None) -> None:
    """Judge all functions of this process's commands in ``child``; None: in this process."""
    global _child, _source
    _child, _source = child, None


def judged(
    judge: Callable[..., Iterator[Any]],
    asked: Mapping[str, Any],
    started: Callable[[Started], None] = lambda facts: None,
    *,
    folder: Path | None = None,
) -> Report | Printed:
    """Return the result of ``judge(**asked)``, which yields :class:`Started` and the result.

    Parameters
    ----------
    started : callable
        Takes the facts, before anything is judged.
    folder : Path, optional
        The working folder, whose modules are forgotten afterwards; then the process is kept for
        the next function.

    Raises
    ------
    UsageError, TypeError, ValueError, OSError
        The settings are wrong, or the function cannot be imported.
    NoVerdict
        There is no result.
    """
    if asked.get("in_process") and (asked.get("timeout") or asked.get("memory")):
        raise UsageError("--timeout and --memory limit another process: leave out --in-process")
    apart = not (asked.get("in_process") or asked.get("command") or asked.get("recorded"))
    found: Report | Printed | None = None
    run = _in_child if _child is not None and apart else _here
    for item in run(judge, asked, folder):
        if isinstance(item, Started):
            started(item)
        else:
            found = item
    if found is None:
        raise NoVerdict("the process that judged it gave no report")
    if isinstance(found, Report) and run is _in_child and _child is not None:
        lines, size = _child.printed
        count = plural(size, "byte", "bytes") if lines == 0 else plural(lines, "line", "lines")
        found.printed = f"{count} to standard output" if size else ""
    return found


def shown(judge: Callable[..., Iterator[Any]]) -> Callable[..., None]:
    """Return the command that prints the text of ``judge`` and exits with its exit code."""

    @functools.wraps(judge)
    def command(**asked: Any) -> None:
        targets = [str(asked[name]) for name in ("target", "a", "b") if asked.get(name)]
        try:
            with waiting(f"judging {' and '.join(targets)} ..."):
                found = judged(judge, asked)
        except NoVerdict as error:
            found = lost(error, " and ".join(targets), asked)
        if isinstance(found, Report):
            text = found.to_json(indent=1) if asked["as_json"] else str(found)
            found = Printed(text, found.exit_code)
        say(found.text)
        raise typer.Exit(found.code)

    return command


def lost(error: NoVerdict, subject: str, asked: Mapping[str, Any]) -> Report:
    """Return the report of a function that could not be judged."""
    backend = asked.get("backend") or "numpy"
    backend = backend if isinstance(backend, str) else ", ".join(backend)
    surface = asked.get("surface") or "apply"
    declared = next(filter(None, map(asked.get, ("encoding", "preset", "config"))), "nothing")
    dtype = asked["dtype"]
    return Report(subject, surface, str(declared), backend, dtype, error=str(error))


def _here(
    judge: Callable[..., Iterator[Any]], asked: Mapping[str, Any], folder: Path | None
) -> Iterator[Any]:
    """Yield what ``judge`` yields in this process."""
    items = judge(**asked)
    with contextlib.redirect_stdout(sys.stderr), _in(folder):
        while True:
            try:
                item = next(items)
            except StopIteration:
                return
            except (Exception, KeyboardInterrupt) as error:
                if isinstance(error, HarnessError) and not isinstance(error, NotStarted):
                    raise NoVerdict(str(error)) from None
                raise
            except BaseException as error:
                raise NoVerdict(f"it ended Python ({type(error).__name__}: {error})") from None
            yield item


def _in_child(
    judge: Callable[..., Iterator[Any]], asked: Mapping[str, Any], folder: Path | None
) -> Iterator[Any]:
    """Yield what ``judge`` yields in the other process, which is a new one for a new file."""
    global _source
    assert _child is not None
    limits = Limits(
        _positive(asked.get("timeout"), "timeout", "seconds", SECONDS),
        memory_limit(asked.get("memory")),
    )
    name = judge.__module__, judge.__name__
    source = str(asked.get("target")).rpartition(":")[0]
    if source != _source:  # a function may have changed anything there, unseen
        if _source is not None:
            _child.close()
        _source = source
    try:
        run = _child.run(serve, *name, dict(asked), folder, limits=limits, last=folder is None)
        usage = None
        with contextlib.closing(run):
            for item in run:  # to its end, so that the process can judge the next function
                if isinstance(item, dict) and "usage" in item:
                    usage = UsageError(str(item["usage"]))
                else:
                    yield _received(item)
        if usage is not None and _child.harmed:
            raise NoVerdict(_harmed(_child.harmed, usage))
        if usage is not None:
            raise usage
    except Died as error:
        hint = ""
        if "did not finish" in str(error):
            hint = "; if it is slow, raise the time limit (--timeout)"
        elif "MiB of memory" in str(error):
            hint = "; if it needs more, raise the limit (--memory)"
        raise NoVerdict(f"{error}{hint}") from None
    except Raised as error:
        if error.ends:
            raise NoVerdict(f"it ended Python ({error})") from None
        if _child.harmed:
            raise NoVerdict(_harmed(_child.harmed, error)) from None
        raise InternalError(str(error), error.trace) from None


def _harmed(what: str, error: Exception) -> str:
    return f"the function changed {what}, so it could not be judged ({error})"


def memory_limit(given: float | None) -> float:
    """Return the memory limit in MiB; raise UsageError for one that would have no effect."""
    if given is not None and not group.LINUX:
        raise UsageError("--memory limits processes on Linux only: leave it out on this system")
    return _positive(given, "memory", "MiB", MEMORY)


def _positive(value: float | None, name: str, unit: str, default: float) -> float:
    if value is not None and not value > 0:
        raise UsageError(f"--{name} must be a positive number of {unit}, got {value!r}")
    return default if value is None else float(value)


def _received(item: Any) -> Started | Report | Printed:
    """Return the item that :func:`serve` sent; anything else is no verdict."""
    try:
        ((kind, value),) = item.items()
        if kind == "report":
            return report_of(value)
        if kind == "started":
            facts, encoding = value
            return Started({str(k): str(v) for k, v in facts.items()}, encoding)
        text, code, several = value
        if kind == "printed" and text.strip() and code in (0, 1, 2, 3):
            return Printed(text, code, several)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NoVerdict(f"the process that judged it sent no report: {error}") from None
    raise NoVerdict(f"the process that judged it sent no report: {json.dumps(item)[:80]}")


def serve(
    module: str, name: str, asked: Mapping[str, Any], folder: Path | None
) -> Iterator[dict[str, Any]]:
    """Yield as JSON what a judge yields; in the other process."""
    judge = inspect.unwrap(getattr(importlib.import_module(module), name))
    seconds = max(float(asked.get("timeout") or SECONDS) * _OF_ONE_CALL, _LEAST)
    try:
        with _in(folder), calls_end_after(seconds):
            for item in judge(**asked):
                if isinstance(item, Started):
                    yield {"started": [item.facts, item.encoding]}
                elif isinstance(item, Report):
                    yield {"report": item.to_dict()}
                else:
                    yield {"printed": [item.text, item.code, item.several]}
    except (UsageError, TypeError, ValueError, OSError) as error:
        yield {"usage": str(error)[:_MESSAGE]}


@contextlib.contextmanager
def _in(folder: Path | None) -> Iterator[None]:
    if folder is None:
        yield
        return
    with contextlib.chdir(folder), own_modules(Path.cwd()):
        yield
