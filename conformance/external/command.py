"""Judge a command, such as a compiled binary."""

from __future__ import annotations

from collections.abc import Sequence

from posenc_ref.conformance.harness.implementation import Declared, Implementation
from posenc_ref.conformance.harness.nearest import did_you_mean
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.conformance.isolation.conversation import Limits

from .process import Program, Session

#: The default time limit for one answer, in seconds.
TIMEOUT = 30.0
#: The least time for all answers in seconds, and the least number of slow answers in that time.
TOTAL, ANSWERS = 600.0, 20


def from_command(
    command: Sequence[str],
    surface: str,
    encoding: Declared = None,
    *,
    tensor_layout: str = "bhsd",
    timeout: float = TIMEOUT,
    memory: float | None = None,
) -> Implementation:
    """Return the program that ``command`` starts as an `Implementation` of a surface.

    The program reads one request per line from standard input and writes one answer per line to
    standard output; docs/any-language.md defines them.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments, run without a shell.
    surface : str
        The surface that it implements; see :func:`posenc_ref.conformance.check`.
    encoding : Encoding, optional
        The expected encoding. The program receives it, so one program may serve many encodings.
    tensor_layout : str
        The tensor layout of x for ``apply``.
    timeout : float
        Seconds for one answer. All answers together may take 20 times that long, at least 600 s.
    memory : float, optional
        MiB of memory that the program and its processes may use (Linux only).

    Returns
    -------
    Implementation
        For :func:`check` and :func:`identify`.

    Raises
    ------
    HarnessError
        If the program cannot be started or its answer to the first request, `hello`, is wrong.
    """
    if isinstance(command, str) or not all(isinstance(word, str) for word in command):
        raise TypeError(f"command must be a list of words, ['./program', ...], got {command!r}")
    if not command:
        raise ValueError("command must name a program, got an empty list")
    if surface not in SURFACES:
        near = did_you_mean(surface, SURFACES)
        raise ValueError(f"surface must be one of {', '.join(SURFACES)}, got {surface!r}{near}")
    if not timeout > 0:
        raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}")
    if memory is not None and not memory > 0:
        raise ValueError(f"memory must be a positive number of MiB, got {memory!r}")
    hello = {
        "surface": surface,
        "tensor_layout": tensor_layout,
        "encoding": None if encoding is None else encoding.to_dict(),
    }
    limits = Limits(timeout, memory)
    program = Program(tuple(command), surface, hello, limits, max(TOTAL, ANSWERS * timeout))
    first = Session(program)
    first.start()
    name = first.name or " ".join(command)

    def another(session: Session | None = None) -> Implementation:
        return Implementation(
            session or Session(program),
            surface,
            name,
            encoding,
            tensor_layout=tensor_layout,
            factory=another,
            problems=program.problems,
        )

    return another(first)
