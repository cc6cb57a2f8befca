"""The function ``identify``: find a function's encoding from the results of calls alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from posenc_ref import Attention, Encoding, ModelEncoding, RoPE
from posenc_ref._text import class_name
from posenc_ref.conformance.calling import NoConvention, bind, takes
from posenc_ref.conformance.check import check, make_run
from posenc_ref.conformance.harness.accuracy import first_error
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.foreign import tame
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.nearest import did_you_mean
from posenc_ref.conformance.harness.pace import watch, watched
from posenc_ref.conformance.harness.report import ERROR, Report
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.fitted_parameters import is_rounded

from .adapted.viewed import EVERY, viewed
from .card import Card
from .defects import only_defect, prefer_defect
from .domain import narrowed
from .identifiers import IDENTIFIED, has_function, identifier, measured_as
from .natural.foreign import copied, made_from
from .natural.natural import Called, called, of_axes
from .plain.positions import confirm
from .precision import half_precision, half_result, looked_up
from .undeclared import best, or_table

#: The surfaces whose functions can be identified.
SURFACES = IDENTIFIED
#: Surfaces with inputs of ``head_dim`` channels.
_CHANNELS = tuple(
    name
    for name in IDENTIFIED
    if {name, measured_as(name)} & {"apply", "scores", "attention", "add"}
)
#: The note of a function that passes, whose convention is among the facts of the card.
HARMLESS = "harmless-convention"


def identify(
    fn: Callable[..., Any],
    surface: str | None = None,
    *,
    head_dim: int | None = None,
    axes: int = 1,
    to: Encoding | None = None,
    seconds: float | None = None,
    **options: Any,
) -> Card:
    """Identify the encoding that ``fn`` implements and return it as an identity card.

    Parameters
    ----------
    fn : callable
        As for :func:`check`; an :class:`Implementation` includes its surface and sizes.
    surface : str, optional
        Any surface of :func:`check`.  By default, that of the :class:`Implementation`, else as
        :func:`bind` finds out.
    head_dim : int
        Size of the last axis of x, or of q and k, on surfaces with such inputs.
    axes : int
        Number of position axes; with several, ``apply`` takes positions (A, B, S).
    to : Encoding, optional
        The encoding to convert the function to: ``.conversion`` lists the steps, or why there are
        none, and ``.converted`` has the code.
    seconds : float, optional
        The time for all calls.  When it is over, the card has what was found, and a line says
        which calls are missing.
    **options
        ``backend``, ``dtype``, ``tensor_layout``, ``device``, ``max_position``, ``factory``,
        ``seed`` and ``name`` as for :func:`check`.

    Returns
    -------
    Card
        ``.encoding`` (or None), ``.function``, ``.deviations``, ``.frequencies``, ``.uncertainty``,
        ``.aliases``, ``.used_by``, ``.by_length``, ``.unknown``, ``.to_json()``; print it.

    Raises
    ------
    TypeError, ValueError
        Invalid settings.  Errors of ``fn`` are noted on the card instead.
    """
    with watched(float("inf") if seconds is None else seconds) as limit:
        try:
            card = _identified(fn, surface, head_dim, axes, to, options)
        except ValueError:
            if not limit.left:
                raise
            name = str(options.get("name") or getattr(fn, "__name__", None) or class_name(fn))
            card = Card(name, surface or "apply", options.get("backend") or "numpy",
                        options.get("dtype") or "float32")  # fmt: skip
    if limit.left:
        card.limits.append(limit.said())
    return card


def _identified(
    fn: Callable[..., Any],
    surface: str | None,
    head_dim: int | None,
    axes: int,
    to: Encoding | None,
    options: dict[str, Any],
) -> Card:
    """Return the card of a function, on the surface that fits it best if none is given."""
    unbound: list[NoConvention] = []
    bound = issubclass(type(fn), Implementation)  # isinstance would read an attribute of it
    undeclared = surface is None and not bound

    def one(surface: str | None) -> Card:
        return _card(
            fn, surface, head_dim, axes, to, options,
            defects=True, unbound=unbound, guess=undeclared,
        )  # fmt: skip

    target: Any = copied(tame(fn))
    if bound:
        implementation = cast(Implementation, fn)
        target = made_from(implementation)
        declared = surface or (implementation.bound or {}).get("surface")
    else:
        declared = surface

    def another(found: Implementation) -> Card:
        size = found.head_dim or (head_dim if found.surface in _CHANNELS else None)
        return _card(found, found.surface, size, found.axes, to, _own(options), defects=True)

    def others() -> Called:
        if target is None or watch().left:
            return Called()
        return called(target, another, head_dim, axes, declared)

    if undeclared:
        fn = tame(fn)
        surfaces = SURFACES if head_dim is None else _CHANNELS
        return best(fn, one, surfaces, others, lambda: of_axes(target, another, head_dim))
    if surface == "cos_sin" and axes > 1:  # the surface has one axis: only the rotation has more
        seen = others()
        if seen.card is not None:
            return seen.card
    card = one(surface)
    if declared is None and target is not None:  # bound, but nobody said as what
        card = or_table(card, lambda: _card(target, "table", head_dim, axes, to, _own(options),
                                            defects=True))  # fmt: skip
    if card.found or card.broken or (card.answered and inspect.isroutine(fn)):
        return card
    seen = others()
    if seen.card is not None:
        return seen.card
    card.unknown += seen.words
    card.broken += [text for text in seen.broken if text not in card.broken]
    return card


def identify_exactly(
    fn: Callable[..., Any],
    surface: str | None = None,
    *,
    head_dim: int | None = None,
    axes: int = 1,
    **options: Any,
) -> Card:
    """Identify as :func:`identify`, but prefer an exact fit to a published rule with a defect."""
    return _card(fn, surface, head_dim, axes, None, options, defects=False)


def _card(
    fn: Callable[..., Any],
    surface: str | None,
    head_dim: int | None,
    axes: int,
    to: Encoding | None,
    options: dict[str, Any],
    *,
    defects: bool,
    unbound: list[NoConvention] | None = None,
    guess: bool = False,
) -> Card:
    """Return the card of a function on a surface.

    ``unbound`` gets the error if no convention fits on any surface, and spares the next search.
    With ``guess``, the usual sizes of heads are tried for logits, whose sizes nobody declared.
    """
    from . import hints, names  # slow to import

    unbound = [] if unbound is None else unbound
    fn = tame(fn)
    bound = fn if isinstance(fn, Implementation) else None
    if surface not in (None, *SURFACES):
        raise ValueError(f"surface must be one of {', '.join(SURFACES)}, got {surface!r}")
    as_it_is = surface is not None and inspect.isroutine(fn) and takes(fn, surface)
    if bound is None and not as_it_is:
        names_of = ("tensor_layout", "backend", "dtype", "name")
        given = {name: options[name] for name in names_of if options.get(name) is not None}
        try:
            if unbound:
                raise unbound[0]
            found = bind(fn, None, surface, head_dim=head_dim, axes=axes, **given)
        except NoConvention as error:
            if surface is None:
                unbound.append(error)
            if surface is None and (inspect.isclass(fn) or not takes(fn, "apply")):
                raise
        else:
            head_dim = head_dim or found.head_dim
            if found.how:
                fn = bound = found
    surface = surface or (bound.surface if bound else "apply")
    if surface not in SURFACES:
        near = did_you_mean(surface, SURFACES)
        raise ValueError(f"surface must be one of {', '.join(SURFACES)}, got {surface!r}{near}")
    head_dim = head_dim or (bound.head_dim if bound else None)
    run = make_run(fn, None, surface, head_dim=head_dim, axes=axes, **options)
    if surface == "add" and head_dim is None:
        head_dim = hints.width(run)
        run = replace(run, settings=replace(run.settings, head_dim=head_dim))
    if guess and surface == "scores" and head_dim is None:
        head_dim = next(iter(hints.head_dims(run, surface)), None)
        run = replace(run, settings=replace(run.settings, head_dim=head_dim))
    if surface in _CHANNELS and head_dim is None:
        raise ValueError(hints.no_head_dim(run, surface))
    report = run.report
    card = Card(report.subject, surface, report.backend, report.dtype)
    if report.called:
        card.facts["called"] = report.called
    with np.errstate(all="ignore"):
        try:
            narrow = narrowed(run) if surface == "apply" else None
            if narrow is not None:
                fn, options = narrow[0], _own(options)
                card.limits.append(narrow[1])
                run = make_run(fn, None, surface, head_dim=head_dim, axes=axes, **options)
            seen = viewed(run) if surface in EVERY else run
            coarse = half_precision(seen, measured_as(surface))
            if coarse is not None:
                run = replace(run, settings=replace(run.settings, precision=coarse))
            with watch().doing(f"the measurement as {surface!r}"):
                card.fill(identifier(surface), run)
            returned = half_result(run)
            if returned is not None:
                options = {**options, "precision": returned}
                card.facts["precision"] = f"results are {returned}"
            elif coarse is not None and not looked_up(card.encoding):
                options = {**options, "precision": coarse}
                card.facts["precision"] = f"values are rounded to {coarse}"
            if not card.found and surface not in _CHANNELS:
                card.unknown += hints.arguments(run.driver.fn, surface)
        except (Refused, Malformed) as error:
            own = isinstance(error, Refused) and error.own
            card.unknown.append(f"{'a call is missing' if own else 'a call failed'}: {error}")
            card.unknown += hints.for_tables(run, surface, error)
        except Exception as error:  # a fault of identify, which must not lose what is measured
            card.encoding, card.function = None, ""
            card.broke(f"the measurement as {surface!r}", error)
    card.answered = bool(run.driver.out_dtypes)
    card.limits += [text for text in report.limits if text not in card.limits]
    if has_function(surface):
        confirm(check(fn, None, surface, head_dim=head_dim, **options), card)
    else:
        _confirm(fn, run, card, options, defects)
    if isinstance(card.encoding, Encoding):  # no rule of positions, and no convolution
        card.used_by = names.used_by(card.encoding)
        if card.rule and not card.used_by:
            card.used_by = names.slices(card.encoding)
            card.closest = names.closest(card.encoding)
    if to is not None:
        add_conversion(card, to)
    return card


def _own(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a function in NumPy that makes the calls of another one."""
    return {k: v for k, v in options.items() if k not in ("backend", "tensor_layout", "device")}


def add_conversion(card: Card, to: Encoding, surface: str | None = None) -> None:
    """Write the steps that convert the function to ``to``, and their code, to the card.

    ``surface`` is that of the function, if the card was measured on a view of it.
    """
    from .convert.convert import convert

    if card.encoding is None:
        card.conversion = ["cannot be converted: the function has no known encoding"]
        return
    origin = card.origin if card.origin != getattr(card.encoding, "offset", 0.0) else 0.0
    found, fixed = card.encoding, {"position-origin"}
    if card.surface == "cos_sin" and isinstance(found, RoPE) and (card.frequencies < 0).all():
        found, fixed = found.replace(sign=-1), {*fixed, "sign"}
    advice = convert(found, to, surface or card.surface, origin, card.softmax_scale)
    wrong = [f.code for f in card.deviations if f.severity == ERROR and f.code not in fixed]
    if wrong:
        card.conversion.append(f"fix the deviations first: {', '.join(wrong)}")
    card.conversion += advice.steps
    card.converted = advice.code


def declaration(card: Card, dim: int | None) -> Encoding | ModelEncoding | Attention:
    """Return the encoding to check, with the measured softmax scale if it is not the default."""
    assert card.encoding is not None
    scale, e = card.softmax_scale, card.encoding
    if dim is None or (scale is not None and scale == e.own_scale(dim)):
        scale = None
    if card.surface == "attention":
        return Attention(e, causal="mask" in card.facts, softmax_scale=scale)
    if scale is None:
        return e
    return ModelEncoding(card.subject, encodings={"every": card.encoding}, softmax_scale=scale)


def _confirm(
    fn: Callable[..., Any], run: Run, card: Card, options: dict[str, Any], defects: bool
) -> None:
    """Check the function against the identified encoding; note findings as deviations.

    A function with state is checked on a fresh instance, or not at all without a factory.
    """
    card.deviations = list(run.report.findings)
    if card.deviations and card.encoding is not None:  # only state is reported before the check
        if run.driver.factory is None:
            card.unknown.append(
                "the check against the encoding did not run: calls change the results of later "
                "calls, and identify has called this instance; pass factory="
            )
            return
        fn = run.driver.fresh().fn
    head_dim = run.settings.head_dim
    # The calls that measured a slow function count among those that its check may make.
    pace = run.driver.pace if run.driver.pace.slow else None

    def judged(declared: Encoding | ModelEncoding | Attention, **others: Any) -> Report:
        size = None if card.surface == "add" else head_dim
        with watch().doing("the check against the encoding", pace):
            return check(fn, declared, card.surface, head_dim=size, **options | others)

    # What seems rounded may have been computed so: that is a defect of float32.
    checks: list[Callable[..., Report]] = [judged]
    if options.get("precision") and half_result(run) is None:
        checks.append(partial(judged, precision=None))
    if (defects and prefer_defect(card, *checks)) or card.encoding is None:
        return
    try:
        declared = declaration(card, head_dim)
        report = judged(declared)
        for other in () if report.passed else checks[1:]:
            plain = other(declared)
            report = plain if only_defect(plain, declared) else report
    except ValueError as error:  # the encoding cannot be declared for this surface
        card.broke("the check against the encoding", error)
        return
    card.report = report
    known = {f.code for f in report.findings}
    found = [f for f in report.findings if not (report.passed and f.code == HARMLESS)]
    card.deviations = [f for f in card.deviations if f.code not in known] + found
    if card.surface != "slopes":  # refused numbers of heads are on the card
        card.limits = list(dict.fromkeys([*card.limits, *report.limits]))
    accuracy = report.accuracy
    if accuracy is not None and card.surface != "rows":
        card.residual = accuracy.worst
        # The last digits of a fitted base are not those of the function.
        e = card.encoding
        fitted = (
            isinstance(e, RoPE)
            and e.scaling is None
            and is_rounded(e.base, (e.rotary_dim or e.head_dim) / 2)
        )
        if accuracy.precision and not fitted:
            card.facts["angles"] = accuracy.precision
        if accuracy.degrades_at is not None and not fitted:
            first = first_error(accuracy.degrades_at, accuracy.degrades_first, report.dtype)
            card.facts["accuracy"] = first
        if accuracy.highest:  # slopes and frequencies have no position
            card.facts["judged"] = f"up to position {accuracy.highest}"
