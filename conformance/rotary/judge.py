"""Judge ``apply``: calls from short to long, then state, then the diagnosis."""

from __future__ import annotations

from functools import partial
from time import process_time

import numpy as np

from posenc_ref.conformance.diagnosis import reproduce
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Driver, Malformed, Refused
from posenc_ref.conformance.harness.located.ask import Wanted
from posenc_ref.conformance.harness.located.record import Record
from posenc_ref.conformance.harness.probes import (  # fmt: skip
    FAR_TOKEN,
    GENERIC,
    ONE_EACH,
    ONE_TOKEN,
    REPORTED,
    SHORT,
    TABLES,
    WIDE,
    WINDOWS,
    dense,
    error_window,
)
from posenc_ref.conformance.harness.reach import Access, longest_call
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.phases import properties
from posenc_ref.conformance.phases.accuracy_by_length import measure_accuracy
from posenc_ref.conformance.phases.declaration import declare, declared_tables
from posenc_ref.conformance.phases.fitted_parameters import judge_fitted
from posenc_ref.conformance.phases.measure import Measured, measure
from posenc_ref.conformance.phases.schedule_mistakes import one_factor, one_schedule

from . import (
    judge_axes,
    judge_crossed,
    judge_equivalence,
    judge_large,
    judge_length,
    judge_robustness,
    proved,
)
from .judge_inputs import optional_inputs, required_inputs

#: The tokens of the first calls that are longer than all before, and far single positions.
_GROWTH = ((1, 2, 8), (1, 2, 16), (2, 8, 64), (1, 32, 128))
_SINGLE = (101, 4095, 32767)
REQUIRED = ("required inputs", "one-hot", "values", "properties", "state", "robustness")


def judge(run: Run) -> None:
    """Judge ``fn(x (B, H, S, D), positions (S,))`` against ``run.encoding``, if there is one."""
    assert run.settings.head_dim is not None
    run.report.required = tuple(r for r in REQUIRED if run.encoding is not None or r != "values")
    if run.encoding is not None:
        several, by_length = run.encoding.num_axes > 1, run.encoding.depends_on_length
        run.report.required += ("axes",) * several + ("lengths",) * by_length
    dim = run.settings.head_dim
    if not required_inputs(run, dim):
        return
    x = run.random((4, 2, SHORT.size, dim), 0)
    first = run.driver.apply(x, SHORT)
    _same_for_every_row(run, dim)
    _growing(run, dim)
    access = Access(run, dim=dim)
    access.learn()
    if run.encoding is not None and run.driver.axes == 1:
        run.ledger.ask = partial(_further, run, dim)
    try:
        limits = one_factor(run.encoding), one_schedule(run.encoding)
        measured = measure(access, run.coarse, *limits)
    except (Refused, Malformed) as error:
        run.raised("inputs with a single channel that is not 0 are refused", error)
        return
    if not np.isfinite(measured.matrices).all():
        n, c, d = (int(i) for i in np.argwhere(~np.isfinite(measured.matrices))[0])
        where = f"channel {d} set to 1 at positions {measured.positions.tolist()}"
        at = f"position {measured.positions[n]}"
        run.add("nonfinite", f"{measured.matrices[n, c, d]} in channel {c} at {at}", where)
        return
    run.report.measured = measured.describe()
    _one_hot(run, access, measured)
    properties.judge(run, access, measured)
    longest, quick = 0, False
    if run.encoding is not None:
        if run.encoding.depends_on_length:
            judge_length.judge(run, access)
        if run.encoding.num_axes > 1:
            judge_axes.judge(run, access)
        longest, quick = _values(run, access, dim)
    refused = optional_inputs(run, dim)
    if run.encoding is not None:
        judge_crossed.judge(run, access, dim, longest, refused, quick)
    _state(run, access, x, first)
    bent = ""
    if not run.report.findings:  # stale values would be reported again under another code
        bent = judge_robustness.judge(run, dim)
    if run.encoding is not None and not _one_length_each(run, access):
        declared = declare(run.encoding)
        tables = declared_tables(access, run.encoding)
        measure_accuracy(run, access, tables, declared)
        if measured.phases is not None and not run.failures:
            judge_fitted(run, tables, measured.phases, declared)
        judge_large.judge(run, dim, quick)
    held = run.report.accuracy.precision if run.report.accuracy else ""
    if bent and "float16" not in held:  # float16 arithmetic has its own code
        run.add("not-linear", bent, "random x at positions 0..4", by="robustness")
    if run.failures:
        from .diagnose import diagnose  # thirty files, which only failures need

        run.explain(diagnose, access, measured)
    of_apply = run.report.surface == "apply" and run.encoding is not None
    if of_apply and set(run.report.codes) == {"state"}:
        from .several import undone

        run.explain(undone.diagnose, judge)
    run.explain(proved.judge, measured)
    if bent and not run.report.codes:
        run.add("not-linear", bent, "random x at positions 0..4", by="robustness")
    if "state" in run.report.codes:
        run.report.measured = ""  # no encoding describes results that depend on earlier calls
    if of_apply:
        run.explain(judge_equivalence.judge, access, measured, judge)
    if of_apply and not run.settings.reduced:
        run.explain(proved.mend, measured, judge)
    if run.failures:
        run.explain(lambda run: reproduce.add(run, access))


def _further(run: Run, dim: int, wanted: Wanted) -> Record | None:
    """Make a call that the diagnosis wants; return None if it is refused."""
    x, positions = run.random((*wanted.sizes, dim), 41), wanted.positions
    try:
        y = run.driver.apply(x, positions, wanted.memory)
    except (Refused, Malformed):
        return None
    truth = apply_truth(run.encoding, x, positions)
    return run.recorded(y, truth, positions)


def _one_length_each(run: Run, access: Access) -> bool:
    """Return whether each position p is judged with the frequencies of a call of length p + 1."""
    return bool(run.encoding.depends_on_length) and access.mode in ("single", "contiguous")


def _same_for_every_row(run: Run, dim: int) -> None:
    """Judge that equal tokens give equal results in every batch row and head."""
    x = np.broadcast_to(run.random((1, 1, 5, dim), 3), (5, 3, 5, dim))
    y = run.driver.apply(np.array(x), np.arange(5))
    run.count("required inputs")
    if not np.array_equal(y, np.broadcast_to(y[:1, :1], y.shape)):
        b, h = (int(i) for i in np.argwhere((y != y[:1, :1]).any(axis=(2, 3)))[0])
        run.failed("required inputs", "same token in every row", np.inf, f"row {b}, head {h}")


def _growing(run: Run, dim: int) -> None:
    """Judge calls of 8, 16, 64 and 128 tokens, each the first that is so long.

    A table that grows to a power of two may lack the last row then.
    """
    if run.encoding is None or run.settings.reduced or run.driver.axes > 1:
        return
    for size in _GROWTH:
        x, at = run.random((*size, dim), size[-1]), np.arange(size[-1])
        try:
            y = run.driver.apply(x, at)
        except Refused:  # the larger calls that follow say so
            return
        case = f"B, H, S = {size}"
        run.judge("required inputs", case, y, apply_truth(run.encoding, x, at))
        last = size == _GROWTH[-1]
        wanted = run.failures or (last and run.encoding.depends_on_length)
        if wanted and (last or size == _GROWTH[0]) and "state" not in run.report.codes:
            state.twice(run, partial(run.driver.apply, x, at), y, case)
            if any(f.message == state.CHANGES for f in run.report.findings):
                from .several import moving  # which only functions with state need

                run.explain(moving.diagnose, judge)


def _one_hot(run: Run, access: Access, measured: Measured) -> None:
    """Judge every channel alone; channels passed through must be bit-equal."""
    dim = measured.matrices.shape[1]
    x = np.broadcast_to(np.eye(dim)[:, None], (dim, measured.positions.size, dim))
    y = measured.matrices.transpose(2, 0, 1)
    if run.encoding is None:
        run.count("one-hot")
        return
    at = measured.positions
    truth = apply_truth(run.encoding, np.array(x), at, access.lengths(at))
    run.judge("one-hot", "one channel at a time", y, truth)


def _values(run: Run, access: Access, dim: int) -> tuple[int, bool]:
    """Judge long calls and high positions.

    Return the most tokens if longer calls are refused, and whether the first call at a high
    position took no processor time for a table.
    """
    longest = 0
    for size in WIDE if not run.settings.reduced else ():
        if run.settings.allows(size[-1] - 1):
            longest = _wide(run, dim, size, longest)
    highest, quick = _timed(access, int(GENERIC[-1]))
    groups = {"generic positions": GENERIC}
    groups |= {f"window at {start}": np.arange(start, start + 9) for start in WINDOWS}
    if access.mode != "prefix":
        farther, again = _timed(access, REPORTED[-1] - 1)
        highest, quick = max(highest, farther), quick or again
        groups |= {f"end of a context of {n}": error_window(n) for n in REPORTED}
        # Other surfaces may need a call for each token.
        tables = TABLES if run.report.surface == "apply" else ()
        groups |= {f"end of a table of {n} rows": np.arange(n - 3, n) for n in tables}
    groups["the last positions"] = np.arange(max(highest - 8, 0), highest + 1)
    if run.settings.reduced:
        groups = {"all of these positions": np.unique(np.concatenate([*groups.values()]))}
    for case, positions in groups.items():
        positions = positions[positions <= highest]
        if positions.size:
            x = run.random((1, 2, positions.size, dim), 5)
            truth = apply_truth(run.encoding, x, positions, access.lengths(positions))
            run.judge("values", case, access.rows(x, positions), truth, at=positions)
    if access.mode != "prefix" and highest >= 37:  # decoding: one token per row
        x, positions = run.random((3, 2, 1, dim), 6), np.array([37])
        y, truth = run.driver.apply(x, positions), apply_truth(run.encoding, x, positions)
        first = np.arange(3)[:, None, None, None] == 0
        run.judge("values", ONE_TOKEN, y, truth, first)
        run.judge("values", ONE_EACH, y, truth, ~first)
        far = {min(p, highest) for p in (*_SINGLE, int(GENERIC[-1]))}
        for p in sorted(far) if not run.settings.reduced else ():
            x, at = run.random((3, 2, 1, dim), 7), np.array([p])
            y, truth = run.driver.apply(x, at), apply_truth(run.encoding, x, at)
            run.judge("values", f"{FAR_TOKEN} {p}", y, truth, at=at)
    return longest, quick


def _timed(access: Access, position: int) -> tuple[int, bool]:
    """Return the highest accepted position, and whether it took no time for a table."""
    start = process_time()
    highest = access.reach(position)
    return highest, process_time() - start < judge_large.seconds(position)


def _wide(run: Run, dim: int, size: tuple[int, int, int], known: int = 0) -> int:
    """Judge a larger call from position 0, or the longest one that is accepted.

    If the call is refused, search for the largest accepted number of tokens and return it. The
    search starts at ``known``, the result for an earlier size. Otherwise return ``known``.
    """
    x = run.random((*size, dim), size[-1])
    tokens = size[-1]
    try:
        y = run.driver.apply(x, np.arange(tokens))
    except Refused as error:
        if run.driver.axes > 1 and judge_axes.whole_grid(run, x, error):
            return known
        accepts = lambda n: run.driver.accepts(x[:, :, :n], np.arange(n))  # noqa: E731
        tokens = longest_call(accepts, tokens, known)
        if not tokens or tokens != known:
            run.limit(f"B, H, S = {size}: refused ({error})")
        if not tokens:
            return known
        known, x = tokens, x[:, :, :tokens]
        y = run.driver.apply(x, np.arange(tokens))
    run.reached(tokens - 1)
    case = f"B, H, S = {(*size[:2], tokens)}"
    run.judge("values", case, y, apply_truth(run.encoding, x, np.arange(tokens)))
    return known


def _state(run: Run, access: Access, x: np.ndarray, first: np.ndarray) -> None:
    """Judge repeated calls, calls of equal length at other positions, and a kept result."""
    driver, dim = run.driver, access.dim
    what = f"positions 0..{SHORT[-1]}"
    again = driver.apply(x, SHORT)
    if not judge_length.kept_lengths(run, x, SHORT, (first, again)):
        state.same_again(run, again, first, what, lambda: driver.apply(x, SHORT))
    one, two = driver.arguments(x, SHORT), driver.arguments(-x, SHORT)
    state.kept_result(run, lambda: driver.call(*one), lambda: driver.call(*two))
    if run.encoding is not None and run.encoding.num_axes > 1:
        judge_axes.stale(run, access)
    if run.encoding is None or access.mode == "prefix":
        return
    given = driver.rounded(dense((1, 2, 16, dim), run.settings.seed + 8))

    def evaluate(positions: np.ndarray) -> np.ndarray:
        return driver.apply(given[:, :, : positions.size], positions)

    def right(y: np.ndarray, positions: np.ndarray) -> bool:
        return run.fits(y, apply_truth(run.encoding, given[:, :, : positions.size], positions))

    if access.mode == "single":
        return
    state.same_length(run, evaluate, right)
    steps = run.driver.pace.grants(4, "calls of one token in turn")
    if run.report.surface == "apply" and steps:  # others may need many calls for each token
        state.steps(run, evaluate, right)
    tried = run.failures or "state" in run.ledger.failing
    # Where each token is a call (reduced), all four calls share values: none of them tells.
    if not (tried or run.settings.reduced) and run.driver.axes == 1:
        state.two_dtypes(run, partial(_right_in, run, dim))
    if run.failures and run.report.surface == "apply":  # others may need a call for each token
        state.kept_table(run, lambda positions: _fits(run, dim, positions))


def _right_in(run: Run, dim: int, driver: Driver, tokens: int) -> bool:
    """Return whether a call of a driver, from position 0 on, is right."""
    x, positions = run.random((1, 2, tokens, dim), tokens), np.arange(tokens)
    return run.fits(driver.apply(x, positions), apply_truth(run.encoding, x, positions))


def _fits(run: Run, dim: int, positions: np.ndarray) -> bool:
    """Return whether a call at these positions is right."""
    x = run.random((1, 1, positions.size, dim), 22)
    return run.fits(run.driver.apply(x, positions), apply_truth(run.encoding, x, positions))
