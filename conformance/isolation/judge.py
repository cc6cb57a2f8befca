"""Run functions around foreign code in another process, and receive what they yield."""

from __future__ import annotations

import base64
import json
import os
import pickle
import secrets
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from .conversation import Conversation, Limits, how_it_ended
from .streams import Silent

#: The number of last lines of standard error that a reason quotes.
_QUOTED = 5


class Died(Exception):
    """The process ended, was ended at a limit, or broke the protocol; the message says how."""


class Raised(Exception):
    """The function raised an exception: its traceback, and whether it ends Python."""

    def __init__(self, text: str, trace: str, ends: bool) -> None:
        super().__init__(text)
        self.trace, self.ends = trace, ends


class Child:
    """A Python process apart, started at the first run and again after it died.

    It shares nothing with this process: a session of its own, no standard input, and a private
    pipe for results, on which every line has a secret of the run. The results are JSON, so that
    nothing that the process sends is executed here.

    Parameters
    ----------
    preload : str
        A module to import at the start, while this process does other things.
    environment : mapping, optional
        Environment variables of the process.
    show : callable, optional
        Takes what the process prints.
    """

    def __init__(
        self,
        preload: str = "",
        environment: Mapping[str, str] | None = None,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self._preload, self._environment, self._show = preload, environment, show
        self._talk: Conversation | None = None
        self._nonce = ""
        self._count = 0
        self._before = (0, 0)
        #: The lines and bytes that the last run printed to standard output.
        self.printed = (0, 0)
        #: What the last run took from its process, so that no judge can work there.
        self.harmed = ""

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self._talk is None:
            self._nonce = secrets.token_hex(16)
            self._before = (0, 0)
            talk = Conversation(self._command, environment=self._environment, show=self._show)
            talk.send(self._nonce.encode() + b"\n")
            self._talk = talk

    def run(
        self,
        function: Callable[..., Iterable[Any]],
        *arguments: Any,
        limits: Limits | None = None,
        last: bool = False,
    ) -> Generator[Any, None, None]:
        """Yield what ``function(*arguments)`` yields; all must be picklable, and the items JSON.

        After the ``last`` run the process is ended.

        Raises
        ------
        Raised
            The function raised an exception.
        Died
            There is no result.
        """
        self.start()
        assert self._talk is not None
        self._count += 1
        self.printed = (0, 0)
        limits = limits or Limits()
        body = (self._count, sys.path, pickle.dumps((function, arguments)))
        since = time.monotonic()
        try:
            self._talk.send(base64.b64encode(pickle.dumps(body)) + b"\n")
            while "item" in (found := self._answer(limits, since)):
                yield found["item"]
        except Silent as silent:
            raise Died(self._reason(silent, limits)) from None
        except BaseException:  # the run was interrupted, or its items are not wanted any more
            self.close()
            raise
        if last or found["changed"] is not False or self._talk.group.others():
            self.close()
        self._count_output()
        self.harmed = str(found.get("harmed") or "")
        if "raised" in found:
            raise Raised(str(found["raised"]), str(found.get("trace")), found.get("ends") is True)

    def stop(self) -> None:
        """End the process, from another thread than the one that runs functions."""
        if self._talk is not None:
            self._talk.group.end()

    def close(self) -> int:
        """End the process; return its exit status."""
        talk = self._talk
        if talk is None:
            return 0
        status = talk.close()
        self._count_output()
        self._talk = None
        return status

    def _answer(self, limits: Limits, since: float) -> dict[str, Any]:
        """Return the next answer; raise :class:`Silent` for a line that is none."""
        assert self._talk is not None
        line = self._talk.answer(limits, since)
        try:
            found = json.loads(line)
            own = (found["nonce"], found["number"]) == (self._nonce, self._count)
        except (ValueError, KeyError, TypeError, RecursionError):
            own = False
        if not own or not {"item", "changed"} & set(found):
            raise Silent("forged")
        return found  # type: ignore[no-any-return]

    def _reason(self, silent: Silent, limits: Limits) -> str:
        """End the process, and return why it gave no result."""
        assert self._talk is not None
        status = None
        if silent.why == "ended":
            status = self._talk.wait(1.0)
        quoted = _quoted(self._talk.last_errors(100))
        self.close()
        why = {
            "late": f"did not finish within {limits.seconds:g} s" if limits.seconds else "",
            "memory": f"used more than {limits.memory:g} MiB of memory" if limits.memory else "",
            "long": "wrote to the private pipe of the verdict",
            "forged": "wrote to the private pipe of the verdict",
            "ended": "closed the private pipe of the verdict"
            if status is None
            else how_it_ended(status).replace("killed", "was killed"),
        }[silent.why]
        return f"the process that judged it {why}{quoted}"

    def _count_output(self) -> None:
        """Count what was printed since the last run."""
        if self._talk is None or self._talk.stdout is None:
            return
        out = self._talk.stdout
        out.settle()
        lines, size = self._before
        self.printed = (out.lines - lines, out.bytes - size)
        self._before = (out.lines, out.bytes)

    def _command(self, requests: int, answers: int) -> list[str]:
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            "from posenc_ref.conformance.isolation.child import main; "
            f"main({requests}, {answers}, {self._preload!r})"
        )
        return [sys.executable, "-X", "faulthandler", "-c", code]


def _quoted(errors: list[str]) -> str:
    """Return the place of a crash, or else the last lines of standard error."""
    library = os.path.dirname(os.__file__)
    for n, line in enumerate(errors):
        if line.startswith("Current thread "):
            frames = [frame.strip() for frame in errors[n + 1 :] if frame.startswith("  File ")]
            own = (f for f in frames if library not in f or "site-packages" in f)
            return f"; it crashed in {next(own, 'Python')}"
    return f"; standard error: {' | '.join(errors[-_QUOTED:])}" if errors else ""
