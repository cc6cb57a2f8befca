"""Judges of ``apply_offset`` and ``calls``: calls that start where an offset says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_ref.conformance.diagnosis.localize import name_pattern
from posenc_ref.conformance.diagnosis.match import judge_call, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import SIZES
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.calls import one_table
from posenc_ref.conformance.oracle.transforms import alike
from posenc_ref.conformance.rotary.as_apply import (
    Inexpressible,
    host_positions,
    judge_as_apply,
    starts,
)

from .offset_mistakes import Offset, offset_mistakes

#: (B, H, S) and the offset of each row: all alike first, one token per row among them.
ROWS: tuple[tuple[tuple[int, int, int], tuple[int, ...]], ...] = (
    ((2, 3, 5), (3, 9)),
    ((3, 2, 1), (7, 0, 12)),
    ((2, 2, 2), (1, 5)),
    ((4, 3, 2), (0, 41, 5, 300)),
    ((3, 1, 4), (4093, 17, 65530)),
)
ALIKE = (((2, 3, 5), 6), ((3, 2, 1), 37), ((1, 2, 4), 1021))
#: Offsets beyond may be refused.
REQUIRED = 37


def judge(run: Run) -> None:
    """``fn(x (B, H, S, D), offset (B,))``: row b stands at ``offset[b] ..``; then as ``apply``."""
    encoding = alike(run.encoding)
    run.report.required = ("required inputs", "offsets", "state")
    seen: list[JudgedCall] = []
    for size in SIZES:
        one = _ask(run, encoding, size, (0,) * size[0])
        if one is None:
            return
        seen.append(judge_call(run, "required inputs", one))
    first = seen[0]
    for size, start in ALIKE:
        one = _ask(run, encoding, size, (start,) * size[0], optional=start > REQUIRED)
        if one is not None:
            seen.append(judge_call(run, "offsets", one))
        elif run.report.findings:
            return
    seen += _different(run, encoding)
    _same_token(run, encoding)
    if match(run, seen, offset_mistakes()) and run.report.codes:
        _state(run, first)
        return
    recipe = "lambda x, p: fn(x, np.full(len(x), p[0]))"
    judge_as_apply(run, _view(run), encoding, recipe)
    _state(run, first)
    if run.failures and not run.report.codes:
        name_pattern(run, seen, "decode-offset", "calls that start at an offset are wrong")


def _ask(
    run: Run,
    encoding: Any,
    size: tuple[int, int, int],
    offset: Sequence[int],
    optional: bool = False,
) -> JudgedCall | None:
    """One call, to be judged; None (and a finding, or a limit) where there is nothing to judge."""
    call = _input(run, encoding, size, offset)
    case = f"B, H, S = {size} at offset {list(offset)}"
    try:
        actual = _called(run, call)
    except Refused as error:
        if optional:
            run.limit(f"{case}: refused ({error})")
        else:
            run.add("raises", f"x of shape {call.x.shape}, offset {list(offset)}", str(error))
        return None
    except Malformed as error:
        run.add("shape", str(error), case)
        return None
    if not run.floats_only():
        return None
    return JudgedCall(case, actual, call.truth(), call)


def _input(run: Run, encoding: Any, size: tuple[int, int, int], offset: Sequence[int]) -> Offset:
    x = run.random((*size, encoding.head_dim), sum(size))
    return Offset(encoding, x, np.array(offset))


def _called(run: Run, call: Offset) -> np.ndarray:
    y = run.subject.array(run.subject.call(call.x, call.offset))
    if y.shape != call.x.shape:
        raise Malformed(f"expected shape {call.x.shape}, as x has, got {y.shape}")
    run.reached(int(call.positions.max()))
    return y


def _different(run: Run, encoding: Any) -> list[JudgedCall]:
    """Rows with different offsets; they may be refused, but not answered wrongly."""
    seen = []
    for size, offset in ROWS:
        if not run.settings.allows(max(offset) + size[2]):
            continue
        if not one_table(encoding, [b + size[2] for b in offset]):
            run.limit(f"offsets {list(offset)}: their rows have different frequencies; not judged")
            continue
        call = _input(run, encoding, size, offset)
        case = f"B, H, S = {size} at offset {list(offset)}"
        try:
            actual = _called(run, call)
        except Refused as error:
            run.limit(f"rows with different offsets, {list(offset)}: refused ({error})")
            continue
        seen.append(judge_call(run, "offsets", JudgedCall(case, actual, call.truth(), call)))
    return seen


def _same_token(run: Run, encoding: Any) -> None:
    """The same token in every row, at the same offset, must come out the same."""
    call = _input(run, encoding, (1, 1, 1), (37,))
    x = np.broadcast_to(call.x, (3, 2, 1, encoding.head_dim)).copy()
    y = _called(run, Offset(encoding, x, np.full(3, 37)))
    run.count("offsets")
    if not np.array_equal(y, np.broadcast_to(y[:1, :1], y.shape)):
        run.failed("offsets", "same token in every row", np.inf, "3 rows at offset 37")


def _view(run: Run) -> Any:
    fn, backend, device = run.subject.fn, run.subject.backend, run.subject.device

    def view(x: Any, positions: Any) -> Any:
        start = starts(host_positions(run, positions))
        if start.size and start.min() < 0:
            raise Inexpressible("no offset is negative")
        offset = np.broadcast_to(start, (x.shape[0],)).astype(positions_kind(positions))
        return fn(x, backend.asarray(offset, str(offset.dtype), device))

    def positions_kind(positions: Any) -> str:
        return "int32" if "int32" in str(positions.dtype) else "int64"

    return view


def _state(run: Run, first: JudgedCall) -> None:
    """The first call once more, and a result that is kept."""
    call: Offset = first.facts
    state.replay(run, lambda: _called(run, call), first.actual, first.case)
    state.kept_result(
        run,
        lambda: run.subject.call(call.x, call.offset),
        lambda: run.subject.call(-call.x, call.offset),
    )
