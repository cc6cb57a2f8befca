"""The function ``compare``: judge a function against another one, which is the declaration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.check import check, make_run
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.report import ERROR, NOTE, Finding, Report
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.conformance.identify.card import Card, Unidentified
from posenc_ref.conformance.identify.convert.conversion import ARGUMENTS
from posenc_ref.conformance.identify.function import add_conversion, declaration, identify
from posenc_ref.conformance.sequences.judge_qk import MAYBE_HARMLESS

from . import biases, rotations, tables
from .comparison import AGREE, DIFFER, LOGITS_AGREE, Comparison, Difference
from .found import Found, found
from .inputs import calls
from .side import Side, Two
from .views import VIEWS, View
from .words import building, differences

#: Findings about tensors that may leave the logits as declared.
_OF_TENSORS = (*MAYBE_HARMLESS, "layout", "not-a-rotation", "inaccurate")
_CHANNELS = ("apply", "scores", "add")
#: The sizes of the last axis of x to try if none is given.
_HEAD_DIMS = (64, 128, 32, 80, 96, 256, 16, 8, 512, 768, 1024)


def compare(
    fn_a: Callable[..., Any],
    fn_b: Callable[..., Any],
    surface: str | None = None,
    *,
    head_dim: int | None = None,
    axes: int = 1,
    backend: str | tuple[str | None, str | None] | None = None,
    dtype: str = "float32",
    tensor_layout: str | tuple[str | None, str | None] | None = None,
    device: str | None = None,
    max_position: int | None = None,
    seed: int = 0,
    names: tuple[str | None, str | None] = (None, None),
) -> Comparison:
    """Judge ``fn_a`` against ``fn_b``, which is the declaration, and say how to convert it.

    If :func:`identify` finds the encoding of ``fn_b``, ``fn_a`` is checked against that encoding.
    If not, the results of ``fn_b`` are the reference: ``fn_a`` conforms if it has the same
    deviations. Both functions are called with the same inputs in any case.

    Parameters
    ----------
    fn_a, fn_b : callable
        As for :func:`check`; an :class:`Implementation` includes its surface and sizes.
    surface : str, optional
        How both functions are called; by default that of an :class:`Implementation`, else
        ``apply``.
    head_dim : int, optional
        Size of the last axis of x, or of q and k; by default the first usual size that both
        functions accept.
    axes : int
        Number of position axes; with several, ``apply`` takes positions (A, B, S).
    backend, tensor_layout : str or tuple, optional
        As for :func:`check`; a tuple has one value for each function.
    dtype, device, max_position, seed
        As for :func:`check`.
    names : tuple
        The names of the functions in the report.

    Returns
    -------
    Comparison
        A :class:`Report` with ``.agreement``, ``.difference``, ``.differs``, ``.conversion`` and
        ``.converted``; print it to read it.

    Raises
    ------
    TypeError, ValueError
        Invalid settings, or ``fn_b`` cannot be called as the surface requires.
    """
    bound = [
        _bound(fn, surface, *values)
        for fn, *values in zip(
            (fn_a, fn_b), _each(backend), _each(tensor_layout), names, strict=True
        )
    ]
    wanted = [one.surface for one in bound]
    if wanted[0] != wanted[1]:
        raise ValueError(
            f"surface must be the same for both functions, got {wanted[0]!r} for the first and "
            f"{wanted[1]!r} for the second: wrap one of them"
        )
    options = {"dtype": dtype, "device": device, "max_position": max_position, "seed": seed}
    sizes = {"head_dim": head_dim or bound[0].head_dim or bound[1].head_dim, "axes": axes}
    with np.errstate(all="ignore"):  # errors of the functions become findings
        return _Comparing(bound[0], bound[1], options, sizes).compared()


def _each(value: Any) -> tuple[Any, Any]:
    return value if isinstance(value, tuple) else (value, value)


def _bound(
    fn: Callable[..., Any],
    surface: str | None,
    backend: str | None,
    tensor_layout: str | None,
    name: str | None,
) -> Implementation:
    """Return the function with the settings of its calls."""
    if not callable(fn):
        raise TypeError(f"fn_a and fn_b must be callable, got {type(fn).__name__}")
    if not isinstance(fn, Implementation):
        own = str(getattr(fn, "__name__", type(fn).__name__))
        fn = Implementation(fn, surface or "apply", own)
    surface = surface or fn.surface
    if surface not in SURFACES:
        raise ValueError(f"surface must be one of {', '.join(SURFACES)}, got {surface!r}")
    return replace(
        fn,
        surface=surface,
        encoding=None,  # B's results are the declaration, not its configuration
        name=name or fn.name,
        backend=backend or fn.backend,
        tensor_layout=tensor_layout or fn.tensor_layout,
    )


@dataclass
class _Comparing:
    """The comparison of A and B on their surface, and on the surface that identify measures."""

    a: Implementation
    b: Implementation
    options: dict[str, Any]
    sizes: dict[str, Any]

    @property
    def surface(self) -> str:
        """The surface of both functions."""
        return self.a.surface

    @property
    def view(self) -> View:
        """How the functions are seen by ``identify``; as they are, if it knows their surface."""
        return VIEWS.get(self.surface) or View(self.surface, (lambda fn, library, layout, dim: fn,))

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
                _unordered(report, encoding, card_a)
            report.executed |= two.run.report.executed
            if "shape" in two.run.report.codes:  # the check may take other sizes for a mistake
                report.findings = list(two.run.report.findings)
            if traced and report.passed and not two.difference.logits:
                _beyond(report, two)
        else:
            if traced and judged is not None and not isinstance(judged[0], Found):
                _explain(two.run, self._check(self.a, judged[0]), judged, self.b.name)
            report = self._finished(two, traced)
        if traced and two.difference.logits:
            _excuse(report, self.b.name, two.difference)
        result = Comparison(**vars(report))
        result.subject, result.encoding = self.a.name, self._declared(card_b, encoding)
        result.difference = two.difference
        result.agreement = AGREE if not traced else LOGITS_AGREE if two.difference.logits else DIFFER
        own = [text for text in two.b.run.report.limits if not text.startswith("B: ")]
        result.limits = list(dict.fromkeys([*limits, *result.limits, *(f"B: {t}" for t in own)]))
        if card_a is not None and card_b is not None:
            result.differs = differences(card_a, card_b)
            if traced:
                _convert(result, two, card_a, like, encoding is not None)
        return result

    def _head_dim(self) -> list[str]:
        """Choose head_dim if it is needed and not given; return a sentence about it."""
        if self.sizes["head_dim"] or not {self.surface, self.view.surface} & set(_CHANNELS):
            return []
        taken = []
        for size in _HEAD_DIMS:
            sides = (self.a, self.b)
            if self.surface != "add":
                sides = tuple(self._view(fn, self.view.makers[0]) for fn in sides)
            if all(_accepts(self._run(one, head_dim=size), size) for one in sides):
                taken.append(size)
        if not taken:
            raise ValueError(
                f"head_dim must be given: A and B accept none of {', '.join(map(str, _HEAD_DIMS))} "
                "in common"
            )
        self.sizes["head_dim"] = taken[0]
        if len(taken) == 1:
            return []
        others = ", ".join(map(str, taken[1:]))
        return [f"head_dim {taken[0]} is compared; both functions also accept {others}"]

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
        return identify(one, one.surface, **self.sizes, **self.options)

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
        encoding = self.view.encoding(declaration(card, self.sizes["head_dim"]))
        if self.surface not in VIEWS and card.report is not None:
            return encoding, card.report
        return encoding, self._check(self.b, encoding)

    def _check(self, fn: Implementation, encoding: Any) -> Report:
        return check(
            fn, encoding, self.surface, head_dim=self.sizes["head_dim"], name=fn.name, **self.options
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
                sides = (Side(fn.name, self._run(fn), self.surface) for fn in (self.a, self.b))
                own = Two(*(replace(s, run=replace(s.run, ledger=t.run.ledger))
                            for s, t in zip(sides, (two.a, two.b), strict=True)), two.difference)
                own.both = two.both
                biases.compare_values(own, calls(self._run(self.a)))
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

    def _declared(self, card: Card | None, encoding: Any) -> str:
        """Return what B is, in words."""
        if encoding is not None:
            return f"{self.b.name}, which is {encoding!r}"
        known = ""
        if card is not None and card.encoding is not None:
            codes = dict.fromkeys(f.code for f in card.deviations if f.severity == ERROR)
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


def _unordered(report: Report, encoding: Found, a: Card) -> None:
    """Remove findings about frequencies if only the order of the pairs differs."""
    w, v = np.sort(np.abs(a.frequencies)), np.sort(encoding.frequencies())
    sigma = a.uncertainty.max(initial=0.0)
    if "layout" in report.codes and w.size == v.size and (np.abs(w - v) <= 8 * sigma).all():
        about = ("frequency-spacing", "sign")
        report.findings = [f for f in report.findings if f.code not in about]


def _explain(run: Run, report: Report, judged: tuple[Any, Report], name: str) -> None:
    """Report A's deviations from B's nearest encoding that B lacks, and B's that A lacks."""
    mine, its = ({(f.code, f.message): f for f in r.findings if f.severity == ERROR}
                 for r in (report, judged[1]))  # fmt: skip
    for key, finding in mine.items():
        if key not in its:
            text = f"against {judged[0]!r}, to which {name} is nearest: {finding.message}"
            _add(run, replace(finding, message=text))
    for key, finding in its.items():
        if key not in mine:
            text = f"{name} deviates from {judged[0]!r}, this function does not: {finding.message}"
            remedy = f"Mend {name}, or make this function deviate as well."
            _add(run, Finding(finding.code, text, finding.evidence, remedy=remedy))


def _add(run: Run, finding: Finding) -> None:
    if finding.code not in run.report.codes:
        run.report.findings.append(finding)


def _beyond(report: Report, two: Two) -> None:
    """Report differences in calls that the check of B's encoding does not make."""
    own = two.run.report.findings
    if not own:
        first = two.run.failures[0]
        text = f"results differ from those of {two.b.name}, whatever their encodings have in common"
        own = [Finding("inaccurate", text, first.place.replace("truth", "declared"))]
    report.findings += own


def _excuse(report: Report, name: str, difference: Difference) -> None:
    """Turn errors about tensors into notes: the logits of both functions agree."""
    errors = [f for f in report.findings if f.severity == ERROR]
    if not all(f.code in _OF_TENSORS for f in errors):
        return
    report.findings = [
        replace(f, severity=NOTE) if f.severity == ERROR else f
        for f in report.findings
        if f.code != "inaccurate"
    ]
    report.accuracy = None  # it is that of the tensors
    if "harmless-convention" not in [f.code for f in report.findings]:
        text = f"tensors differ from those of {name}, logits do not"
        text += ", up to a constant for each query" if difference.constant else ""
        report.findings.append(Finding("harmless-convention", text, severity=NOTE))


def _convert(result: Comparison, two: Two, a: Card, like: Any, exact: bool) -> None:
    """Add the steps that convert A to B, or to the encoding nearest to B."""
    if like is None:
        result.conversion = [f"cannot be converted: {two.b.name} has no known encoding"]
        return
    if not exact and not a.exact:
        result.conversion = ["change the function as the findings say"]
        return
    if a.surface not in ARGUMENTS:
        result.conversion = building(a.encoding, like)
        return
    if a.encoding is None and isinstance(like, Rotary) and two.a.surface == "apply":
        a.encoding = found(two.a, a)
    add_conversion(a, like)
    result.conversion, result.converted = a.conversion, a.converted
    if not exact:
        to = f"{two.b.name}'s nearest encoding, without its deviations"
        if not a.converted:
            result.conversion = [f"no change of inputs leads to {two.b.name}: this is {to}"]
        else:
            result.conversion.append(f"these steps lead to {to}")
    elif result.agreement == LOGITS_AGREE:
        result.conversion.insert(0, "logits agree; only to get equal tensors as well:")
