"""Recognise the encoding of another layer type of the declared model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from posenc_ref.conformance.harness.report import ERROR, Report


def name_layer_type(
    report: Report, others: Mapping[str, Any], judge: Callable[[Any], Report]
) -> None:
    """Say in the first error that the function is right for another layer type, if it is.

    Parameters
    ----------
    report : Report
        The report of the function against the declared layer type; it is changed.
    others : mapping of str to encoding
        The declarations of the other layer types, by name.
    judge : callable
        Judges the function against one of them.
    """
    found = report.findings
    first = next((i for i, f in enumerate(found) if f.severity == ERROR), None)
    if first is None:
        return
    for name, declared in others.items():
        if judge(declared).passed:
            message = f"the function is right for your other layer type, {name!r}"
            if found[first].code != "inaccurate":  # whose message says that no cause is known
                message = f"{found[first].message}; {message}"
            found[first] = replace(
                found[first],
                message=message,
                remedy=f"Use the table of the declared layer type here, and this one in layers of "
                f"type {name!r}.",
            )
            return
