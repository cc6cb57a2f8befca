"""Identify a function as one of another surface: a chunked rotation as ``apply``, and so on."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.harness.signatures import SURFACES, load
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.rotary.as_apply import Inexpressible

from .kept import describe
from .sides import identify_keys
from .views import MORE, VIEWS, Maker, View

#: The view of every surface that is identified as another one.
EVERY: dict[str, View] = {**VIEWS, **MORE}


def viewed(run: Run, maker: Maker | None = None) -> Run:
    """Return a run of the function as one of the surface that its view names."""
    view, driver = EVERY[run.report.surface], run.driver
    make, dim = maker or view.makers[0], run.settings.head_dim or 0

    def seen(fn: Any) -> Any:
        return make(fn, driver.backend, driver.tensor_layout, dim)

    made = driver.factory
    return replace(
        run,
        driver=replace(
            driver,
            fn=seen(driver.fn),
            factory=None if made is None else lambda: seen(made()),
            names=SURFACES[view.surface].arguments,
        ),
    )


def identify(run: Run, card: Card) -> None:
    """Fill in the identity card of a function with another surface than those that are measured."""
    surface = run.report.surface
    view, other = EVERY[surface], viewed(run)
    try:
        card.fill(load(SURFACES[view.surface].identify), other)
        if card.encoding is None:
            _after_earlier_calls(run, other, view, card)
    finally:
        run.driver.calls += other.driver.calls
        run.driver.mutated = run.driver.mutated or other.driver.mutated
        own = Inexpressible.__name__
        for texts in (card.limits, run.report.limits):
            texts[:] = [text for text in texts if own not in text]
    if len(view.makers) > 1:
        identify_keys(viewed(run), viewed(run, view.makers[1]), card)
    if card.encoding is not None:
        card.encoding = view.encoding(card.encoding)
    if card.encoding is not None or view.fallbacks:
        describe(run, card)


def _after_earlier_calls(run: Run, other: Run, view: View, card: Card) -> None:
    """Identify an instance by calls after earlier ones, if single calls show no encoding."""
    for maker in view.fallbacks:
        trial = Card(card.subject, card.surface, card.backend, card.dtype)
        again = viewed(run, maker)
        trial.fill(load(SURFACES[view.surface].identify), again)
        other.driver.calls += again.driver.calls
        if trial.encoding is not None and trial.rule:
            for name in (f.name for f in fields(Card)):
                setattr(card, name, getattr(trial, name))
            return
    if view.fallbacks:
        card.unknown = [f"in the first call of an instance: {text}" for text in card.unknown]
