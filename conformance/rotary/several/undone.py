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

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.driver import Driver, Malformed, Refused
from posenc_ref.conformance.harness.ledger import Ledger
from posenc_ref.conformance.harness.report import ERROR, Finding
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.harness.state import SAME_LENGTH

from .lengths import vague
from .rest import ROTATIONS, combine

#: The fewest tokens of a call that no call had before, and numbers near those of other probes.
_UNUSED, _USED = 300, {2**n + i for n in range(8, 17) for i in (-2, -1, 0, 1, 2)}
#: The axes of batch rows, heads and tokens in a tensor layout.
_AXES = {"bhsd": (0, 1, 2), "bshd": (0, 2, 1), "sbhd": (1, 2, 0)}
#: (B, H, S) and first positions of calls whose number of tokens no other probe has.
_USUAL = (
    ((1, 2, 18), 40), ((2, 1, 29), 3), ((1, 1, 58), 70), ((3, 1, 113), 5), ((1, 1, 177), 9),
    ((1, 2, 241), 31), ((1, 1, 293), 2),
)  # fmt: skip


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
        left = _left(run, again, _as(_Fresh, run.driver))
        _report(run, errors, left, "on a fresh instance each")
    elif errors[0].message == SAME_LENGTH:
        padded = _as(_Padded, run.driver)
        if _same_as_padded(run, padded):
            left = _left(run, again, padded)
            _report(run, errors, left, "with numbers of tokens that no call had before")


def _same_as_padded(run: Run, padded: Driver) -> bool:
    """Return whether calls of usual, unused numbers of tokens give what padded calls give."""
    for i, (size, start) in enumerate(_USUAL):
        x, at = run.random((*size, run.encoding.head_dim), 80 + i), start + np.arange(size[2])
        try:
            y, expected = run.driver.apply(x, at), padded.apply(x, at)
        except (Refused, Malformed):
            return False
        largest = np.full_like(expected, np.abs(expected).max(initial=0))
        if y.shape != expected.shape or not run.fits(y, Truth(expected, largest, 0 * expected)):
            return False
    return True


def moved_back(
    run: Run, again: Callable[[Run], None], added: int, step: Callable[[tuple[int, ...]], int]
) -> None:
    """Report what is left with positions moved back by what each call adds to those after it."""
    fn, axes = run.driver.fn, _AXES.get(run.driver.tensor_layout)
    if axes is None:
        return
    so_far, refused = added, 0

    def moved(x: Any, positions: Any) -> Any:
        nonlocal so_far, refused
        before, so_far = so_far, so_far + step(tuple(int(x.shape[i]) for i in axes))
        refused += 1
        result = fn(x, positions - before)
        refused -= 1
        return result

    errors = [f for f in run.report.findings if f.severity == ERROR]
    driver = replace(run.driver, fn=moved, factory=None, mutated=None, out_dtypes=set())
    left = _left(run, again, driver)
    if not refused:  # a refused call may be counted or not
        _report(run, errors, left, "with positions moved back")


def _as(kind: type[Driver], driver: Driver) -> Driver:
    """Return the driver as one that undoes what is kept."""
    known = {f.name: getattr(driver, f.name) for f in fields(Driver) if f.init}
    return kind(**known | {"mutated": None, "out_dtypes": set(), "needed": []})


def _left(run: Run, again: Callable[[Run], None], driver: Driver) -> list[Finding]:
    """Return the errors of the function behind another driver, if each describes the rotation."""
    report = replace(run.report, findings=[], limits=[], executed={}, controls={}, accuracy=None)
    settings = replace(run.settings, strict=True, few=True)
    second = replace(run, driver=driver, settings=settings, ledger=Ledger(report))
    try:
        again(second)
    except (Refused, Malformed):
        return []
    left = [f for f in second.report.findings if f.severity == ERROR]
    return left if all(map(_describes, left)) else []


def _describes(finding: Finding) -> bool:
    """Return whether a finding describes the rotation of all calls."""
    measured = finding.values or finding.code == "angle-precision"  # recomputed from roundings
    return finding.code in ROTATIONS and bool(measured) and not vague(finding)


def _report(run: Run, errors: list[Finding], left: list[Finding], words: str) -> None:
    """Report the errors that are left in calls of the other driver together with the known ones."""
    if left:
        told = [replace(f, evidence=f"{f.evidence}; in calls {words}", reproduce="") for f in left]
        combine(run, errors, told)
