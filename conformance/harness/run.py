"""One run of the suite: the judged function, the declared encoding, the settings and the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, TINY, Truth, budget

from . import floor
from .driver import Driver, Malformed, Refused
from .foreign import said
from .implementation import Declared
from .ledger import DIRECT, Failure, Ledger, named
from .located.locate import Place, locate
from .located.record import Record, recorded
from .located.remedy import where_to_look
from .pace import ENDED, Pace
from .probes import dense
from .report import ERROR, NOTE, Report
from .signatures import SIGNATURES, Surface

#: In the evidence of a mistake whose prediction was compared with every call.
PREDICTS = "the mistake predicts"
#: In the evidence of a rule that further calls have confirmed, that predicts all wrong results, or
#: that says for which calls it is.
PLACED = (
    "further call agrees", "further calls agree", " in calls of up to ", "the rule predicts all",
)  # fmt: skip
#: What a judge has not done that raised before its end.
WHOLE = "the whole judging"


@dataclass(frozen=True)
class Settings:
    """The arguments of ``check`` that do not concern how the function is called."""

    angles: str | None = None  #: the required accuracy of angles (accuracy.ANGLES)
    precision: str | None = None
    max_position: int | None = None
    seed: int = 0
    head_dim: int | None = None
    few: bool = False  #: fewer shapes, calls and positions, where calls are expensive
    strict: bool = False  #: whether tensors must agree even if every logit does
    accept_limits: bool = False  #: whether a function may refuse more than ``floor`` allows
    pace: Pace = field(default_factory=Pace, compare=False)  #: what the function's calls cost

    @property
    def reduced(self) -> bool:
        """Return whether fewer shapes, calls and positions are judged."""
        return self.few or self.pace.slow

    def allows(self, position: int) -> bool:
        """Return whether a position may be judged (``max_position``)."""
        return self.max_position is None or position <= self.max_position

    def up_to(self, position: int) -> int:
        """Return the position, or ``max_position`` if that is smaller."""
        return position if self.max_position is None else min(position, self.max_position)


@dataclass(frozen=True)
class Run:
    """One run: the function, the declared encoding, the settings and the ledger."""

    driver: Driver
    encoding: Any  #: an Encoding, or None if only properties are judged
    settings: Settings
    ledger: Ledger

    @property
    def report(self) -> Report:
        """Return the report that the ledger writes."""
        return self.ledger.report

    @property
    def surface(self) -> Surface:
        """Return the record of the surface."""
        return SIGNATURES[self.report.surface]

    @property
    def failures(self) -> list[Failure]:
        """Return the failed cases so far."""
        return self.ledger.failures

    @property
    def dtype(self) -> str:
        """Return the dtype whose roundoff sets the tolerance: the coarsest of input and results."""
        out = self.driver.out_dtypes & set(ROUNDOFF)
        return max(out | {self.driver.dtype}, key=lambda name: ROUNDOFF[name])

    @property
    def coarse(self) -> str:
        """Return the coarser of the results' dtype and the declared ``precision``."""
        return max((self.dtype, self.settings.precision or self.dtype), key=ROUNDOFF.__getitem__)

    @property
    def budget(self) -> float:
        """Return the largest score that passes."""
        return budget(self.dtype, self.settings.precision)

    def unit(self, truth: Truth) -> np.ndarray:
        """Return the error unit of every element."""
        s = self.settings
        unit = truth.unit(self.dtype, angles=s.angles, precision=s.precision)
        return np.broadcast_to(unit, truth.value.shape)

    def random(self, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
        """Return normal random numbers, rounded to the dtype of the function's input."""
        return self.driver.rounded(dense(shape, self.settings.seed + seed))

    def scores(self, actual: np.ndarray, truth: Truth, angles: str | None = None) -> np.ndarray:
        """Return the score (error over unit) of every element."""
        s = self.settings
        return truth.score(
            actual, angles=angles or s.angles, precision=s.precision, dtype=self.dtype
        )

    def fits(self, actual: np.ndarray, truth: Truth) -> bool:
        """Return whether every element is within the tolerance."""
        return bool((self.scores(actual, truth) <= self.budget).all())

    def judge(
        self,
        check: str,
        case: str,
        actual: np.ndarray,
        truth: Truth,
        mask: Any = None,
        at: np.ndarray | None = None,
    ) -> bool:
        """Judge one case against the reference; record a failure for the diagnosis.

        ``at`` are the positions of the tokens of the result, (S,) or (B, S), if it has tokens.
        """
        made = self.driver.taken()
        if actual.shape != truth.value.shape:
            self.failed(check, case, np.inf, f"shape {actual.shape}, not {truth.value.shape}")
            return False
        score = self.scores(actual, truth)
        if mask is not None:
            score = np.where(mask, score, 0.0)
        self.count(check)
        self.ledger.judged.add(named(check, case))
        if score.size == 0:
            return True
        axes = self.surface.axes
        if check != "properties":  # products of several results
            self.ledger.evidence.add(case, axes, score > self.budget, mask, made, at)
        top = largest(score)
        worst = float(score[top])
        where = f"case {case!r} at index {top}: {actual[top]:.9g}, truth {truth.value[top]:.9g}"
        self.ledger.score(worst, where)
        if self.ledger.sample is None:
            unit = self.unit(truth)
            live = (unit > 0) if mask is None else (unit > 0) & mask
            if live.any() or not unit.any():
                self.ledger.sample = (actual, truth, live)
        if worst > self.budget:
            self.failed(check, case, worst, where, not np.isfinite(actual[top]))
            return False
        return True

    def note(self, case: str, actual: np.ndarray, truth: Truth) -> None:
        """Judge an optional input; if only such inputs fail, the failure is a note.

        Negative positions are such an input (as an index, they count from the end of a table),
        fractional ones (as an index, they are truncated), and one position for several axes.
        """
        self.count("optional inputs")
        # Angles reduced modulo 2 pi may be as large as that: a small negative one is rounded so.
        reduced = replace(truth, angle=truth.angle + 2 * np.pi * truth.amplitude)
        score = self.scores(actual, reduced)
        if score.size and float(score.max()) > self.budget:
            at = largest(score)
            self.ledger.noted[case] = f"index {at}: {actual[at]:.6g}, truth {truth.value[at]:.6g}"

    def count(self, check: str, cases: int = 1) -> None:
        """Count ``cases`` judged cases of ``check``."""
        self.ledger.count(check, cases)

    def reached(self, position: int) -> None:
        """Record the highest position judged so far."""
        self.ledger.reached(position)

    def failed(
        self, check: str, case: str, score: float, place: str, nonfinite: bool = False
    ) -> None:
        """Record a failed case for the diagnosis."""
        self.ledger.failed(check, case, score, place, nonfinite)

    def add(self, code: str, message: str, evidence: str = "", **kwargs: Any) -> None:
        """Report a finding, once per code; see :meth:`Ledger.add`."""
        self.ledger.add(code, message, evidence, **kwargs)

    def raised(self, message: str, error: Exception, **kwargs: Any) -> None:
        """Report a call that raises; one that the suite itself does not make is a limit."""
        if isinstance(error, Refused) and error.own:
            self.limit(f"the judging ends here: the suite makes no such call ({error})")
        else:
            self.add("raises", message, str(error), **kwargs)

    def limit(self, text: str) -> None:
        """Report that the function refuses an optional input, and how the run continues."""
        self.ledger.limit(text)

    def recorded(
        self, actual: np.ndarray, truth: Truth, at: np.ndarray | None = None
    ) -> Record | None:
        """Return which elements of a further result are wrong; no failure is recorded."""
        off = self.scores(actual, truth) > self.budget
        return recorded("", self.surface.axes, off, None, self.driver.taken(), at)

    def located(self, *, single: bool = False) -> Place | None:
        """Return where the judged results are wrong, or None if none is, or nothing is known.

        With ``single``, the result is None as well if no single rule says where.
        """
        ledger, pairs = self.ledger, getattr(self.encoding, "pairs", None)
        known = len(ledger.evidence.records)
        if ledger.place is None or ledger.place[0] != known:
            channels = np.array(pairs()) if callable(pairs) else None
            found = locate(ledger.evidence.records, ledger.ask, channels, single=single)
            if single:  # the search for two rules is dear
                return found
            ledger.place = known, found
        place = ledger.place[1]
        return None if single and place is not None and len(place.rules) != 1 else place

    def where(self, *, extent: bool = False) -> str:
        """Return the place of the wrong elements as the end of a sentence.

        It is empty if no rule is found; with ``extent``, it then says in how many results they are.
        """
        place = self.located()
        return f"; {place.text}" if place is not None and (place.rules or extent) else ""

    def control(self) -> None:
        """Judge one output with one element changed, and with a NaN: both must be rejected.

        If either is accepted, the check is vacuous, and the verdict is ``error``.
        """
        controls = self.report.controls
        if self.ledger.sample is None:
            if not (self.report.codes or self.report.missing or self.failures):
                controls["values: at least one case is compared"] = False
            return
        actual, truth, live = self.ledger.sample
        at = tuple(np.argwhere(live)[-1]) if live.any() else tuple(0 for _ in actual.shape)
        kind = actual.dtype if actual.dtype.kind in "fc" else np.dtype(np.float64)
        moved, holed = np.array(actual, kind), np.array(actual, kind)
        step = 2 * self.budget * self.unit(truth)[at] if live.any() else 1.0
        moved[at], holed[at] = truth.value[at] + step, np.nan
        changed = {"one element off by twice the tolerance": moved, "one NaN": holed}
        for name, spoiled in changed.items():
            controls[f"values: {name}"] = bool(self.scores(spoiled, truth)[at] > self.budget)

    def explain(self, diagnose: Callable[..., object], *args: Any) -> None:
        """Run a diagnosis; if it raises on malformed results, the verdict stands.

        A slow function is called a few times only.
        """
        try:
            with self.driver.pace.searching():
                diagnose(self, *args)
        except Refused as error:
            if ENDED not in str(error):
                raise
        except Malformed:
            raise
        except Exception as error:
            self.limit(f"the diagnosis broke off ({said(error)}); please report")

    def broke_off(self, error: Exception) -> None:
        """Report that the judge itself raised: what it has found stands, but nothing conforms."""
        self.report.required += (WHOLE,)
        self.limit(f"the judging broke off ({said(error)}); please report")

    def finish(self) -> Report:
        """Return the complete report: negative controls, dtypes, overwritten inputs, accuracy."""
        self.control()
        self._small()
        self._floor()
        self._dtypes()
        if self.ledger.relate is not None and self.failures and not self.report.codes:
            self.explain(lambda run: run.ledger.relate())
        self._qualify()
        limits, said = self.report.limits, self.driver.pace.said()
        limits[:] = [text for text in limits if ENDED not in text]
        if said:
            self.limit(said)
        if self.driver.mutated and not self.driver.inplace:
            self.add(
                "mutates-input",
                f"the input {self.driver.mutated} is written over",
                f"{self.driver.mutated} compared with a copy taken before the call",
            )
        return self.ledger.finish(
            self.budget,
            lambda: self.where(extent=True),
            lambda: where_to_look(self.located()),
        )

    def _qualify(self) -> None:
        """Add the place to the first error if only some rows, heads, tokens or calls are wrong.

        A mistake that predicts the results of all calls says so itself.
        """
        errors = [f for f in self.report.findings if f.severity == ERROR]
        if not (self.failures and errors):
            return
        if any(text in errors[0].evidence for text in (PREDICTS, *PLACED)):
            return
        place = self.located(single=True)
        if place is None or place.text in str(errors[0]):
            return
        if len(place.rules) == 1 and any(atom.partial for atom in place.rules[0].atoms):
            at = self.report.findings.index(errors[0])
            evidence = f"{errors[0].evidence}; {place.text}"
            self.report.findings[at] = replace(errors[0], evidence=evidence)

    def _small(self) -> None:
        """Judge nothing if the declared values have not the full precision of the dtype."""
        if self.ledger.sample is None:
            return
        actual, truth, live = self.ledger.sample
        size, found = (np.abs(part[live]).max(initial=0.0) for part in (truth.value, actual))
        if not (0 < size < TINY[self.dtype] and found < TINY[self.dtype]):
            return
        self.report.required += ("values of normal size",)
        self.limit(
            f"the declared values are at most {size:.3g}, below the normal numbers of "
            f"{self.dtype}: judge in float64 (dtype='float64'), or with larger parameters"
        )
        self.failures.clear()
        findings, controls = self.report.findings, self.report.controls
        findings[:] = [f for f in findings if f.code in DIRECT or f.severity == NOTE]
        for name in [name for name, rejected in controls.items() if not rejected]:
            del controls[name]  # the change is below the spacing of the dtype

    def _floor(self) -> None:
        """Require what the function refused, unless the caller accepts its limits."""
        unmet = floor.missing(self.ledger.position, self.ledger.tokens)
        if unmet and not self.settings.accept_limits and not (self.report.codes or self.failures):
            self.report.required += unmet
            self.limit(floor.UNMET)

    def _dtypes(self) -> None:
        declared = self.driver.dtype
        for name in sorted(self.driver.out_dtypes):
            floats = self.surface.takes_floats
            if not floats and name == self.settings.precision:
                continue
            message = f"{'the input is' if floats else 'declared'} {declared}, the result is {name}"
            if ROUNDOFF.get(name, 0.0) > ROUNDOFF[declared]:
                self.add("dtype", message, f"result dtype {name}")
            elif 0 < ROUNDOFF.get(name, 0.0) < ROUNDOFF[declared] and self.driver.keeps_dtype:
                self.add("dtype", message, f"result dtype {name}", severity=NOTE)

    def floats_only(self) -> bool:
        """Return whether every result so far has a floating dtype; report a finding if not."""
        for name in sorted(self.driver.out_dtypes - set(ROUNDOFF)):
            remedy = "Return floating numbers, of the dtype of the input if there is one."
            text, needed = f"the result has dtype {name}", "a floating dtype is needed"
            self.add("dtype", text, needed, remedy=remedy)
            return False
        return True


def largest(values: np.ndarray) -> tuple[int, ...]:
    """Return the index of the largest element."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(values)), values.shape))


def describe(encoding: Declared) -> str:
    """Return the declared encoding as one line."""
    return "nothing (properties only)" if encoding is None else repr(encoding)
