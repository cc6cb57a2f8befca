"""Judge ``add`` and ``grid``: a table added to x, and a table over the patches of an image.

The error coefficients A and B (see :mod:`posenc_ref.accuracy`) are those of the table; for ``add``,
``A = |x| + |PE|``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, starmap, tee
from typing import Any

import numpy as np

from posenc_ref import Learned, Sinusoidal
from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance.diagnosis.drive import Probe, drive, drive_crossed, one_result
from posenc_ref.conformance.diagnosis.match import failed, fits, judge_call, likely, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake, each_part, mistakes
from posenc_ref.conformance.diagnosis.together import match_together
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.crossing import Crossing
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.plural import rooted
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.rotary.as_apply import Inexpressible, host_positions, seen_as, starts
from posenc_ref.conformance.rotary.diagnose_state import name_grown

from . import judge as judge_tables
from .column_order import columns_used, report_order
from .formulas import changed_constants, changed_steps
from .judge_features import read_rows, table_mistakes
from .kept_rows import in_turn, kept_from_first, last_rows
from .mistakes import looked_up
from .places_used import name_places
from .reference import longest, rows_of
from .remedies import of_step, row_of
from .rows_used import SeenRows, name_rows
from .sum_mistakes import UNSCALED, Added, of_sum, sum_factors, sum_mistakes, sum_pairs, sum_steps
from .together import name_together

#: (B, S): fewer rows than tokens, more rows than tokens, one row, one token.
SIZES = ((2, 5), (1, 3), (5, 2), (3, 1), (4, 4), (2, 16))
#: (B, S) of larger calls, which may be refused.
LONG = ((1, 130), (2, 600), (1, 2050))
#: (B, S) of calls that could refute a cause which explains all others.
REFUTING = ((3, 3), (2, 21), (7, 1))
#: The calls that are compared with calls of x = 0.
_COMPARED = 5
#: Sizes of grids that could refute one.
REFUTING_GRIDS = ((3, 5), (6, 6), (8, 3))
#: Sizes of small calls of which every two meet in a call.
CROSSED = {"B": (1, 2, 5), "S": (1, 3, 8, 13, 31, 45, 127)}
#: Sizes of small grids of which every two meet.
CROSSED_GRIDS = {"height": (1, 2, 3, 7, 16), "width": (1, 2, 3, 7, 16)}
#: (height, width): wide and high grids, so that exchanged axes show.
GRIDS = ((2, 3), (3, 2), (1, 4), (4, 1), (4, 4), (5, 7), (14, 14), (16, 16), (24, 32))


def judge_add(run: Run) -> None:
    """Judge ``fn(x (B, S, dim))``, the sum of x and rows 0 .. S-1 of a table.

    If no known mistake explains the failures, calls with x = 0 are judged as a table.
    """
    encoding, driver = run.encoding, run.driver
    run.report.required = ("sums", "state")
    driver.keeps_dtype = True
    last = min(longest(encoding) - 1, run.settings.up_to(2**40))

    def probe(b: int, s: int) -> Probe:
        x = run.random((b, s, encoding.dim), b + s)
        call = Added(encoding, x, lambda p: rows_of(run, encoding, p))
        return Probe("sums", f"x of shape {x.shape}", call, (b, s) in SIZES)

    ask = one_result(lambda call: _sum(run, call.x))
    calls = drive(run, (probe(b, s) for b, s in (*SIZES, *LONG) if s <= last + 1), ask)
    if not calls:
        return
    sizes = {**CROSSED, "S": tuple(s for s in CROSSED["S"] if s <= last + 1)}
    if not run.settings.reduced:
        crossing = Crossing(sizes, seed=run.settings.seed)
        calls += drive_crossed(run, crossing, lambda row: probe(row["B"], row["S"]), ask)

    def zeros(length: int) -> Any:
        x = np.zeros((1, length, encoding.dim))
        return driver.fn(driver.backend.asarray(x, driver.dtype, driver.device))[0]

    named = chain(kept_from_first(run, calls), sum_mistakes(encoding), sum_factors(run, calls[0]))
    known = chain(named, likely(run, calls, sum_steps(run, calls[0].facts)))
    further = partial(_further, ask, [probe(b, s) for b, s in REFUTING if s <= last + 1])
    # A match with nothing to explain is no explanation: the table is judged too.
    explained = match(run, calls, known, further=further) and run.report.codes
    if not explained:
        longer = lambda: in_turn([*calls, *further()])[len(calls) :]  # noqa: E731
        explained = name_grown(run, in_turn(calls), longer) and run.report.codes
    if not explained:
        kept = match(run, in_turn(calls), last_rows(), parts=False, whole=True, further=longer)
        explained = kept and run.report.codes
    wrong = failed(run, calls)
    if not explained and wrong:
        rows = [one for one in sum_mistakes(encoding) if one.code != "amplitude"]
        pairs = sum_pairs(run, calls, [*rows, *sum_steps(run, calls[0].facts)])
        explained = match_together(run, calls, pairs, further) and run.report.codes
    if not explained and not name_rows(run, list(_seen_rows(calls))):
        recipe = "lambda p: fn(np.zeros((1, len(p), dim)))[0]"
        with seen_as(run, _from_zero(run, zeros), encoding, recipe) as viewed:
            judge_tables.judge_table(viewed)
        if wrong:
            _factor_on_x(run, calls, zeros)
    if wrong and not run.report.codes:
        name_together(run, calls, further, of_sum, np.arange(calls[0].facts.x.shape[1]))
    first = calls[0].facts.x
    state.replay(
        run, lambda: _sum(run, first), calls[0].actual, calls[0].case, calls[0].truth.value
    )
    state.kept_result(run, lambda: driver.call(first), lambda: driver.call(-first))


def _factor_on_x(run: Run, calls: Sequence[JudgedCall], zeros: Callable[[int], Any]) -> None:
    """Report that x is multiplied by a number: the results differ so from those of x = 0."""
    factors = []
    for one in sorted(calls, key=lambda call: call.actual.size)[:_COMPARED]:
        x = one.facts.x
        with suppress(Refused, Malformed):
            rows = np.asarray(run.driver.array(zeros(x.shape[1])), np.float64)
            c = float((x * (one.actual - rows)).sum() / (x * x).sum())
            value = c * x + rows
            size = np.abs(c * x) + 2 * np.abs(rows)
            truth = Truth(value, size, np.zeros_like(value))
            if not np.isfinite(c) or not fits(run, replace(one, mask=None), truth):
                return
            factors.append(c)
    near = 64 * ROUNDOFF[run.dtype]
    if not factors or np.ptp(factors) > near * abs(factors[0]) or abs(factors[0] - 1) <= near:
        return
    text = f"x is multiplied by {rooted(factors[0], near)}"
    evidence = f"{len(factors)} calls, compared with calls of x = 0, differ by this multiple of x"
    run.add("amplitude", text, evidence, remedy=UNSCALED, by=None)


def _further(
    ask: Callable[[Probe], Sequence[JudgedCall]], probes: Sequence[Probe]
) -> Iterator[JudgedCall]:
    """Make calls of other sizes, which could refute a cause."""
    for one in probes:
        with suppress(Refused, Malformed):
            yield from ask(one)


def _seen_rows(calls: Sequence[JudgedCall]) -> Iterator[SeenRows]:
    """Yield the rows that were added in each call, in the order in which they were made."""
    tokens = every = 0
    for n, one in enumerate(calls):
        x = one.facts.x
        rows = longest(one.facts.encoding)
        rows = rows if rows < 2**40 else 0
        before = (n, tokens, every)
        at = np.arange(x.shape[1])
        yield SeenRows(one.case, one.actual - x, np.abs(x), at, rows, before=before)
        tokens, every = tokens + x.shape[1], every + x.shape[0] * x.shape[1]


def _sum(run: Run, x: np.ndarray) -> np.ndarray:
    y = run.driver.array(run.driver.call(x))
    if y.shape != x.shape:
        raise Malformed(f"expected shape {x.shape}, as x has, got {y.shape}")
    run.reached(x.shape[1] - 1)
    return y


def _from_zero(run: Run, call: Callable[[int], Any]) -> Callable[[Any], Any]:
    """Return ``call(length)`` as a function of the positions 0 .. length - 1."""

    def view(positions: Any) -> Any:
        p = host_positions(run, positions)
        if starts(p) != 0:
            raise Inexpressible("every call starts at position 0")
        return call(int(p.size))

    return view


def judge_grid(run: Run) -> None:
    """Judge ``fn(height, width)``: the rows of all patches, numbered row by row."""
    encoding = run.encoding
    run.report.required = ("grids", "state")
    asked: list[tuple[int, int]] = []

    def patches(size: tuple[int, int]) -> np.ndarray:
        asked.append(size)
        return _patches(run, *size)

    ask = one_result(
        patches,
        lambda size: rows_of(run, encoding, encoding.grid_positions(*size)),
    )

    def probe(h: int, w: int) -> Probe | None:
        if (h * w if encoding.num_axes == 1 else max(h, w)) > longest(encoding):
            return None
        return Probe("grids", f"a grid of {h} x {w}", (h, w), False)

    seen: list[JudgedCall] = []
    everywhere = True
    for one in filter(None, (probe(*size) for size in GRIDS)):
        try:
            found = ask(one)
        except Refused as error:
            run.limit(f"{one.case}: refused ({error})")
            everywhere = False
            continue
        except Malformed as error:
            if run.failures:  # the table is wrong, and too short for this grid
                everywhere = False
                break
            run.add(error.code, str(error), one.case)
            return
        if not run.floats_only():
            return
        seen += [judge_call(run, "grids", call) for call in found]
    if not seen and not asked:
        run.limit(f"no grid is judged: each that is tried has more than {longest(encoding)} rows")
        return
    if not seen:
        run.add("raises", "all grids are refused", run.report.limits[-1])
        return
    if everywhere and not run.settings.reduced:
        crossing = Crossing(CROSSED_GRIDS, seed=run.settings.seed)
        seen += drive_crossed(run, crossing, lambda row: probe(row["height"], row["width"]), ask)
    h, w = seen[0].facts
    state.replay(
        run, lambda: _patches(run, h, w), seen[0].actual, seen[0].case, seen[0].truth.value
    )
    every = chain(
        _grid_mistakes(run),
        _kept_grids(run, asked),
        table_mistakes(run, lambda t, size: t.grid_positions(*size)),
    )
    steps = likely(run, seen, changed_steps(run, seen[0].facts))
    twice = table_mistakes(run, lambda t, size: t.grid_positions(*size), twice=True)
    more = partial(_further, ask, [p for p in starmap(probe, REFUTING_GRIDS) if p])
    constants = changed_constants(run, seen[0].facts)
    known, again = tee(chain(every, steps, twice, constants))
    if match(run, seen, known, further=more, whole=True) and run.report.codes:
        return
    if (
        not run.failures
        or run.report.codes
        or name_places(run, seen, more)
        or _reordered(run, seen)
    ):
        return
    if (order := columns_used(run, seen)) is not None:
        report_order(run, order)
        return
    if name_together(run, seen, more):
        return
    match(run, seen, again, parts=False)
    if isinstance(encoding, Sinusoidal | Learned) and not run.report.codes:
        view = _from_zero(run, lambda width: run.driver.fn(1, width))
        with seen_as(run, view, encoding, "lambda p: fn(1, len(p))") as viewed:
            judge_tables.judge_table(viewed)


def _reordered(run: Run, seen: list[JudgedCall]) -> bool:
    """Report patches in an unknown order; return whether each wrong grid is a permutation."""
    for one in failed(run, seen):
        rows = one.truth.value
        order = [int(np.argmin(np.abs(rows - row).max(axis=1))) for row in one.actual]
        found = each_part(one.truth, lambda part: np.broadcast_to(part, rows.shape)[order])  # noqa: B023
        if len(set(order)) < len(order) or not fits(run, one, found):
            return False
        remedy = of_step(run.encoding, "the patches")
        run.add(
            "token-order", "the patches are permuted", f"{one.case}: {order[:12]}", remedy=remedy
        )
    return True


def _patches(run: Run, h: int, w: int) -> np.ndarray:
    table = read_rows(run, run.driver.call(h, w), h * w)
    run.reached(h * w - 1)
    return table


def _kept_grids(run: Run, asked: list[tuple[int, int]]) -> Iterator[Mistake]:
    """Yield tables kept from the first of the ``asked`` grids that is alike in some number."""
    for words, key in (
        ("with as many patches", lambda h, w: h * w),
        ("of the same two sides, in either order", lambda h, w: {h, w}),
    ):

        def kept(size: tuple[int, int], key: Any = key) -> Truth:
            first = next(one for one in asked if key(*one) == key(*size))
            return rows_of(run, run.encoding, run.encoding.grid_positions(*first))

        yield Mistake(
            "state",
            f"a grid gets the table of the first grid {words}",
            looked_up(kept),
            "Keep tables under (height, width), or compute them anew.",
        )


def _grid_mistakes(run: Run) -> Iterator[Mistake]:
    def at(number: Callable[[np.ndarray, np.ndarray, int, int], np.ndarray]) -> Any:
        """Return a prediction of grids in which ``number(y, x, h, w)`` is patch (y, x)'s number."""

        def rows(size: tuple[int, int]) -> Truth:
            h, w = size
            y, x = np.divmod(np.arange(h * w), w)
            at = number(y, x, h, w)
            if run.encoding.num_axes > 1:
                at = run.encoding.grid_positions(h, w)[:, at]
            return rows_of(run, run.encoding, at)

        return looked_up(rows)

    def by_columns(y: np.ndarray, x: np.ndarray, h: int, w: int) -> np.ndarray:
        token = y * w + x
        return np.asarray((token % h) * w + token // h)

    rows = (
        ("patches are numbered column by column", lambda y, x, h, w: x * h + y),
        ("tokens are listed column by column", by_columns),
        ("patch (y, x) has the number y * height + x", lambda y, x, h, w: y * h + x),
        ("rows of patches come from bottom to top", lambda y, x, h, w: (h - 1 - y) * w + x),
        ("columns of patches come from right to left", lambda y, x, h, w: y * w + w - 1 - x),
        (
            "patches are numbered from the last to the first",
            lambda y, x, h, w: h * w - 1 - y * w - x,
        ),
        (
            "every other row of patches comes from right to left",
            lambda y, x, h, w: y * w + np.where(y % 2 == 1, w - 1 - x, x),
        ),
        ("the numbers of each row of patches start at 0", lambda y, x, h, w: x),
        ("the numbers of each column of patches start at 0", lambda y, x, h, w: y),
    )
    remedy = of_step(run.encoding, "the patches")
    yield from mistakes("token-order", at, *((*row, remedy) for row in rows))
    text = "every patch has the next row of the table, as if row 0 belonged to a [CLS] token"
    remedy = "Give patch n row n of the table; a [CLS] token is not among the patches here."
    yield Mistake("table-offset", text, at(lambda y, x, h, w: y * w + x + 1), remedy)
    offset = getattr(run.encoding, "offset", 0)
    if offset and run.encoding.num_axes == 1:
        text = f"the table's offset {offset} is missing"
        yield Mistake(
            "table-offset", text, at(lambda y, x, h, w: y * w + x - offset), row_of(offset)
        )
