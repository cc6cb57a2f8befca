"""The steps of a comparison: identify both functions, call both, judge one against the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.check import check, make_run
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.report import ERROR, Report
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.conformance.identify import hints
from posenc_ref.conformance.identify.adapted.views import VIEWS, View
from posenc_ref.conformance.identify.card import Card, Unidentified
from posenc_ref.conformance.identify.function import declaration, identify_exactly
from posenc_ref.conformance.oracle.found import Found

from . import biases, rotations, tables
from .comparison import AGREE, DIFFER, LOGITS_AGREE, Comparison, Difference
from .findings import against_measured, beyond, convert, excuse, explain
from .found import found
from .inputs import calls
from .side import Side, Two
from .values import compare_values
from .words import differences

_CHANNELS = ("apply", "scores", "add")
#: The sizes of the last axis of x to try if none is given.
_HEAD_DIMS = (64, 128, 32, 80, 96, 256, 16, 8, 512, 768, 1024)


@dataclass
class Comparing:
    """The comparison of A and B on their surface, and on the surface that identify measures."""

    a: Implementation
    b: Implementation
    options: dict[str, Any]
    sizes: dict[str, Any]
    strict: bool = False  #: whether tensors that differ fail even if every logit agrees

    @property
    def surface(self) -> str:
        """The surface of both functions."""
        return self.a.surface

    @property
    def view(self) -> View:
        """How the functions are seen by ``identify``; as they are, if it knows their surface."""
        return VIEWS.get(self.surface) or View(self.surface, (lambda fn, library, layout, dim: fn,))

    @property
    def _size(self) -> int | None:
        """The size of the last axis of x, or None if the function takes no x."""
        takes_x = {self.surface, self.view.surface} & set(_CHANNELS)
        return self.sizes["head_dim"] if takes_x else None

    def compared(self) -> Comparison:
        """Identify both functions, make the same calls to both, and return the comparison."""
        limits = self._head_dim()
        card_a, card_b = (self._card(fn) for fn in (self.a, self.b))
        two = self._two()
        like = self._like(two.b, card_b)
        judged = self._judged_b(card_b, like)
        encoding = judged[0] if judged is not None and judged[1].passed else None
        if encoding is not None and card_a is not None and card_b is not None:
            encoding = _shown(encoding, card_a, card_b)
        two.both = encoding is not None
        self._trace(two, like, card_b)
        traced = bool(two.run.failures or two.run.report.codes)
        if encoding is not None:
            report = self._check(self.a, encoding)
            if isinstance(encoding, Found) and card_a is not None:
                against_measured(report, encoding, card_a, two.b.run.driver)
            report.executed |= two.run.report.executed
            if "shape" in two.run.report.codes:  # the check may take other sizes for a mistake
                report.findings = list(two.run.report.findings)
            if traced and report.passed and (self.strict or not two.difference.logits):
                beyond(report, two)
        else:
            if traced and judged is not None and not isinstance(judged[0], Found):
                explain(two.run, self._check(self.a, judged[0]), judged, self.b.name)
            report = self._finished(two, traced)
        if traced and two.difference.logits:
            excuse(report, self.b.name, two.difference, self.strict)
        result = Comparison(**vars(report))
        result.subject, result.encoding = self.a.name, self._declared(card_b, judged, encoding)
        ways = [f"{side}: {fn.how}" for side, fn in (("A", self.a), ("B", self.b)) if fn.how]
        result.called = "; ".join(dict.fromkeys(ways))
        result.difference = two.difference
        result.agreement = (
            AGREE if not traced else LOGITS_AGREE if two.difference.logits else DIFFER
        )
        own = [text for text in two.b.run.report.limits if not text.startswith("B: ")]
        result.limits = list(dict.fromkeys([*limits, *result.limits, *(f"B: {t}" for t in own)]))
        if card_a is not None and card_b is not None:
            result.differs = differences(card_a, card_b)
            if traced:
                convert(result, two, card_a, like, encoding is not None, self.surface)
        return result

    def _head_dim(self) -> list[str]:
        """Choose head_dim if it is needed and not given; return a sentence about it."""
        if self.sizes["head_dim"] or not {self.surface, self.view.surface} & set(_CHANNELS):
            return []
        taken = []
        for size in _HEAD_DIMS:
            sides = [self.a, self.b]
            if self.surface != "add":
                sides = [self._view(fn, self.view.makers[0]) for fn in sides]
            if all(_accepts(self._run(one, head_dim=size), size) for one in sides):
                taken.append(size)
        if not taken:
            why = [f"; {fn.name}: {text}" for fn in (self.a, self.b) for text in self._hints(fn)]
            raise ValueError(
                f"head_dim must be given: {self.a.name} and {self.b.name} accept none of "
                f"{', '.join(map(str, sorted(_HEAD_DIMS)))} in common{''.join(why)}"
            )
        self.sizes["head_dim"] = taken[0]
        if len(taken) == 1:
            return []
        others = ", ".join(map(str, taken[1:]))
        return [f"head_dim {taken[0]} is compared; both functions also accept {others}"]

    def _hints(self, fn: Implementation) -> list[str]:
        """Return what a function seems to need, from its signature and from other calls."""
        found = hints.for_apply(self._run(fn), _HEAD_DIMS[0]) if self.surface == "apply" else []
        return [*found, *hints.arguments(fn.call, self.surface)]

    def _view(self, fn: Implementation, maker: Any) -> Implementation:
        """Return the function as one of the surface that ``identify`` measures."""
        if self.surface not in VIEWS:
            return fn
        library = self._run(fn).driver.backend
        call = maker(fn.call, library, fn.tensor_layout, self.sizes["head_dim"] or 0)
        return replace(fn, call=call, surface=self.view.surface, factory=None)

    def _run(self, fn: Implementation, **sizes: Any) -> Run:
        return make_run(fn, None, fn.surface, **{**self.sizes, **sizes}, **self.options)

    def _card(self, fn: Implementation) -> Card | None:
        """Return the identity card of a function, or None if its surface has none."""
        if not SURFACES[self.view.surface].identify:
            return None
        one = self._view(fn, self.view.makers[0])
        sizes = {**self.sizes, "head_dim": self._size}
        return identify_exactly(one, one.surface, **sizes, **self.options)

    def _two(self, maker: int = 0) -> Two:
        """Return both functions, as seen by ``identify``."""
        sides = []
        for fn in (self.a, self.b):
            one = self._view(fn, self.view.makers[maker])
            sides.append(Side(fn.name, self._run(one), one.surface))
        return Two(sides[0], sides[1], Difference())

    def _like(self, side: Side, card: Card | None) -> Any:
        """Return B's encoding, or the nearest one, or its measured rotation, or None."""
        if card is None:
            return None
        if card.encoding is not None or side.surface != "apply" or not card.frequencies.size:
            return card.encoding
        rotations.open_access(side)
        return found(side, card)

    def _judged_b(self, card: Card | None, like: Any) -> tuple[Any, Report] | None:
        """Return the encoding to declare, and the check of B against it."""
        if card is None or like is None:
            return None
        if card.encoding is None:
            return self.view.encoding(like), self._check(self.b, self.view.encoding(like))
        encoding = self.view.encoding(declaration(card, self._size))
        if self.surface not in VIEWS and card.report is not None and not self.strict:
            return encoding, card.report
        return encoding, self._check(self.b, encoding)

    def _check(self, fn: Implementation, encoding: Any) -> Report:
        size = self._size if isinstance(encoding, Rotary) else self.sizes["head_dim"]
        return check(
            fn,
            encoding,
            self.surface,
            head_dim=size,
            name=fn.name,
            strict=self.strict,
            **self.options,
        )

    def _trace(self, two: Two, like: Any, card: Card | None) -> None:
        """Make the same calls to both functions."""
        known = like if isinstance(like, Rotary) else None
        try:
            match self.view.surface:
                case "apply":
                    self._rotations(two, known)
                case "cos_sin":
                    tables.compare_cos_sin(two, like)
                case "frequencies":
                    tables.compare_frequencies(two, like)
                case "table":
                    tables.compare_table(two, like)
                case "slopes":
                    biases.compare_slopes(two)
                case "bias":
                    biases.compare_biases(two)
                case "bucket":
                    biases.compare_buckets(two)
                case "scores":
                    assert card is not None
                    biases.compare_scores(two, card)
            if self.surface in VIEWS or not SURFACES[self.surface].identify:
                a, b = (
                    Side(fn.name, replace(self._run(fn), ledger=seen.run.ledger), self.surface)
                    for fn, seen in ((self.a, two.a), (self.b, two.b))
                )
                own = Two(a, b, two.difference, two.both)
                compare_values(own, calls(self._run(self.a)), self.surface not in VIEWS)
        except (Refused, Malformed, Unidentified) as error:
            two.run.add("raises", "a call fails, although a similar call was accepted", str(error))

    def _rotations(self, two: Two, like: Rotary | None) -> None:
        rotations.judge_rotations(two, like)
        if two.run.report.codes:
            return
        keys = two
        if len(self.view.makers) > 1:
            keys = self._two(1)
            keys.a.run = replace(keys.a.run, ledger=two.a.run.ledger)
            keys.difference, keys.both = two.difference, two.both
            rotations.judge_rotations(keys, like)
        rotations.judge_logits(two, keys, like)

    def _finished(self, two: Two, traced: bool) -> Report:
        """Return the report of the calls, where B's results are the reference."""
        run = two.run
        run.report.required = ("compared with B",)
        if traced and not run.report.codes:
            first = max(run.failures, key=lambda f: f.score)
            run.add(
                "inaccurate",
                f"results differ from those of {self.b.name} by more than rounding, and no named "
                "cause explains it",
                first.place.replace("truth", "declared"),
                remedy="Compare both functions at the printed case, step by step.",
            )
        return run.finish()

    def _declared(self, card: Card | None, judged: tuple[Any, Report] | None, encoding: Any) -> str:
        """Return what B is, in words."""
        if encoding is not None:
            return f"{self.b.name}, which is {encoding!r}"
        known = ""
        if card is not None and card.encoding is not None:
            # The card is that of the queries; the check is of queries and keys.
            own = [f.code for f in card.deviations if f.severity == ERROR]
            codes = dict.fromkeys([*own, *([] if judged is None else judged[1].codes)])
            known = f" (nearest to {card.encoding!r}, but: {', '.join(codes)})"
        return f"{self.b.name}, whose results are the reference{known}"


def _accepts(run: Run, dim: int) -> bool:
    x = run.random((2, 3, 4, dim))
    try:
        if run.report.surface == "apply":
            return bool(np.isfinite(run.driver.apply(x, np.arange(4))).all())
        run.driver.call(*((x[0],) if run.report.surface == "add" else (x, x)))
    except (Refused, Malformed):
        return False
    return True


def _shown(encoding: Any, a: Card, b: Card) -> Any:
    """Return B's encoding with the layout of A if B's tables do not show a layout."""
    blind = any("does not show which channels" in text for text in b.unknown)
    layout = getattr(a.encoding, "layout", None)
    return encoding.replace(layout=layout) if blind and layout else encoding
