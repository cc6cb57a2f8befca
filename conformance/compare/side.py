"""One of two compared functions, and the calls that are made to both of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, VISIBLE, Truth
from posenc_ref.conformance.diagnosis.same_logits import FEWEST
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import GENERIC, REPORTED, WINDOWS
from posenc_ref.conformance.harness.reach import Access, Reach, TableAccess
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.accuracy_by_length import first_visible

from .comparison import CONTEXTS, Difference

#: The contexts in which logits must agree; the largest ones are reported.
_SAMPLED = (16, 64, 100, 256, 500, 1024, *CONTEXTS)
#: The inputs for which logits of rotated queries and keys are compared.
RANDOM = " (q . k / sqrt(d) of random q and k)"
#: The forms of positions from general to special; every function accepts calls from position 0.
_MODES = ("any", "contiguous", "single", "prefix")


@dataclass
class Side:
    """A compared function, seen as a function of ``surface``, and access to its results."""

    name: str
    run: Run
    surface: str
    access: Reach | None = None


@dataclass
class Two:
    """Both functions: each call is made to A and to B, and A's result judged against B's."""

    a: Side
    b: Side
    difference: Difference
    both: bool = False  #: whether both are judged against one encoding: two errors may add up

    @property
    def run(self) -> Run:
        """The run of A, whose tolerance is that of the coarser results of the two."""
        a, b = self.a.run, self.b.run
        precision = max((a.coarse, b.coarse), key=ROUNDOFF.__getitem__)
        return replace(a, settings=replace(a.settings, precision=precision))

    @property
    def visible(self) -> float:
        """The smallest visible difference: 2**-9, plus the roundings of half-precision results."""
        coarse = ROUNDOFF[self.run.coarse]
        return VISIBLE + (2 * coarse if coarse > ROUNDOFF["float32"] else 0.0)

    def called(
        self, call: Callable[[Side], np.ndarray], case: str, required: bool = False
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the results of A and of B for one call, or None if one of them refuses it.

        Raises ValueError if B refuses a required call: it cannot be the declaration.
        """
        try:
            expected = call(self.b)
            again = call(self.b) if required and not self.difference.calls else expected
        except (Refused, Malformed) as error:
            if required:
                raise ValueError(
                    f"{self.b.name} cannot serve as the declaration: {case} fails with {error}"
                ) from error
            self.run.limit(f"B: {case}: refused ({error})")
            return None
        if again.shape != expected.shape or not np.array_equal(expected, again, equal_nan=True):
            raise ValueError(
                f"{self.b.name} cannot serve as the declaration: a repeated call ({case}) returns "
                "other values than the first"
            )
        try:
            actual = call(self.a)
        except Refused as error:
            if required:
                self.run.add("raises", case, str(error))
            else:
                self.run.limit(f"{case}: refused ({error}), accepted by B")
            return None
        except Malformed as error:
            self.run.add(error.code, str(error), case)
            return None
        if actual.shape != expected.shape:
            self.run.add("shape", f"the shape is {actual.shape}, in B {expected.shape}", case)
            return None
        self.difference.calls += 1
        same = np.array_equal(actual, expected, equal_nan=True)
        self.difference.identical = self.difference.identical and same
        return actual, expected

    def judge(
        self,
        call: Callable[[Side], np.ndarray],
        case: str,
        truth: Callable[[np.ndarray], Truth],
        required: bool = False,
        mask: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        """Judge one call: ``truth(expected)`` is B's result with its tolerance.

        Elements where B is not finite are not judged, nor those outside ``mask(expected)``.
        """
        found = self.called(call, case, required)
        if found is not None:
            actual, expected = found
            live = np.isfinite(expected)
            if mask is not None:
                live &= mask(expected)
            kept = np.where(live, expected, 0.0)
            self.judge_values(case, np.where(live, actual, 0.0), truth(kept), live)

    def judge_values(self, case: str, actual: np.ndarray, truth: Truth, live: Any = None) -> bool:
        """Judge the results of one call."""
        right = self.run.judge("compared with B", case, actual, self.widened(truth), live)
        if not right:
            self.difference.off.append(case)
        return right

    def widened(self, truth: Truth) -> Truth:
        """Return ``truth`` with twice the tolerance if two errors may add up."""
        size = 2.0 if self.both else 1.0
        return replace(truth, terms=size * truth.terms, angle=size * truth.angle)

    def align(self) -> None:
        """Call both functions with the forms of positions that both accept."""
        sides = [s.access for s in (self.a, self.b) if isinstance(s.access, Access | TableAccess)]
        common = max((s.mode for s in sides), key=_MODES.index)
        for access in sides:
            access.mode = common

    def within(self, positions: np.ndarray) -> np.ndarray:
        """Return the positions that both functions accept."""
        for side in (self.a, self.b):
            assert side.access is not None
            if positions.size:
                positions = side.access.within(positions)
        return positions

    def reach(self, wanted: int) -> int:
        """Return the largest position up to ``wanted`` that both functions accept."""
        for side in (self.a, self.b):
            assert side.access is not None
            wanted = side.access.reach(wanted)
        return wanted


def sampled(two: Two) -> list[int]:
    """Return the contexts whose logits are compared, as long as both functions accept them.

    Short functions get more of the short ones, so that there are ``FEWEST``.
    """
    longest = two.reach(_SAMPLED[-1] - 1) + 1
    found = {n for n in _SAMPLED if n <= longest}
    if found:
        found.add(longest)
    if found and len(found) < FEWEST:
        found |= {*np.linspace(_SAMPLED[0], longest, FEWEST, dtype=int).tolist()}
    return sorted(found)


def judged(two: Two, below: int) -> np.ndarray:
    """Return the positions at which results were judged: logits must agree there too."""
    first = two.difference.first
    near = [] if first is None else [np.arange(max(first - 2, 0), first + 3)]
    windows = [np.arange(start, start + 9) for start in WINDOWS]
    every = np.unique(np.concatenate([GENERIC, *windows, *near]))
    return np.asarray(every[every < below])


def search(two: Two, error: Callable[[np.ndarray], np.ndarray]) -> None:
    """Record the first position with an ``error`` that is visible."""
    two.difference.what = "position"
    highest = two.reach(REPORTED[-1] - 1)
    rounding = two.visible - VISIBLE
    found = first_visible(error, highest, rounding, two.run.settings.reduced)
    two.difference.first, two.difference.every = found.position, found.first


def normwise(value: np.ndarray, axes: Any = None) -> Truth:
    """Return ``value`` with one size for its elements along ``axes``: the largest of them."""
    size = np.abs(value).max(axis=axes, keepdims=True, initial=0.0)
    terms = np.broadcast_to(size, value.shape).astype(np.float64)
    return Truth(np.asarray(value, np.float64), terms, np.zeros_like(terms))
