"""Judge one case of the sweep: build the module, read its configuration, and check it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from posenc_ref.conformance.adapters.transformers import (
    from_transformers,
    layer_types,
    rotary_modules,
)
from posenc_ref.conformance.check import check
from posenc_ref.conformance.surveys.record import Outcome, one_line

from .build import Crashed, build, settings_of
from .case import APPLY, AS_CONFIGURED, RotaryCase, Unjudged, judged_or_gap
from .declared import declared
from .scores import judge_scores


def judge_case(case: RotaryCase) -> Iterator[Outcome]:
    """Yield one outcome for each layer type of the case, or a single one."""
    begin = time.process_time()
    for line in _outcomes(case):
        now = time.process_time()
        yield line.replace(seconds=round(now - begin, 3))
        begin = now


def _outcomes(case: RotaryCase) -> Iterator[Outcome]:
    blank = case.blank()
    try:
        container, config = build(case.target, case.rope_type)
    except Unjudged as error:
        yield error.about(blank)
        return
    except Crashed as error:
        if case.surface == APPLY:
            yield blank.replace(verdict="deviates", codes=("raises",), messages=(str(error),))
        else:
            reason = "the module fails; the outcome of the surface apply has the error"
            yield blank.replace(verdict="refused", reason=reason)
        return
    blank = blank.replace(settings=settings_of(config))
    if case.surface != APPLY:
        yield from judge_scores(blank, container, config)
        return
    modules = rotary_modules(container)
    for kind in layer_types(modules[0], config) if modules else ("",):
        yield _judge(case, container, config, blank.replace(layer_type=kind))


def _judge(case: RotaryCase, container: Any, config: Any, blank: Outcome) -> Outcome:
    try:
        found = from_transformers(container, layer_type=blank.layer_type or None)
    except Exception as error:
        return blank.replace(verdict="undrivable", reason=one_line(error, 400))
    if found.surface != "apply":
        return blank.replace(verdict="undrivable", reason=f"found {found.name}, no rotation")
    blank = blank.replace(tensor_layout=found.tensor_layout)
    encoding, gap = None, ""
    try:
        found, encoding = declared(found, case.target, config, blank.layer_type)
        blank = blank.replace(encoding=repr(encoding))
    except Unjudged as error:
        if case.rope_type != AS_CONFIGURED and "rope_type must be one of" in str(error):
            return blank.replace(
                verdict="refused", reason=f"the model rejects the rope type: {error}"
            )
        gap = str(error)
        if found.axes > 1:  # without an encoding, ``check`` measures rotations of one axis only
            return blank.replace(verdict="gap", reason=gap)
    try:
        line = judged_or_gap(blank, check(found, encoding, name=blank.name, dtype=case.dtype))
    except Exception as error:
        raised = f"check raised {one_line(error, 400)}"
        return blank.replace(verdict="gap", reason=f"{gap}; {raised}" if gap else raised)
    return line.replace(verdict="gap", reason=gap) if gap else line
