"""Judging one case of the sweep: build, drive, declare, check."""

from __future__ import annotations

import contextlib
import re
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

from posenc_ref.conformance.check import check

from . import scores as sweep_scores
from .declared import Undeclared, declared
from .record import APPLY, AS_CONFIGURED, Case, Judged, judged


def judge_case(case: Case) -> Iterator[Judged]:
    """One line per table of the case: one, or one for each of its layer types."""
    begin = time.process_time()
    for line in _quietly(_lines, case):
        now = time.process_time()
        yield line.replace(seconds=round(now - begin, 3))
        begin = now


def _quietly(lines: Any, *args: Any) -> Iterator[Judged]:
    """Whatever is printed meanwhile goes to standard error, warnings nowhere."""
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from lines(*args)


def _lines(case: Case) -> Iterator[Judged]:
    from posenc_ref.conformance.adapters.transformers import layer_types, rotary_modules

    from .build import Crashed, Unbuildable, build, settings_of
    from .scaled import Refused

    blank = case.blank()
    try:
        container, config = build(case.target, case.rope_type)
    except (Unbuildable, ImportError) as error:
        yield blank.replace(outcome="undrivable", reason=f"cannot be built: {error}")
        return
    except Refused as error:
        yield blank.replace(outcome="refused", reason=str(error))
        return
    except Crashed as error:
        if case.surface != APPLY:
            yield blank.replace(outcome="refused", reason="the module fails, as judged elsewhere")
            return
        yield blank.replace(outcome="deviates", codes=("raises",), messages=(str(error),))
        return
    blank = blank.replace(settings=settings_of(config))
    if case.surface != APPLY:
        yield from sweep_scores.lines(blank, container, config)
        return
    modules = rotary_modules(container)
    kinds = layer_types(modules[0], config) if modules else ("",)
    for kind in kinds:
        yield _judge(case, container, config, blank.replace(layer_type=kind))


def _judge(case: Case, container: Any, config: Any, blank: Judged) -> Judged:
    from posenc_ref.conformance.adapters import from_transformers

    try:
        found = from_transformers(container, layer_type=blank.layer_type or None)
    except Exception as error:
        return blank.replace(outcome="undrivable", reason=_short(error))
    if found.surface != "apply":
        return blank.replace(outcome="undrivable", reason=f"found {found.name}, no rotation")
    blank = blank.replace(tensor_layout=found.tensor_layout)
    name = blank.name
    try:
        found, encoding = declared(found, case.target, config, blank.layer_type)
    except Undeclared as error:
        if case.rope_type != AS_CONFIGURED and "rope_type must be one of" in str(error):
            return blank.replace(outcome="refused", reason=f"not one of the model's own: {error}")
        return _properties(found, blank, str(error))
    blank = blank.replace(encoding=repr(encoding))
    try:
        return judged(blank, check(found, encoding, name=name, dtype=case.dtype))
    except Exception as error:
        return blank.replace(outcome="gap", reason=f"the judge: {_short(error)}")


def _properties(found: Any, blank: Judged, reason: str) -> Judged:
    """What nobody could declare is measured all the same."""
    if found.axes > 1:
        return blank.replace(outcome="gap", reason=reason)
    try:
        line = judged(blank, check(found, None, name=blank.name))
    except Exception as error:
        return blank.replace(outcome="gap", reason=f"{reason}; the judge: {_short(error)}")
    return line.replace(outcome="gap", reason=reason)


def _short(error: BaseException) -> str:
    text = re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")
    return text[:400]
