"""Judge ``calls``: independent calls of one instance; earlier calls must not affect later ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.diagnosis.drive import Probe, drive, drive_crossed, reached
from posenc_ref.conformance.diagnosis.match import failed, likely, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.relation import name_place
from posenc_ref.conformance.diagnosis.together import after_one, match_together
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.crossing import Crossing, Row
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.transforms import alike
from posenc_ref.conformance.phases.positions_used import name_positions
from posenc_ref.conformance.rotary.as_apply import Inexpressible, judge_as_apply
from posenc_ref.conformance.rotary.judge_length import lengths_of

from . import rest
from .axis_starts import axis_starts
from .call import first_positions
from .call_mistakes import ENDS, InTurn, counters, kept, overwritten, state_mistakes
from .grown_state import name_growth
from .kept_lengths import calls_in_turn
from .kept_tables import Call, grown_tables, last_rows, moved_tables
from .offset_mistakes import offset_mistakes
from .shared_memory import written_last

#: Single calls of distinct lengths, so that no cache keyed by the length is hit.
ALONE: tuple[tuple[Call, ...], ...] = ((((2, 3, 5), 0),), (((2, 3, 6), 7),), (((3, 2, 1), 37),))
SEQUENCES: dict[str, tuple[Call, ...]] = {
    "one length, other offsets": (((1, 2, 11), 20), ((1, 2, 11), 50), ((1, 2, 11), 0)),
    "short, long, short": (((1, 2, 4), 0), ((1, 2, 96), 0), ((1, 2, 4), 0)),
    "prompt, new tokens": (((2, 3, 6), 0), ((2, 3, 1), 6), ((2, 3, 1), 7), ((2, 3, 2), 8)),
    "two sequences in turn": (((1, 2, 5), 0), ((1, 2, 3), 0), ((1, 2, 1), 5), ((1, 2, 1), 3)),
    "one call three times": (((1, 2, 6), 2), ((1, 2, 6), 2), ((1, 2, 6), 2)),
    "one position, other x": (((1, 2, 6), 2), ((1, 2, 6), 2), ((1, 2, 6), 2)),
    "other batches": (((1, 2, 3), 4), ((3, 2, 3), 4), ((2, 1, 3), 4)),
    "on and back": (((1, 1, 8), 0), ((1, 1, 8), 8), ((1, 1, 8), 16), ((1, 1, 8), 0)),
    "past 4096 and back": (((1, 2, 4), 0), ((1, 2, 3), 5000), ((1, 2, 4), 0), ((1, 2, 3), 9)),
    "offsets of the same low bits": (
        ((1, 2, 9), 5),
        ((1, 2, 9), 5 + 2**8),
        ((1, 2, 9), 5 + 2**12),
        ((1, 2, 9), 5 + 2**16),
    ),
    "2049 tokens, then three": (((1, 1, 3), 0), ((1, 1, 2049), 0), ((1, 1, 3), 0)),
}


#: Sizes and offsets of single calls of which every two meet.
CROSSED = {
    "B": (1, 2, 3), "H": (1, 2, 9), "S": (1, 2, 13, 31),
    "offset": (0, 7, 64, 129, 1021, 8180, 131060),
}  # fmt: skip
#: The last offset that every function is asked for.
_NEAR = 129
#: The name of a sequence with calls of one token.
SINGLE = "single tokens at other offsets"
#: Sequences that could refute a rule found in the others.
FURTHER: dict[str, tuple[Call, ...]] = {
    "other lengths, other offsets": (
        ((2, 3, 7), 3), ((1, 2, 7), 21), ((2, 1, 3), 9), ((1, 3, 7), 40), ((3, 2, 2), 1),
    ),
    "longer and longer": (((1, 2, 9), 0), ((1, 2, 33), 5), ((2, 2, 70), 11), ((1, 2, 9), 77)),
    "offsets in turn": (
        ((2, 2, 4), 13), ((1, 2, 4), 13), ((1, 3, 6), 32), ((2, 2, 4), 15), ((1, 1, 5), 6),
    ),
    "from 0 again": (((1, 2, 5), 3), ((1, 2, 4), 0), ((2, 1, 1), 4), ((1, 3, 3), 0)),
    SINGLE: (
        ((1, 2, 6), 2), ((2, 3, 1), 3), ((1, 2, 17), 4), ((1, 3, 1), 9), ((1, 2, 1), 30),
        ((2, 1, 3), 2), ((1, 1, 1), 12), ((1, 2, 1), 1),
    ),
}  # fmt: skip
#: The largest position of these sequences.
_MOST_FURTHER = max(start + size[2] for calls in FURTHER.values() for size, start in calls)
#: The most wrong calls of sequences that are made again, each by itself.
_AGAIN = 6


def judge(run: Run) -> None:
    """Judge ``fn([(x, offset), ...])``: single calls, then sequences of calls.

    If no known mistake is found, single calls are then judged as ``apply``.
    """
    run.report.required = ("alone", "sequences", "state")
    encoding = alike(run.encoding)
    made: list[Call] = []
    ask = partial(_ask, run, encoding, made)
    probes = (
        Probe("alone", "alone", calls, words=f"fn([(x, {calls[0][1]})]) with x {calls[0][0]}")
        for calls in ALONE
    )
    alone = drive(run, probes, ask)
    if alone is None:
        return
    known = chain(offset_mistakes(), axis_starts(run.encoding, "the offset"))
    by_itself = _named_kept(run, alone, ask) or match(run, alone, known, parts=False)
    if not (by_itself and run.report.codes):
        turns = drive(run, _sequences(run, encoding), ask) or []
        if by_itself:
            _name_state(run, turns, ask)
    # Later than the sequences, because an instance may keep what one call of a length computes.
    if not (run.failures or run.settings.reduced):
        most = CROSSED["S"][-1]
        offsets = [n for n in CROSSED["offset"] if run.settings.allows(n + most - 1)]
        far = [n for n in offsets if n > _NEAR]
        last = lambda n: _crossed({"B": 1, "H": 1, "S": most, "offset": n})  # noqa: E731
        levels = [n for n in offsets if n <= _NEAR] + [*reached(run, far, last, ask)]
        crossing = Crossing(CROSSED | {"offset": levels}, seed=run.settings.seed)
        alone += drive_crossed(run, crossing, _crossed, ask)
        match(run, alone, offset_mistakes(), parts=False, whole=True)
    first = Probe("alone", "alone", ALONE[0])
    state.replay(
        run, lambda: ask(first)[0].actual, alone[0].actual, alone[0].case, alone[0].truth.value
    )
    further = partial(_further, ask)
    if run.report.codes or name_positions(run, alone, "decode-offset", further):
        return
    judge_as_apply(run, partial(_view, run), encoding, "lambda x, p: fn([(x, int(p[0]))])[0]")
    if run.ledger.found is not None:
        turns = drive(run, _sequences(run, encoding), ask) or []
        rest.diagnose(run, [*alone, *turns], partial(_name_left, ask))
    if run.failures and not run.report.codes:
        name_place(run, alone, "decode-offset", "calls with an offset give wrong results")


def _crossed(row: Row) -> Probe:
    size = (row["B"], row["H"], row["S"])
    words = f"fn([(x, {row['offset']})]) with x {size}"
    return Probe("alone", "alone", ((size, row["offset"]),), False, words)


def _ask(run: Run, encoding: Rotary, made: list[Call], probe: Probe) -> list[JudgedCall]:
    """Make the calls of one sequence; return them with their expected results.

    ``made`` lists the calls of the run before, and then these as well.
    """
    name, calls = probe.case, probe.facts
    first = {call: calls.index(call) for call in calls}
    inputs, written = list[InTurn](), list[np.ndarray]()
    for i, (size, start) in enumerate(calls):
        at = i if name == "one position, other x" else first[size, start]
        x = run.random((*size, encoding.head_dim), sum(size) + at)
        at_start = np.full(size[0], start)
        inputs.append(InTurn(encoding, x, at_start, i, calls, tuple(made), inputs, written))
    made += calls
    outputs = _called(run, inputs)
    seen = []
    for i, (one, y) in enumerate(zip(inputs, outputs, strict=True)):
        size, start = calls[i]
        case = f"{name}: call {i + 1} of {len(calls)}, B, H, S = {size} at offset {start}"
        seen.append(JudgedCall(case, y, one.truth(), one))
    return seen


def _called(run: Run, inputs: Sequence[InTurn]) -> list[np.ndarray]:
    driver, backend = run.driver, run.driver.backend
    sent = [backend.asarray(one.x, driver.dtype, driver.device) for one in inputs]
    result = driver.call([(x, int(c.offset[0])) for x, c in zip(sent, inputs, strict=True)])
    if not isinstance(result, list | tuple) or len(result) != len(inputs):
        raise Malformed(f"expected a list of {len(inputs)} results, got {type(result).__name__}")
    if (written := written_last(result)) is not None and inputs:
        inputs[0].written.append(written)
    outputs = [np.array(driver.array(y)) for y in result]
    for x, y, one in zip(sent, outputs, inputs, strict=True):
        if y.shape != one.x.shape:
            raise Malformed(f"expected shape {one.x.shape}, as x has, got {y.shape}")
        if driver.mutated is None and not np.array_equal(backend.asnumpy(x), one.x):
            driver.mutated = "x"
        run.reached(int(one.positions.max(initial=0)))
    return outputs


def _sequences(run: Run, encoding: Rotary) -> Iterator[Probe]:
    for name, calls in {**SEQUENCES, **_around(encoding)}.items():
        if run.settings.allows(max(start + size[2] for size, start in calls) - 1):
            yield Probe("sequences", name, calls, False)


def _around(encoding: Rotary) -> dict[str, tuple[Call, ...]]:
    """Return sequences with short calls before and after a call that changes the frequencies."""
    if not encoding.depends_on_length:
        return {}
    short: Call = ((1, 2, 4), 0)
    lengths = [n for n in lengths_of(encoding) if n > 32]
    found: dict[str, tuple[Call, ...]] = {
        f"short, length {n}, short": (short, ((1, 2, 3), n - 3), short, ((1, 2, 4), 9))
        for n in lengths
    }
    # Both longer than the trained length: what a short call resets is kept from one to the other.
    fewer, most = lengths[-3], lengths[-1]
    name = f"length {most}, then {fewer}"
    found[name] = (((1, 2, 3), most - 3), ((1, 2, 4), fewer - 4))
    return {**found, **dict(islice(calls_in_turn(encoding).items(), 2))}


def _named_kept(
    run: Run, alone: Sequence[JudgedCall], ask: Callable[[Probe], list[JudgedCall]]
) -> bool:
    """Report what an instance keeps if it explains single calls and sequences alike."""
    if not failed(run, alone):
        return False
    with suppress(Refused, Malformed):
        turns = [one for name, calls in FURTHER.items() if run.settings.allows(_MOST_FURTHER)
                 for one in ask(Probe("sequences", name, calls))]  # fmt: skip
        if failed(run, turns):
            seen = [*alone, *turns]
            of_tables = chain(last_rows(kept), grown_tables(kept), moved_tables(kept))
            known = chain(counters(), likely(run, seen, of_tables))
            return match(run, seen, known, parts=False, whole=True)
    return False


def _name_state(
    run: Run, seen: Sequence[JudgedCall], ask: Callable[[Probe], list[JudgedCall]]
) -> None:
    """Diagnose calls that are right alone, but wrong in a sequence."""
    wrong = failed(run, seen)
    if not wrong:
        return
    refuting = partial(_refuting, run, ask)
    encoding = seen[0].facts.encoding
    of_tables = chain(moved_tables(kept), last_rows(kept))
    known = chain(state_mistakes(encoding), likely(run, seen, of_tables))
    if match(run, seen, known, parts=False, whole=True, further=refuting) and run.report.codes:
        return
    if name_growth(run, seen):
        return
    if match_together(
        run, seen, after_one(overwritten(), list(state_mistakes(encoding))), refuting
    ):
        return
    alone = _at_ends(run, ask) + _wrong_again(wrong, ask)
    code = "decode-offset" if failed(run, alone) else "state"  # no earlier call is necessary
    if name_positions(run, [*seen, *alone], code, partial(_further, ask)):
        return
    if failed(run, alone):  # a call is wrong by itself: it is judged as ``apply``
        return
    run.add(
        "state",
        f"a call that is right by itself is wrong after other calls{run.where()}",
        f"{len(wrong)} calls, {wrong[0].case} first",
        remedy="Compute what this call needs from its own x and offset. If cos and sin are kept, "
        "keep them under all that they depend on, and do not write to the kept ones.",
        by=None,
    )


def _name_left(
    ask: Callable[[Probe], list[JudgedCall]], run: Run, calls: list[JudgedCall]
) -> object:
    """Report the mistake that calls show which are judged against a rotation that was found."""
    found = run.encoding
    of_tables = likely(run, calls, moved_tables(kept))
    known = chain(offset_mistakes(), state_mistakes(found), of_tables)
    if match(run, calls, known, parts=False, whole=True) and run.report.codes:
        return True
    further = lambda: rest.rebased(list(_further(ask)), lambda facts: found)  # noqa: E731
    return name_positions(run, calls, "decode-offset", further)


def _at_ends(run: Run, ask: Callable[[Probe], list[JudgedCall]]) -> list[JudgedCall]:
    """Make single calls around the ends of tables."""
    found = []
    for n in ENDS:
        for start in (n - 2, n):
            if run.settings.allows(n + 5):
                found += ask(Probe("alone", "alone", (((1, 2, 5), start),)))
    return found


def _refuting(run: Run, ask: Callable[[Probe], list[JudgedCall]]) -> list[JudgedCall]:
    """Make single calls around the ends of tables, and calls in turn, to refute a kept state."""
    found = _at_ends(run, ask)
    others = dict(islice(calls_in_turn(alike(run.encoding)).items(), 2, None))
    for name, calls in {**others, SINGLE: FURTHER[SINGLE]}.items():
        if run.settings.allows(max(start + size[2] for size, start in calls) - 1):
            found += ask(Probe("sequences", name, calls))
    return found


def _wrong_again(
    wrong: Sequence[JudgedCall], ask: Callable[[Probe], list[JudgedCall]]
) -> list[JudgedCall]:
    """Make the first wrong calls of sequences once more, each by itself."""
    calls = dict.fromkeys((one.facts.x.shape[:3], int(one.facts.offset[0])) for one in wrong)
    return [one for call in list(calls)[:_AGAIN] for one in ask(Probe("alone", "alone", (call,)))]


def _further(ask: Callable[[Probe], list[JudgedCall]]) -> Iterator[JudgedCall]:
    """Make sequences of calls that could refute a rule for positions."""
    for name, calls in FURTHER.items():
        yield from ask(Probe("sequences", name, calls))


def _view(run: Run, x: Any, positions: Any) -> Any:
    start = first_positions(run, positions)
    if start.ndim or start < 0:
        raise Inexpressible("all rows of a call have the same offset, which is not negative")
    return run.driver.fn([(x, int(start))])[0]
