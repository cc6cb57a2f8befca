"""``identify``: what is this function?  Measured from outside, with nothing declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import Encoding, MultiAxisRoPE, RoPE, Rotary

from . import identify_rotary, identify_table
from .access import Access
from .card import Card
from .check import check, make_run
from .implementation import Implementation
from .judge_apply import required_inputs
from .measure import measure
from .subject import Malformed, Refused

SURFACES = ("apply", "cos_sin", "frequencies", "table")


def identify(
    fn: Callable[..., Any],
    surface: str | None = None,
    *,
    head_dim: int | None = None,
    axes: int = 1,
    **options: Any,
) -> Card:
    """Find out what ``fn`` is, and return it as an identity card.

    Parameters
    ----------
    fn : callable
        As for :func:`check`; an :class:`Implementation` brings its surface and sizes along.
    surface : {"apply", "cos_sin", "frequencies", "table"}
        ``apply`` if nothing else is known.
    head_dim : int
        Size of the last axis of x, for ``apply``; the width of a ``table`` shows by itself.
    axes : int
        Position axes, where ``apply`` takes positions (A, B, S).
    **options
        ``backend``, ``dtype``, ``tensor_layout``, ``device``, ``max_position``, ``factory``,
        ``seed`` and ``name`` as for :func:`check`.

    Returns
    -------
    Card
        ``.encoding`` (a value, or None), ``.deviations``, ``.frequencies``, ``.uncertainty``,
        ``.aliases``, ``.used_by``, ``.by_length``, ``.unknown``, ``.to_json()``; print it.
    """
    bound = fn if isinstance(fn, Implementation) else None
    surface = surface or (bound.surface if bound else "apply")
    if surface not in SURFACES:
        raise ValueError(f"surface must be one of {', '.join(SURFACES)}, got {surface!r}")
    head_dim = head_dim or (bound.head_dim if bound else None)
    if surface == "apply" and head_dim is None:
        raise ValueError("head_dim must be given to identify an apply function, got None")
    run = make_run(fn, None, surface, head_dim=head_dim, axes=axes, **options)
    report = run.report
    card = Card(report.subject, surface, report.backend, report.dtype)
    with np.errstate(all="ignore"):
        try:
            if surface == "apply":
                assert head_dim is not None
                _apply(run, card, head_dim)
            else:
                identify_table.identify(run, card)
        except (Refused, Malformed) as error:
            card.unknown.append(f"a call failed: {error}")
    card.limits += [text for text in report.limits if text not in card.limits]
    if card.encoding is not None and card.encoding.family in ("rotary", "table"):
        _confirm(fn, card, options)
    _name(card)
    return card


def _apply(run: Any, card: Card, dim: int) -> None:
    if not required_inputs(run, dim):
        first = run.report.findings[0]
        card.unknown.append(f"it cannot be driven: {first.message} ({first.evidence})")
        return
    access = Access(run, dim=dim)
    access.learn()
    measured = measure(access, run.coarse)
    if not np.isfinite(measured.matrices).all():
        card.unknown.append("what comes out is not finite")
        return
    identify_rotary.identify(run, access, measured, card)


def _confirm(fn: Callable[..., Any], card: Card, options: dict[str, Any]) -> None:
    """The full check against what was identified: what is left are deviations."""
    report = check(fn, card.encoding, card.surface, **options)
    card.report = report
    card.deviations = report.findings
    card.limits = list(dict.fromkeys([*card.limits, *report.limits]))
    if report.accuracy is not None:
        card.residual = report.accuracy.worst
        if report.accuracy.precision:
            card.facts["angles"] = report.accuracy.precision
        if report.accuracy.degrades_at is not None:
            card.facts["accuracy"] = f"visibly wrong from position {report.accuracy.degrades_at} on"
        card.facts["judged"] = f"up to position {report.accuracy.highest}"


def _name(card: Card) -> None:
    """Presets that are the same, and how to get to the other layout."""
    encoding = card.encoding
    if not isinstance(encoding, RoPE | MultiAxisRoPE):
        return
    names, other_layout = [], []
    for name in pr.presets():
        try:
            model = pr.preset(name)
        except ValueError:  # a preset that needs a fact from the caller
            continue
        for known in model.encodings.values():
            if known is None:
                continue
            if _same(known, encoding):
                names.append(name)
            elif isinstance(known, RoPE) and isinstance(encoding, RoPE):
                swapped = known.replace(layout=encoding.layout, output_layout=None)
                if known.layout != encoding.layout and _same(swapped, encoding):
                    other_layout.append(name)
    card.used_by = tuple(dict.fromkeys(names))
    if isinstance(encoding, RoPE) and card.surface == "apply":
        _conversion(card, encoding, list(dict.fromkeys(other_layout)))


def _same(known: Encoding, encoding: Rotary) -> bool:
    """The same map of vectors, whatever it is called."""
    if type(known) is not type(encoding) or not isinstance(known, Rotary):
        return False
    return known == encoding or _numbers(known) == _numbers(encoding)


def _numbers(encoding: Rotary) -> tuple[Any, ...]:
    """All that the map depends on, as plain values."""
    axes = encoding.axes()
    arrays = (
        *encoding.pairs(),
        *encoding.output_pairs(),
        encoding.frequencies(),
        np.zeros(1) if axes is None else axes,
    )
    return (
        encoding.head_dim,
        encoding.sign,
        encoding.offset,
        encoding.attention_factor(),
        encoding.depends_on_length,
        *(tuple(a.tolist()) for a in arrays),
    )


def _conversion(card: Card, encoding: RoPE, others: list[str]) -> None:
    target = "interleaved" if encoding.layout == "half" else "half"
    part = "" if encoding.rotary_dim == encoding.head_dim else f", rotary_dim={encoding.rotary_dim}"
    used = f" (as in {', '.join(others[:3])})" if others else ""
    if encoding.rotary_start == 0:
        card.conversion.append(
            f"weights trained for {target} pairs{used}: posenc_ref.permute_weights(w, n_heads, "
            f"source={target!r}, target={encoding.layout!r}{part}) on q and k, never on v"
        )
    if encoding.sign < 0:
        card.conversion.append("to turn the usual way: pass -positions, or negate the sines")
