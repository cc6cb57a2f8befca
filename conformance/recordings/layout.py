"""Choose the tensor layout of a recorded layer, if its shapes allow several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.harness.driver import Driver
from posenc_ref.conformance.harness.ledger import Ledger
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.harness.run import Run, Settings, describe

from . import limits
from .angles import Angles
from .call import Recorded
from .files import Tensor
from .measure import MISFIT, declared_channels, structure, tokens
from .shapes import Part, blocks

#: The number of elements whose errors are compared.
_ELEMENTS = 2**17


def run_of(after: Tensor, encoding: Rotary, settings: Settings, name: str) -> Run:
    """Return a run that judges one recorded result."""
    return run_in(limits.effective_dtype(after), encoding, settings, name)


def run_in(dtype: str, encoding: Rotary, settings: Settings, name: str) -> Run:
    """Return a run for recorded results of a dtype, which has no function to call."""
    report = Report(name, "apply", describe(encoding), "recorded", dtype, required=("values",))
    return Run(Driver(_refuse, "numpy", dtype=dtype), encoding, settings, Ledger(report))


def _refuse(*_: Any) -> Any:
    raise RuntimeError("recorded tensors have no function to call")


def chosen(runs: Mapping[str, Run], found: Mapping[str, list[Part]]) -> str:
    """Return the tensor layout in which the tensors conform, or else are rotated by any encoding.

    If several do, the first one of the list of layouts is taken. One token at an unknown position
    fits if it is rotated at all; so do several rows of one in the first layout only, since rows are
    often tokens.
    """
    if len(found) == 1:
        return next(iter(found))

    def misfit(layout: str) -> tuple[int, float]:
        unpaired, wrong, placed = 0, 0.0, True
        for part in found[layout]:
            run = runs[part.name]
            if not part.telling.any():
                continue
            of = tokens(part, run.coarse)
            every = declared_channels(run.encoding)
            measured, maps = structure(of, every, run.encoding.frequencies(part.length))
            unpaired += len(measured.odd)
            usual = len(part.x) == 1 or layout == next(iter(found))
            if part.unplaced and usual and _turns(maps):
                placed = False
            else:
                wrong += 1.0 if part.unplaced else _wrong(run, part)
            if not maps.map.size and of.moved.any():
                unpaired += of.moved.size
        return (unpaired, wrong) if wrong or not placed else (-1, 0.0)

    return min(found, key=misfit)


def _turns(maps: Angles) -> bool:
    """Return whether pairs turn by different angles, unlike tensors that are copied or negated."""
    return bool((np.abs(maps.map - maps.map[:, :1]) > MISFIT).any())


def _wrong(run: Run, part: Part) -> float:
    """Return the share of wrong elements among the first tokens."""
    first = next(blocks(part, _ELEMENTS))
    few = replace(
        part,
        x=part.x[:, :, first],
        y=part.y[:, :, first],
        positions=part.positions[..., first],
    )
    truth = Recorded(run.encoding, few, part.length).truth()
    mask = few.finite[:, None, :, None]
    return float(np.mean((run.scores(few.y, truth) > run.budget) & mask))
