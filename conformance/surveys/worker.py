"""A process that judges cases one by one and is ended when a case exceeds its time limit."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from posenc_ref.conformance.isolation.conversation import Limits
from posenc_ref.conformance.isolation.judge import Child, Died, Raised
from posenc_ref.conformance.isolation.show import show_output

from .record import Outcome, one_line

#: A function that judges a case.  For a :class:`Worker` both must be picklable.
Judge = Callable[[Any], Iterable[Outcome]]
#: The environment of the processes: one thread for each, and no downloads.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_OFFLINE": "1",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
_FIELDS = {field.name: field.name for field in dataclasses.fields(Outcome)}


class Worker:
    """A separate process that judges cases; it is restarted after a crash or a time limit."""

    def __init__(self, judge: Judge, time_limit: float | None = None) -> None:
        self.judge = judge
        self.time_limit = time_limit
        self._child = Child(
            environment={key: os.environ.get(key, value) for key, value in _ENVIRONMENT.items()},
            show=show_output,
        )

    def outcomes(self, case: Any) -> Iterator[Outcome | str]:
        """Yield the outcomes of a case, then a reason if the process crashed or was too slow."""
        limits = Limits(self.time_limit)
        try:
            for item in self._child.run(_outcomes, self.judge, case, limits=limits):
                yield item if isinstance(item, str) else Outcome.from_dict(item, _FIELDS)
        except (Died, Raised) as error:
            yield str(error)

    def stop(self) -> None:
        """End the process from another thread, and drop the case that it judges."""
        self._child.stop()

    def close(self) -> None:
        """End the process; the next case starts another."""
        self._child.close()


def outcomes_here(judge: Judge, case: Any) -> Iterator[Outcome | str]:
    """Yield the same as :meth:`Worker.outcomes`, but judge the case in this process."""
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from judge(case)
    except Exception as error:
        yield one_line(error)


def _outcomes(judge: Judge, case: Any) -> Iterator[Any]:
    """Yield the outcomes of a case as JSON."""
    for item in outcomes_here(judge, case):
        yield item if isinstance(item, str) else vars(item)
