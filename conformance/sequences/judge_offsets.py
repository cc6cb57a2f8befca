"""Judge ``apply_offset``: calls whose rows start at given offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref.conformance.diagnosis.drive import Probe, drive, one_result
from posenc_ref.conformance.diagnosis.localize import name_pattern
from posenc_ref.conformance.diagnosis.match import match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Malformed
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

#: (B, H, S), and a different offset for each row; one case has a single token per row.
ROWS: tuple[tuple[tuple[int, int, int], tuple[int, ...]], ...] = (
    ((2, 3, 5), (3, 9)),
    ((3, 2, 1), (7, 0, 12)),
    ((2, 2, 2), (1, 5)),
    ((4, 3, 2), (0, 41, 5, 300)),
    ((3, 1, 4), (4093, 17, 65530)),
)
#: (B, H, S), and one offset for all rows.
ALIKE = (((2, 3, 5), 6), ((3, 2, 1), 37), ((1, 2, 4), 1021))
#: Larger offsets may be refused.
REQUIRED = 37


def judge(run: Run) -> None:
    """Judge ``fn(x (B, H, S, D), offset (B,))``: row b starts at ``offset[b]``.

    If no known mistake is found, the function is then judged as ``apply``.
    """
    encoding = alike(run.encoding)
    run.report.required = ("required inputs", "offsets", "state")
    ask = one_result(lambda call: _called(run, call))
    calls = drive(run, _probes(run, encoding), ask)
    if calls is None:
        return
    _same_token(run, encoding)
    if match(run, calls, offset_mistakes()) and run.report.codes:
        _state(run, calls[0])
        return
    recipe = "lambda x, p: fn(x, np.full(len(x), p[0]))"
    judge_as_apply(run, _view(run), encoding, recipe)
    _state(run, calls[0])
    if run.failures and not run.report.codes:
        name_pattern(run, calls, "decode-offset", "calls that start at an offset are wrong")


def _probes(run: Run, encoding: Any) -> Iterator[Probe]:
    """Yield calls with offset 0, with equal offsets in all rows, then with different ones."""
    for size in SIZES:
        yield _probe(run, encoding, "required inputs", size, (0,) * size[0])
    for size, start in ALIKE:
        yield _probe(run, encoding, "offsets", size, (start,) * size[0], start <= REQUIRED)
    for size, offset in ROWS:
        if not run.settings.allows(max(offset) + size[2]):
            continue
        if not one_table(encoding, [b + size[2] for b in offset]):
            run.limit(f"offsets {list(offset)}: their rows have different frequencies; not judged")
            continue
        words = f"rows with different offsets, {list(offset)}"
        yield replace(_probe(run, encoding, "offsets", size, offset, False), words=words)


def _probe(
    run: Run,
    encoding: Any,
    check: str,
    size: tuple[int, int, int],
    offset: Sequence[int],
    required: bool = True,
) -> Probe:
    call = _input(run, encoding, size, offset)
    words = f"x of shape {call.x.shape}, offset {list(offset)}" if required else ""
    return Probe(check, f"B, H, S = {size} at offset {list(offset)}", call, required, words)


def _input(run: Run, encoding: Any, size: tuple[int, int, int], offset: Sequence[int]) -> Offset:
    x = run.random((*size, encoding.head_dim), sum(size))
    return Offset(encoding, x, np.array(offset))


def _called(run: Run, call: Offset) -> np.ndarray:
    y = run.driver.array(run.driver.call(call.x, call.offset))
    if y.shape != call.x.shape:
        raise Malformed(f"expected shape {call.x.shape}, as x has, got {y.shape}")
    run.reached(int(call.positions.max()))
    return y


def _same_token(run: Run, encoding: Any) -> None:
    """Judge that the same token gives the same result in every row at the same offset."""
    call = _input(run, encoding, (1, 1, 1), (37,))
    x = np.broadcast_to(call.x, (3, 2, 1, encoding.head_dim)).copy()
    y = _called(run, Offset(encoding, x, np.full(3, 37)))
    run.count("offsets")
    if not np.array_equal(y, np.broadcast_to(y[:1, :1], y.shape)):
        run.failed("offsets", "same token in every row", np.inf, "3 rows at offset 37")


def _view(run: Run) -> Any:
    fn, backend, device = run.driver.fn, run.driver.backend, run.driver.device

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
    """Judge a repetition of the first call, and a kept result."""
    call: Offset = first.facts
    state.replay(run, lambda: _called(run, call), first.actual, first.case)
    state.kept_result(
        run,
        lambda: run.driver.call(call.x, call.offset),
        lambda: run.driver.call(-call.x, call.offset),
    )
