"""The function ``identify``: find a function's encoding from the results of calls alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import Bias, Encoding, ModelEncoding, RoPE
from posenc_ref.conformance.calling import NoConvention, bind, takes
from posenc_ref.conformance.check import check, make_run
from posenc_ref.conformance.harness.accuracy import first_error
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.foreign import said, tame
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.nearest import did_you_mean
from posenc_ref.conformance.harness.report import ERROR
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.harness.signatures import SURFACES as JUDGED
from posenc_ref.conformance.harness.signatures import load

from .card import Card

#: The surfaces whose functions can be identified.
SURFACES = tuple(row.name for row in JUDGED.values() if row.identify)
#: Surfaces with inputs of ``head_dim`` channels.
_CHANNELS = ("apply", "scores")
#: The note of a function that passes, whose convention is among the facts of the card.
HARMLESS = "harmless-convention"


def identify(
    fn: Callable[..., Any],
    surface: str | None = None,
    *,
    head_dim: int | None = None,
    axes: int = 1,
    to: Encoding | None = None,
    **options: Any,
) -> Card:
    """Identify the encoding that ``fn`` implements and return it as an identity card.

    Parameters
    ----------
    fn : callable
        As for :func:`check`; an :class:`Implementation` includes its surface and sizes.
    surface : {"apply", "cos_sin", "frequencies", "table", "slopes", "bias", "bucket", "scores"}
        By default, that of the :class:`Implementation`, else ``apply``.
    head_dim : int
        Size of the last axis of x, or of q and k, for ``apply`` and ``scores``; other surfaces do
        not need it.
    axes : int
        Number of position axes; with several, ``apply`` takes positions (A, B, S).
    to : Encoding, optional
        The encoding to convert the function to: ``.conversion`` lists the steps, or why there are
        none, and ``.converted`` has the code.
    **options
        ``backend``, ``dtype``, ``tensor_layout``, ``device``, ``max_position``, ``factory``,
        ``seed`` and ``name`` as for :func:`check`.

    Returns
    -------
    Card
        ``.encoding`` (or None), ``.deviations``, ``.frequencies``, ``.uncertainty``,
        ``.aliases``, ``.used_by``, ``.by_length``, ``.unknown``, ``.to_json()``; print it.

    Raises
    ------
    TypeError, ValueError
        Invalid settings.  Errors of ``fn`` are noted on the card instead.
    """
    from . import hints, names  # slow to import

    fn = tame(fn)
    bound = fn if isinstance(fn, Implementation) else None
    if surface not in (None, *SURFACES):
        raise ValueError(f"surface must be one of {', '.join(SURFACES)}, got {surface!r}")
    if bound is None and (surface is None or not takes(fn, surface)):
        names_of = ("tensor_layout", "backend", "dtype", "name")
        given = {name: options[name] for name in names_of if options.get(name) is not None}
        try:
            found = bind(fn, None, surface, head_dim=head_dim, axes=axes, **given)
        except NoConvention:
            if surface is None and not takes(fn, "apply"):
                raise
        else:
            head_dim = head_dim or found.head_dim
            if found.how:
                fn = bound = found
    pair = bound if bound is not None and bound.surface == "apply_qk" else None
    if bound is not None and pair is not None:
        fn = bound = replace(bound, call=bound.queries, surface="apply")
    surface = surface or (bound.surface if bound else "apply")
    if surface not in SURFACES:
        near = did_you_mean(surface, SURFACES)
        raise ValueError(f"surface must be one of {', '.join(SURFACES)}, got {surface!r}{near}")
    head_dim = head_dim or (bound.head_dim if bound else None)
    run = make_run(fn, None, surface, head_dim=head_dim, axes=axes, **options)
    if surface in _CHANNELS and head_dim is None:
        raise ValueError(hints.no_head_dim(run, surface))
    report = run.report
    card = Card(report.subject, surface, report.backend, report.dtype)
    if report.called:
        card.facts["called"] = report.called
    with np.errstate(all="ignore"):
        try:
            card.fill(load(JUDGED[surface].identify), run)
            if card.encoding is None and surface not in _CHANNELS:
                card.unknown += hints.arguments(run.driver.fn, surface)
        except (Refused, Malformed) as error:
            card.unknown.append(f"a call failed: {error}")
            card.unknown += hints.for_tables(run, surface, error)
        except Exception as error:  # a fault of identify, which must not lose what is measured
            card.encoding = None
            card.unknown.append(f"the measurement broke off ({said(error)}); please report")
    card.limits += [text for text in report.limits if text not in card.limits]
    if card.encoding is not None:
        _confirm(pair or fn, run, card, options)
        card.used_by = names.used_by(card.encoding)
        if card.rule and not card.used_by:
            card.used_by = names.slices(card.encoding)
            card.closest = names.closest(card.encoding)
    if pair is not None and card.encoding is None:
        card.unknown.append("the keys: only the queries were measured")
    if to is not None:
        add_conversion(card, to, None if pair is None else pair.surface)
    return card


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


def declaration(card: Card, dim: int | None) -> Encoding | ModelEncoding:
    """Return the encoding to check, with the measured softmax scale if it is not the default."""
    assert card.encoding is not None
    scale, e = card.softmax_scale, card.encoding
    if scale is None or dim is None:
        return e
    if scale == (e.own_scale(dim) if isinstance(e, Bias) else dim**-0.5):
        return e
    return ModelEncoding(card.subject, encodings={"every": card.encoding}, softmax_scale=scale)


def _confirm(fn: Callable[..., Any], run: Run, card: Card, options: dict[str, Any]) -> None:
    """Check the function against the identified encoding; note findings as deviations.

    A function with state is checked on a fresh instance, or not at all without a factory. A
    function of queries and keys, measured by its queries, is checked on both.
    """
    assert card.encoding is not None
    both = isinstance(fn, Implementation) and fn.surface == "apply_qk"
    card.deviations = list(run.report.findings)
    if card.deviations:  # only state is reported before the check
        if run.driver.factory is None:
            card.unknown.append(
                "the check against the encoding did not run: calls change the results of later "
                "calls, and identify has called this instance; pass factory="
            )
            return
        fn = run.driver.fresh().fn
    head_dim = run.settings.head_dim
    try:
        surface = "apply_qk" if both else card.surface
        report = check(fn, declaration(card, head_dim), surface, head_dim=head_dim, **options)
    except ValueError as error:  # the encoding cannot be declared for this surface
        card.unknown.append(f"the check against the encoding failed ({said(error)}); please report")
        return
    card.report = report
    known = {f.code for f in report.findings}
    found = [f for f in report.findings if not (report.passed and f.code == HARMLESS)]
    card.deviations = [f for f in card.deviations if f.code not in known] + found
    if card.surface != "slopes":  # refused numbers of heads are on the card
        card.limits = list(dict.fromkeys([*card.limits, *report.limits]))
    accuracy = report.accuracy
    if accuracy is not None:
        card.residual = accuracy.worst
        if accuracy.precision:
            card.facts["angles"] = accuracy.precision
        if accuracy.degrades_at is not None:
            first = first_error(accuracy.degrades_at, accuracy.degrades_first)
            card.facts["accuracy"] = first
        card.facts["judged"] = f"up to position {accuracy.highest}"
