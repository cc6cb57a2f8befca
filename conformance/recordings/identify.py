"""Identify the encoding that rotated recorded tensors."""

from __future__ import annotations

from collections.abc import Sequence

from posenc_ref import RoPE
from posenc_ref.conformance.harness.driver import Driver
from posenc_ref.conformance.harness.ledger import Ledger
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.harness.run import Run, Settings
from posenc_ref.conformance.identify import names
from posenc_ref.conformance.identify.card import Card, Unidentified
from posenc_ref.conformance.identify.fit.measurement import Factor
from posenc_ref.conformance.identify.rotary import (
    UNKNOWN_LAYOUT,
    describe_pairs,
    explain,
    numbers,
    structures,
)

from .angles import cleaned, fit
from .diagnose_angles import factor_error, measured_factor
from .measure import Seen, declared_channels, structure, tokens
from .shapes import Part


def hint(dim: int) -> RoPE:
    """Return a usual encoding, whose pairs are tried first and whose slow pairs are expected."""
    return RoPE(dim, layout="half")


def identify_part(part: Part, dtype: str, subject: str) -> Card:
    """Return the identity card of the rotation of one recorded tensor with one position axis."""
    card = Card(subject, "apply", "recorded", dtype)
    card.fill(_identify, part, dtype)
    return card


def _identify(part: Part, dtype: str, card: Card) -> None:
    usual = hint(part.x.shape[-1])
    if part.positions.ndim > 2:
        raise Unidentified("positions with several axes: declare the encoding")
    if not part.telling.any():
        raise Unidentified("every input is 0 or not finite")
    of = tokens(part, dtype)
    measured, maps = structure(of, declared_channels(usual), usual.frequencies())
    seen = Seen(of, measured, maps, fit(maps))
    every = structures(usual.head_dim, measured) if measured.pairs else []
    if not measured.pairs or measured.odd:
        raise Unidentified(
            "the tensors before and after are equal"
            if not of.moved.any()
            else "no layout of channel pairs makes the tensor after a rotation of the one before"
        )
    describe_pairs(card, measured, every)
    if not seen.certain:
        raise Unidentified("the recorded positions do not determine the frequencies")
    phases = cleaned(seen.fitted.phases)
    error = factor_error(seen)
    factor = Factor(measured_factor(seen), error, error / 4)
    numbers(card, phases, factor, dtype)
    if not every:
        raise Unidentified(UNKNOWN_LAYOUT)
    explain(_run(usual, dtype, card.subject), card, every, phases, factor, phases.sign)
    if card.encoding is not None:
        card.used_by = names.used_by(card.encoding)


def _run(encoding: RoPE, dtype: str, subject: str) -> Run:
    """Return a run without a function, which gives the dtype of the results."""
    report = Report(subject, "apply", "", "recorded", dtype)
    return Run(Driver(_nothing, dtype=dtype), encoding, Settings(), Ledger(report))


def _nothing() -> None:
    raise RuntimeError("recorded tensors have no function to call")


def common(cards: Sequence[Card]) -> RoPE | None:
    """Return the encoding of all cards, if they have the same one."""
    found = {card.encoding for card in cards}
    only = found.pop() if len(found) == 1 else None
    return only if isinstance(only, RoPE) else None
