"""Pictures of recorded reports: the errors of judged functions by position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from posenc_ref.accuracy import VISIBLE
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.surveys.ndjson import Recorded

from .picture import Line, Picture


def errors(found: Mapping[str, Mapping[int, float]]) -> Picture:
    """Return the error at the end of each context, for every named function.

    ``found`` has the errors by length of the context, as ``Accuracy.errors``.  An error of zero is
    drawn at 1e-12, one that is not finite is left out.
    """
    lines = []
    for name, by_length in found.items():
        lengths = np.array(sorted(by_length), np.float64)
        values = np.array([by_length[int(n)] for n in lengths], np.float64)
        finite = np.isfinite(values)
        lines.append(Line(name, lengths[finite], np.maximum(values[finite], 1e-12)))
    return Picture(
        "errors",
        "Error by position",
        "length of the context",
        "largest error at its end",
        tuple(lines),
        scale=("log", "log"),
        marks=(("visible from", VISIBLE),),
    )


def of_report(report: Report) -> dict[str, Mapping[int, float]]:
    """Return the errors by position of a report by the name of its function; empty if none."""
    found = report.accuracy
    return {} if found is None or not found.errors else {report.subject: found.errors}


def measured(recorded: Iterable[Recorded]) -> dict[str, Mapping[int, float]]:
    """Return the errors by position of every function in recorded reports, by its name."""
    found: dict[str, Mapping[int, float]] = {}
    for one in recorded:
        if isinstance(one.result, Report):
            found |= of_report(one.result)
        else:
            found |= {o.name: o.errors for o in one.result.outcomes if o.errors}
    return found
