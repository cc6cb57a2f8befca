"""``sweep --family``: every position encoding of ``transformers`` that is no rotation, judged."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posenc_ref.conformance.check import check
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.surveys.expected import Expected, expected
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.transformers.case import (
    AS_CONFIGURED,
    FAMILIES,
    FLOAT32,
    judged_or_gap,
)
from posenc_ref.conformance.surveys.transformers.sweep import Sweep, sweep_cases

from .census import Place, places

EXPECTED = Path(__file__).with_name("sweep_other_expected.json")
#: An implementation, whose surface may name a part of it, and what it should be.
Subject = tuple[Implementation, Any]


class Undriven(Exception):
    """Why nothing can be judged, in words."""


@dataclass(frozen=True)
class PlaceCase:
    """One place, with everything that is judged about it."""

    place: Place

    @property
    def name(self) -> str:
        """The name of the place."""
        return self.place.name

    def blank(self) -> Outcome:
        """Return an outcome about it, to be filled in."""
        p = self.place
        return Outcome(
            kind=p.kind, group=p.model, dtype=FLOAT32, case=p.name, target=p.name, module=p.owner,
            rope_type=AS_CONFIGURED, source=p.source,
        )  # fmt: skip


def judge_place(case: PlaceCase) -> Iterator[Outcome]:
    """Yield one outcome for each surface."""
    yield from outcomes(case.blank(), lambda: subjects(case.place))


def sweep_other(families: Iterable[str], only: Sequence[str] = (), **settings: Any) -> Sweep:
    """Judge every place of these families that ``only`` names, or all of them."""
    kinds = {kind for family in families for kind in FAMILIES[family]}
    cases = [PlaceCase(place) for place in places(only) if place.kind in kinds]
    return sweep_cases(cases, judge_place, known(), **settings)


@functools.cache
def known() -> tuple[Expected, ...]:
    """Return the expected deviations."""
    return expected(EXPECTED)


def outcomes(blank: Outcome, made: Callable[[], Iterable[Subject]]) -> Iterator[Outcome]:
    """Yield one outcome for each subject; if there is none, one that says why."""
    begin, count = time.process_time(), 0
    found = iter(_caught(made))
    while True:
        item = next(found, None)
        if item is None:
            break
        line = _line(blank, item)
        now = time.process_time()
        yield line.replace(seconds=round(now - begin, 3))
        begin, count = now, count + 1
    if not count:
        yield blank.replace(verdict="undrivable", reason="nothing about it is judged")


def _caught(made: Callable[[], Iterable[Subject]]) -> Iterator[Subject | Exception]:
    """The subjects, and at the end the error that ended them."""
    try:
        yield from made()
    except Exception as error:
        yield error


def _line(blank: Outcome, item: Subject | Exception) -> Outcome:
    if isinstance(item, Exception):
        return blank.replace(verdict="undrivable", reason=_said(item))
    implementation, encoding = item
    surface = implementation.surface.partition(", ")[0]
    blank = blank.replace(
        surface=surface,
        part=implementation.surface,
        encoding="" if encoding is None else repr(encoding),
    )
    try:
        one = replace(implementation, surface=surface)
        report = check(one, encoding, name=blank.name)
    except Exception as error:
        return blank.replace(verdict="gap", reason=f"the judge: {_said(error)}")
    line = judged_or_gap(blank, report)
    if line.codes == ("raises",) and not line.executed and not _claimed(line):
        return line.replace(
            verdict="undrivable",
            codes=(),
            worst=None,
            reason=": ".join((*line.messages, *line.evidence)),
        )
    return line


def _claimed(line: Outcome) -> bool:
    """Whether that it raises is on record as the model's own doing, and not ours."""
    return any(entry.explains(line) for entry in known())


def _said(error: Exception) -> str:
    text = re.sub(r"\s+", " ", str(error))[:300]
    plain = type(error).__name__ in ("Undriven", "MissingArgument", "Unbuildable")
    return text if plain else f"{type(error).__name__}: {text}"


def subjects(place: Place) -> Iterator[Subject]:
    """What is judged about a place."""
    from . import (
        bias,
        boxes,
        convolutions,
        frames,
        grids,
        image,
        lookup,
        relative,
        resizes,
        scores,
        sines,
        sines_2d,
        tokens,
    )

    drivers: dict[str, Callable[[Place], Iterator[Subject]]] = {
        "sines": sines_2d.subjects if place.model in sines_2d.BUILT else sines.subjects,
        "timesteps": sines.subjects,
        "image sines": sines_2d.subjects,
        "fourier": sines_2d.subjects,
        "learned": image.subjects if image.is_image(place) else lookup.subjects,
        "coordinates": boxes.subjects,
        "convolution": convolutions.subjects,
        "alibi": bias.alibis,
        "t5": bias.t5,
        "window": bias.windows,
        "decomposed": scores.decomposed,
        "relative": relative.relative,
        "disentangled": scores.disentangled,
    }
    own = {**frames.OWN, **grids.OWN, **resizes.OWN, **tokens.OWN}
    if place.name in own:
        yield from own[place.name](place)
        return
    if reason := WITHOUT.get(place.kind, WITHOUT.get(place.model)):
        raise Undriven(reason)
    yield from drivers[place.kind](place)


#: Why nothing is judged about a kind, or a model.
WITHOUT = {
    "timesfm2_5": "no configuration has its min_timescale, so that it cannot be built, and "
    "nothing in its file builds it: a class that is left over",
}
