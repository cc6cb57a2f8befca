"""Identify the encoding that rotated recorded tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from posenc_ref import RoPE, Rotary
from posenc_ref.conformance.harness.run import Settings
from posenc_ref.conformance.identify import names
from posenc_ref.conformance.identify.card import Card, Unidentified
from posenc_ref.conformance.identify.fit.measurement import Factor
from posenc_ref.conformance.identify.pairs.structure import structures
from posenc_ref.conformance.identify.rotary import (
    UNKNOWN_LAYOUT,
    describe_pairs,
    explain,
    numbers,
)

from .angles import cleaned, fit
from .call import Recorded
from .diagnose import NO_ROTATION
from .diagnose_angles import factor_error, measured_factor
from .files import read
from .judge_part import judge_part
from .layout import chosen, run_in, run_of
from .limits import effective_dtype
from .measure import Seen, declared_channels, structure, tokens
from .merge import listed
from .roles import Layer, layers
from .shapes import Part, readings


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
        raise Unidentified("positions have several axes: check against an encoding instead")
    if not part.telling.any():
        raise Unidentified("every input is 0 or not finite")
    of = tokens(part, dtype)
    measured, maps = structure(of, declared_channels(usual), usual.frequencies())
    seen = Seen(of, measured, maps, fit(maps))
    every = structures(usual.head_dim, measured) if measured.pairs else []
    if not measured.pairs or measured.odd:
        raise Unidentified(
            "the tensors before and after are equal" if not of.moved.any() else NO_ROTATION
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
    run = run_in(dtype, usual, Settings(), card.subject)
    explain(run, card, every, phases, factor, phases.sign)
    if card.encoding is not None:
        card.used_by = names.used_by(card.encoding)


def common(cards: Sequence[Card]) -> RoPE | None:
    """Return the encoding of all cards, if they have the same one."""
    found = {card.encoding for card in cards}
    only = found.pop() if len(found) == 1 else None
    return only if isinstance(only, RoPE) else None


def encodings(cards: Sequence[Card]) -> list[RoPE]:
    """Return the different encodings of all cards."""
    return [e for e in dict.fromkeys(card.encoding for card in cards) if isinstance(e, RoPE)]


def explaining(known: Sequence[RoPE], part: Part, layer: Layer) -> RoPE | None:
    """Return the only one of the ``known`` encodings to which a tensor conforms.

    A decoding step has a single position, which does not determine an encoding, but the other
    tensors of the recording may.
    """
    fitting = []
    for encoding in known:
        if encoding.head_dim == part.x.shape[-1]:
            run = run_of(layer.tensors[f"{part.name}_after"], encoding, Settings(), "")
            judge_part(run, Recorded(encoding, part, part.length))
            fitting += [encoding] if run.finish().verdict == "conforms" else []
    return fitting[0] if len(fitting) == 1 else None


def identify_recorded(
    path: str | Path,
    *,
    head_dim: int | None = None,
    roles: Mapping[str, str] | None = None,
    tensor_layout: str | None = None,
) -> list[Card]:
    """Identify the encodings of recorded tensors: return a card for each different encoding.

    Parameters
    ----------
    path : str or Path
        A recording, as in :func:`check_recorded_file`, with one position axis.
    head_dim : int, optional
        The size of a head, needed for tensors (..., heads * head_dim).
    roles, tensor_layout
        As in :func:`check_recorded_file`.

    Returns
    -------
    list[Card]
        The subject of a card names its tensors. ``report`` is the check of the first of them.

    Raises
    ------
    TypeError, ValueError
        The file cannot be read, or tensors are missing or do not fit.
    """
    single: list[tuple[str, Card, Part, Layer]] = []
    for layer in layers(read(Path(path)), roles or {}, str(path)):
        if not layer.rotated:
            continue
        dim = head_dim or head_dim_of(layer)
        for name, part in parts_of(layer, dim, 1, tensor_layout, None, str(path)).items():
            dtype = effective_dtype(layer.tensors[f"{name}_after"])
            card = identify_part(part, dtype, str(path))
            _confirm(card, part, layer)
            single.append((f"{layer.label} {name}".strip(), card, part, layer))
    known = encodings([card for _, card, _, _ in single if not card.deviations])
    found: dict[str, list[tuple[str, Card]]] = {}
    for label, card, part, layer in single:
        encoding, codes = card.encoding or explaining(known, part, layer), _codes(card)
        unknown = "" if encoding else "".join(card.unknown)
        found.setdefault(repr(encoding) + unknown + "".join(codes), []).append((label, card))
    for same in found.values():
        same.sort(key=lambda one: one[1].encoding is None)
    for same in found.values():
        same[0][1].subject = f"{path}: {listed([label for label, _ in same])}"
    return [same[0][1] for same in found.values()]


def _codes(card: Card) -> list[str]:
    return [finding.code for finding in card.deviations]


def _confirm(card: Card, part: Part, layer: Layer) -> None:
    """Judge the tensor against the identified encoding; note the findings as deviations."""
    if not isinstance(card.encoding, RoPE):
        return
    run = run_of(layer.tensors[f"{part.name}_after"], card.encoding, Settings(), card.subject)
    judge_part(run, Recorded(card.encoding, part, part.length))
    card.report = run.finish()
    card.deviations = list(card.report.findings)
    card.limits += card.report.limits
    if card.report.accuracy is not None:
        card.residual = card.report.accuracy.worst
        card.facts["judged"] = f"up to position {card.report.accuracy.highest}"


def head_dim_of(layer: Layer) -> int:
    """Return the size of a head, if the shape of the first tensor shows it."""
    x = layer.tensors[f"{layer.rotated[0]}_before"].values
    if x.ndim == 4 or x.shape[-1] <= 256:
        return int(x.shape[-1])
    raise ValueError(
        f"head_dim must be given for {layer.names[f'{layer.rotated[0]}_before']} of shape {x.shape}"
    )


def parts_of(
    layer: Layer, dim: int, axes: int, layout: str | None, declared: Rotary | None, where: str
) -> dict[str, Part]:
    """Return the rotated tensors of a layer, in the tensor layout that fits best."""
    found = readings(layer, dim, axes, layout, where)
    usual = declared or hint(dim)
    runs = {
        name: run_of(layer.tensors[f"{name}_after"], usual, Settings(), "")
        for name in layer.rotated
    }
    return {part.name: part for part in found[chosen(runs, found)]}
