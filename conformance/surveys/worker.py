"""One group of checks in a process of its own: what crashes there ends there."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

from .options import Options
from .record import Outcome, kind_of


def judge_apart(group: str, options: Options, note: Callable[[str, Outcome | int], None]) -> None:
    """Judge a group in a process of its own, and pass on what it sends."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(group, options, sender), daemon=True)
    process.start()
    sender.close()
    finished = False
    while not finished:
        try:
            item = receiver.recv()
        except EOFError:
            break
        finished = item is None
        if item is not None:
            note(group, item)
    process.join()
    if not finished:
        reason = f"the process that judged {group} ended with exit code {process.exitcode}"
        note(group, Outcome(kind_of(group), group, verdict="error", reason=reason))


def _serve(group: str, options: Options, sender: Any) -> None:
    """The other end of :func:`judge_apart`; whatever libraries print goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.dup2(2, 1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    from .verify import judge_group

    for item in judge_group(group, options):
        sender.send(item)
    sender.send(None)
