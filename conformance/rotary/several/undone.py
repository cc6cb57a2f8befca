"""Judge a function whose results depend on earlier calls with that undone, to find what is left.

A driver undoes it: by a fresh instance for every call, by a number of tokens that no call had
before, or by positions from which the number is subtracted that earlier calls added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from itertools import count
from typing import Any

import numpy as np

from posenc_ref.conformance.harness.driver import Driver, Malformed, Refused
from posenc_ref.conformance.harness.ledger import Ledger
from posenc_ref.conformance.harness.report import ERROR, Finding
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.harness.state import SAME_LENGTH

from .rest import combine

#: The fewest tokens of a call that no call had before, and numbers near those of other probes.
_UNUSED, _USED = 300, {2**n + i for n in range(8, 17) for i in (-2, -1, 0, 1, 2)}
#: The axes of batch rows, heads and tokens in a tensor layout.
_AXES = {"bhsd": (0, 1, 2), "bshd": (0, 2, 1), "sbhd": (1, 2, 0)}
#: Codes of findings that may say where a function is wrong, not why, unless they have values.
_OF_PLACES = frozenset({
    "position-axis", "row-offset", "wrong-row", "decode-offset", "uninitialised", "not-a-rotation",
    "range-reduction", "frequency-spacing", "position-scale", "state",
})  # fmt: skip


@dataclass
class _Padded(Driver):
    """Every call has a number of tokens that no call had before."""

    used: set[int] = field(default_factory=lambda: set(_USED))

    def apply(self, x: np.ndarray, positions: np.ndarray, memory: str = "contiguous") -> np.ndarray:
        """Call the function with more tokens, and return the results of the first ones."""
        n = x.shape[2]
        size = next(k for k in count(max(n + 1, _UNUSED)) if k not in self.used)
        self.used.add(size)
        x = np.concatenate([x, np.repeat(x[..., -1:, :], size - n, axis=-2)], axis=-2)
        last = np.repeat(positions[..., -1:], size - n, axis=-1)
        return super().apply(x, np.concatenate([positions, last], -1), memory)[:, :, :n]


@dataclass
class _Fresh(Driver):
    """Every call is the first one of an instance."""

    def apply(self, x: np.ndarray, positions: np.ndarray, memory: str = "contiguous") -> np.ndarray:
        """Call a fresh instance."""
        assert self.factory is not None
        self.fn = self.factory()
        return super().apply(x, positions, memory)


def diagnose(run: Run, again: Callable[[Run], None]) -> None:
    """Report what is left with a table undone that is kept by the number of tokens."""
    errors = [f for f in run.report.findings if f.severity == ERROR]
    if len(errors) != 1 or errors[0].code != "state" or run.driver.axes > 1:
        return
    if run.driver.factory is not None:
        with_driver(run, errors, again, _as(_Fresh, run.driver), "on a fresh instance each")
    elif errors[0].message == SAME_LENGTH:
        words = "with numbers of tokens that no call had before"
        with_driver(run, errors, again, _as(_Padded, run.driver), words)


def moved_back(
    run: Run, again: Callable[[Run], None], added: int, step: Callable[[tuple[int, ...]], int]
) -> None:
    """Report what is left with positions moved back by what each call adds to those after it."""
    fn, axes = run.driver.fn, _AXES.get(run.driver.tensor_layout)
    if axes is None:
        return
    so_far = added

    def moved(x: Any, positions: Any) -> Any:
        nonlocal so_far
        before, so_far = so_far, so_far + step(tuple(int(x.shape[i]) for i in axes))
        return fn(x, positions - before)

    errors = [f for f in run.report.findings if f.severity == ERROR]
    driver = replace(run.driver, fn=moved, factory=None, mutated=None, out_dtypes=set())
    with_driver(run, errors, again, driver, "with positions moved back")


def _as(kind: type[Driver], driver: Driver) -> Driver:
    """Return the driver as one that undoes what is kept."""
    known = {f.name: getattr(driver, f.name) for f in fields(Driver) if f.init}
    return kind(**known | {"mutated": None, "out_dtypes": set(), "needed": []})


def with_driver(
    run: Run, errors: list[Finding], again: Callable[[Run], None], driver: Driver, words: str
) -> None:
    """Report the errors of the function behind another driver, together with the known ones.

    Nothing is reported if its results depend on earlier calls then too, or have no name.
    """
    report = replace(run.report, findings=[], limits=[], executed={}, controls={}, accuracy=None)
    settings = replace(run.settings, strict=True, few=True)
    second = replace(run, driver=driver, settings=settings, ledger=Ledger(report))
    try:
        again(second)
    except (Refused, Malformed):
        return
    left = [f for f in second.report.findings if f.severity == ERROR]
    if not left or any(f.code in _OF_PLACES and not f.values for f in left):
        return
    told = [replace(f, evidence=f"{f.evidence}; in calls {words}", reproduce="") for f in left]
    combine(run, errors, told)
