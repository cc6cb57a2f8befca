"""Judge ``apply_offset``: calls whose rows start at given offsets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from posenc_ref.conformance.diagnosis.drive import Probe, drive, drive_crossed, one_result, reached
from posenc_ref.conformance.diagnosis.match import match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.relation import name_place
from posenc_ref.conformance.harness.crossing import Crossing, Row
from posenc_ref.conformance.harness.probes import AROUND, NEAR, SIZES
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.calls import one_table
from posenc_ref.conformance.oracle.transforms import alike
from posenc_ref.conformance.phases.positions_used import name_positions
from posenc_ref.conformance.rotary.as_apply import Inexpressible, judge_as_apply

from . import rest
from .axis_starts import axis_starts
from .call import called, first_positions, judge_repetition
from .offset_mistakes import Offset, offset_mistakes, row_orders, scaled_parts

#: (B, H, S), and a different offset for each row; one case has a single token per row. Where there
#: are four rows, the first, the last, the smallest and the largest offset are those of four rows.
ROWS: tuple[tuple[tuple[int, int, int], tuple[int, ...]], ...] = (
    ((2, 3, 5), (3, 9)),
    ((4, 2, 1), (7, 12, 0, 3)),
    ((2, 2, 2), (1, 5)),
    ((4, 3, 2), (5, 300, 0, 41)),
    ((3, 1, 4), (4093, 17, 65530)),
)
#: (B, H, S), and one offset for all rows; one call has more tokens than a tile of a kernel.
ALIKE = (((2, 3, 5), 6), ((3, 2, 1), 37), ((1, 2, 4), 1021), ((1, 2, 130), 41))
#: Calls that could refute a rule found in the others.
FURTHER: tuple[tuple[tuple[int, int, int], tuple[int, ...]], ...] = (
    ((4, 2, 7), (11, 30, 2, 14)),
    ((2, 3, 37), (9, 64)),
    ((5, 1, 3), (30, 2, 50, 11, 7)),
    ((3, 3, 4), (8, 40, 1)),
    ((4, 4, 1), (19, 6, 33, 2)),
    ((3, 2, 3), (21, 4, 33)),
)
#: Sizes and offsets of which every two meet; far offsets are around these positions.
CROSSED: dict[str, tuple[Any, ...]] = {
    "B": (1, 2, 5), "H": (1, 2, 9), "S": (1, 2, 17, 129), "offsets": ("equal", "different"),
    "range": (NEAR, *AROUND[:-1]),
}  # fmt: skip
#: The most tokens of all rows and heads of such a call.
MOST = 400
#: Larger offsets may be refused.
REQUIRED = 37


def judge(run: Run) -> None:
    """Judge ``fn(x (B, H, S, D), offset (B,))``: row b starts at ``offset[b]``.

    If no known mistake is found, the function is then judged as ``apply``.
    """
    encoding = alike(run.encoding)
    run.report.required = ("required inputs", "offsets", "state")
    calls = drive(run, _probes(run, encoding), one_result(partial(_called, run)))
    if calls is None:
        return
    if not run.settings.reduced:
        ask, most = one_result(partial(_called, run)), CROSSED["S"][-1]
        allowed = [n for n in CROSSED["range"][1:] if run.settings.allows(n + most)]
        last = partial(_probe, run, encoding, "offsets", (1, 1, most), required=False)
        far = reached(run, allowed, lambda n: last([n - most // 2]), ask)
        levels = CROSSED | {"range": (NEAR, *far)}
        crossing = Crossing(levels, _allowed, run.settings.seed, ("offsets", "range"))
        calls += drive_crossed(run, crossing, partial(_crossed, run, encoding), ask)
    _same_token(run, encoding)
    further = partial(_further, run, encoding)
    of_axes = axis_starts(run.encoding, "the offset")
    known = chain(offset_mistakes(), row_orders(), scaled_parts(), of_axes)
    found = match(run, calls, known, parts=False, further=further) and run.report.codes
    between = partial(_from_to, run, encoding)
    if not found and not name_positions(run, calls, "decode-offset", further, between=between):
        recipe = "lambda x, p: fn(x, np.full(len(x), p[0]))"
        judge_as_apply(run, partial(_view, run), encoding, recipe)
        rest.diagnose(run, calls, _name_left)
    judge_repetition(run, calls[0], calls[0].facts.offset)
    if run.failures and not run.report.codes:
        name_place(run, calls, "decode-offset", "calls with an offset give wrong results")


def _name_left(run: Run, calls: list[JudgedCall]) -> object:
    """Report the mistake that calls show which are judged against a rotation that was found."""
    further = partial(_further, run, run.encoding)
    known = chain(offset_mistakes(), row_orders(), scaled_parts())
    if match(run, calls, known, parts=False, whole=True, further=further) and run.report.codes:
        return True
    between = partial(_from_to, run, run.encoding)
    return name_positions(run, calls, "decode-offset", further, between=between)


def _called(run: Run, call: Offset) -> np.ndarray:
    return called(run, int(call.positions.max()), call.x, call.offset)


def _probes(run: Run, encoding: Any) -> Iterator[Probe]:
    """Yield calls with offset 0, with equal offsets in all rows, then with different ones."""
    for size in SIZES:
        yield _probe(run, encoding, "required inputs", size, (0,) * size[0])
    for size, start in ALIKE:
        if not run.settings.allows(start + size[2] - 1):
            continue
        yield _probe(run, encoding, "offsets", size, (start,) * size[0], start <= REQUIRED)
    for size, offset in ROWS:
        if not run.settings.allows(max(offset) + size[2]):
            continue
        if not one_table(encoding, [b + size[2] for b in offset]):
            run.limit(
                f"offsets {list(offset)}: not judged, because the rows need different frequencies"
            )
            continue
        words = f"rows with different offsets, {list(offset)}"
        yield replace(_probe(run, encoding, "offsets", size, offset, False), words=words)


def _allowed(row: Row) -> bool:
    """Return whether a call, or a part of one, is small enough; one row has no other offset."""
    if row.get("B") == 1 and row.get("offsets") == "different":
        return False
    return int(math.prod(row.get(name, 1) for name in ("B", "H", "S"))) <= MOST


def _crossed(run: Run, encoding: Any, row: Row) -> Probe | None:
    """Return the call of a row, or None if its rows need different frequencies."""
    b, h, s, form, around = row.values()
    offset = np.full(b, 5 if around == NEAR else around - s // 2)
    if form == "different":  # all are larger than 0
        apart = 2 if around == NEAR else around // 3
        offset -= apart * (np.arange(b) % 3)
    if not (run.settings.allows(int(offset.max()) + s) and one_table(encoding, [*offset + s])):
        return None
    return _probe(run, encoding, "offsets", (b, h, s), offset.tolist(), required=False)


def _further(run: Run, encoding: Any) -> Iterator[JudgedCall]:
    """Make calls that could refute a rule for positions."""
    ask = one_result(partial(_called, run))
    for size, offset in FURTHER:
        yield from ask(_probe(run, encoding, "offsets", size, offset, False))


def _from_to(run: Run, encoding: Any, low: int, high: int) -> Iterator[JudgedCall]:
    """Make a call with the tokens from ``low`` to ``high``."""
    if run.settings.allows(high):
        size, ask = (1, 2, high - low + 1), one_result(partial(_called, run))
        yield from ask(_probe(run, encoding, "offsets", size, (low,), False))


def _probe(
    run: Run,
    encoding: Any,
    check: str,
    size: tuple[int, int, int],
    offset: Sequence[int],
    required: bool = True,
) -> Probe:
    x = run.random((*size, encoding.head_dim), sum(size))
    words = f"x of shape {x.shape}, offset {list(offset)}" if required else ""
    call, case = Offset(encoding, x, np.array(offset)), f"B, H, S = {size} at offset {list(offset)}"
    return Probe(check, case, call, required, words)


def _same_token(run: Run, encoding: Any) -> None:
    """Judge that the same token gives the same result in every row at the same offset."""
    token = run.random((1, 1, 1, encoding.head_dim), 3)
    y = _called(run, Offset(encoding, np.tile(token, (3, 2, 1, 1)), np.full(3, 37)))
    run.count("offsets")
    if not np.array_equal(y, np.broadcast_to(y[:1, :1], y.shape)):
        run.failed("offsets", "same token in every row", np.inf, "3 rows at offset 37")


def _view(run: Run, x: Any, positions: Any) -> Any:
    start = first_positions(run, positions)
    if start.size and start.min() < 0:
        raise Inexpressible("no offset is negative")
    kind = "int32" if "int32" in str(positions.dtype) else "int64"
    offset = np.broadcast_to(start, (x.shape[0],)).astype(kind)
    return run.driver.fn(x, run.driver.backend.asarray(offset, kind, run.driver.device))
