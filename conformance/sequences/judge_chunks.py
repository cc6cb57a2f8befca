"""Judge ``decode`` and ``key_cache``: a sequence that is fed in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any

from posenc_ref import Rotary
from posenc_ref.conformance.diagnosis.drive import Probe, drive, drive_crossed, one_result, reached
from posenc_ref.conformance.diagnosis.match import Outcomes, failed, likely, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.relation import name_place
from posenc_ref.conformance.harness.crossing import Crossing, Row
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.transforms import alike
from posenc_ref.conformance.phases.positions_used import name_positions
from posenc_ref.conformance.rotary.as_apply import Inexpressible, judge_as_apply
from posenc_ref.conformance.rotary.judge_length import lengths_of

from . import rest
from .axis_starts import axis_starts
from .cache_mistakes import cache_mistakes, length_mistakes
from .call import called, first_positions, judge_repetition
from .chunk_mistakes import chunk_mistakes, grown_in_chunks, rotations_in_part
from .chunked import Chunked
from .kept_lengths import refuting

#: Lengths of chunks: a whole sequence, single tokens, a prompt with tokens, and mixed ones.
CHUNKS: tuple[tuple[int, ...], ...] = (
    (5,),
    (1,) * 6,
    (5, 1, 1, 1),
    (3, 2, 1, 4),
    (4, 4),
    (1, 6, 1, 5),
    (33, 1, 1, 1, 1),
)
#: Sizes of short sequences, and what follows the prompt, of which every two meet.
CROSSED: dict[str, tuple[Any, ...]] = {
    "B": (1, 2, 3), "H": (1, 2, 5), "prompt": (1, 3, 8, 17, 1030),
    "then": ((1, 1), (4,), (1, 4), (4, 1), (8, 3)),
}  # fmt: skip
#: The most tokens of all rows and heads of such a prompt.
_MOST = 5200
#: Chunks that could refute a known mistake which explains those above.
REFUTING: tuple[tuple[int, ...], ...] = ((2, 1, 3, 1), (6, 2, 2, 1, 6), (40, 30, 1, 40))
#: The most sequences about the lengths at which frequencies change that are made with those.
_LENGTHS = 6
#: The longest length for which a sequence of more than twice as many tokens is made.
_LONGEST = 4096
#: Chunks that could refute a rule found in the others.
FURTHER: tuple[tuple[int, ...], ...] = (
    (16, *(1,) * 20),
    (7, 1, 3, 1, 1, 9, 1, 8),
    (2, 17, 1, 33, 1, 1),
    (16, 5, 1, 10, 16, 2, 1),
    (9, 40, 3, 1),
    (1, 3, 1, 1, 12, 1, 1, 1),
)
#: The number of tokens judged at the end of each optional sequence.
JUDGED = 40
#: Chunks past the usual sizes of caches and tables.
LONG = ((1000, 1, 1, 22), (4093, 1, 1, 1, 1, 3), (8190, 1, 1, 1), (32766, 1, 1))


def judge_decode(run: Run) -> None:
    """Judge ``fn(x, chunks)``: each chunk continues the one before; then judge as ``apply``."""
    _judge(run, cache=False, known=chunk_mistakes, otherwise="decode-offset")


def judge_key_cache(run: Run) -> None:
    """Judge ``fn(k, chunks)``: all keys, rotated with the frequencies of the final length.

    Then judge a whole sequence in one chunk as ``apply``.
    """
    _judge(run, cache=True, known=cache_mistakes, otherwise="stale-cache")


def _judge(
    run: Run, *, cache: bool, known: Callable[[], Iterator[Mistake]], otherwise: str
) -> None:
    encoding = alike(run.encoding)
    run.report.required = ("chunks", "state")
    ask = one_result(lambda c: called(run, c.x.shape[2] - 1, c.x, list(c.chunks))[:, :, c.tail])
    required = (_probe(run, encoding, cache, (2, 3), chunks) for chunks in CHUNKS)
    calls = drive(run, required, ask)
    if calls is None:
        return
    if not run.settings.reduced:
        *near, far = CROSSED["prompt"]
        most = max(CROSSED["then"], key=sum)
        long = [far] if run.settings.allows(far + sum(most) - 1) else []
        last = lambda n: _probe(run, encoding, cache, (1, 1), (n, *most))  # noqa: E731
        levels = CROSSED | {"prompt": (*near, *reached(run, long, last, ask))}
        crossing = Crossing(levels, _allowed, seed=run.settings.seed)
        calls += drive_crossed(run, crossing, partial(_crossed, run, encoding, cache), ask)
    early_ones = (*REFUTING, *islice(_around(encoding), _LENGTHS), *_long_chunk(encoding))
    again = [_probe(run, encoding, cache, (2, 3), chunks, JUDGED) for chunks in early_ones]
    early = bool(failed(run, calls))
    if early:
        calls += drive(run, again, ask) or []
    of_axes = axis_starts(run.encoding, "the start of a chunk")
    mistakes = [*known(), *length_mistakes(encoding, cache), *of_axes, *grown_in_chunks()]
    outcomes: Outcomes = {}
    changing = list(refuting(encoding)) if cache else []

    def more() -> list[JudgedCall]:
        """Make calls that could refute a mistake, once; later comparisons have them too."""
        made: list[JudgedCall] = []
        while changing:
            chunks = changing.pop(0)
            if run.settings.allows(sum(chunks) - 1):
                with suppress(Refused, Malformed):
                    made += ask(_probe(run, encoding, cache, (1, 2), chunks))
        calls.extend(made)
        return made

    def matched() -> bool:
        found = match(
            run, calls, mistakes, parts=False, whole=True, further=more, outcomes=outcomes
        )
        return found and bool(run.report.codes)

    if not matched():
        calls += drive(run, _optional(run, encoding, cache), ask) or []
        if failed(run, calls) and not early:
            calls += drive(run, again, ask) or []
        further = partial(_further, run, encoding, cache, ask)
        found = matched()
        between = partial(_from_to, run, encoding, cache, ask)
        if not found and not name_positions(run, calls, _code(cache), further, between=between):
            judge_as_apply(run, partial(_view, run), encoding, "lambda x, p: fn(x, [len(p)])")
            rest.diagnose(run, calls, partial(_name_left, known, cache, ask))
        if run.failures and not run.report.codes:
            others = likely(run, calls, rotations_in_part(encoding))
            match(run, calls, chain(mistakes, others), parts=False, outcomes=outcomes)
    judge_repetition(run, calls[0], list(CHUNKS[0]))
    if run.failures and not run.report.codes:
        name_place(run, calls, otherwise, "sequences fed in several chunks give wrong results")


def _name_left(
    known: Callable[[], Iterator[Mistake]],
    cache: bool,
    ask: Callable[[Probe], Sequence[JudgedCall]],
    run: Run,
    calls: list[JudgedCall],
) -> object:
    """Report the mistake that calls show which are judged against a rotation that was found."""
    every = chain(known(), grown_in_chunks())
    if match(run, calls, every, parts=False, whole=True) and run.report.codes:
        return True
    further = partial(_further, run, run.encoding, cache, ask)
    between = partial(_from_to, run, run.encoding, cache, ask)
    return name_positions(run, calls, _code(cache), further, between=between)


def _allowed(row: Row) -> bool:
    """Return whether the prompt of a call, or of a part of one, is small enough."""
    return row.get("B", 1) * row.get("H", 1) * row.get("prompt", 1) <= _MOST  # type: ignore[no-any-return]


def _crossed(run: Run, encoding: Rotary, cache: bool, row: Row) -> Probe:
    chunks = (row["prompt"], *row["then"])
    one = _probe(run, encoding, cache, (row["B"], row["H"]), chunks, sum(chunks))
    return replace(one, case=f"B, H = {(row['B'], row['H'])}, {one.case}")


def _code(cache: bool) -> str:
    return "stale-cache" if cache else "decode-offset"


def _further(
    run: Run, encoding: Rotary, cache: bool, ask: Callable[[Probe], Sequence[JudgedCall]]
) -> Iterator[JudgedCall]:
    """Make calls that could refute a rule for positions."""
    for chunks in FURTHER:
        yield from ask(_probe(run, encoding, cache, (3, 2), chunks))


def _from_to(
    run: Run,
    encoding: Rotary,
    cache: bool,
    ask: Callable[[Probe], Sequence[JudgedCall]],
    low: int,
    high: int,
) -> Iterator[JudgedCall]:
    """Make a call of two chunks, the second one with the tokens from ``low`` to ``high``."""
    if low and run.settings.allows(high):
        size = high - low + 1
        yield from ask(_probe(run, encoding, cache, (1, 2), (low, size), size))


def _optional(run: Run, encoding: Rotary, cache: bool) -> Iterator[Probe]:
    """Yield long sequences, and one with an empty chunk."""
    longer = sorted({*LONG, *_around(encoding)}, key=sum)
    for chunks in ((2, 0, 3), *longer):
        if run.settings.allows(sum(chunks) - 1):
            yield _probe(run, encoding, cache, (1, 2), chunks, JUDGED)


def _around(encoding: Rotary) -> Iterable[tuple[int, ...]]:
    """Yield lengths of chunks that end before, at and after each change of the frequencies."""
    if not encoding.depends_on_length:
        return
    for n in lengths_of(encoding):
        if 8 < n <= LONG[-1][0]:
            yield (n - 3, 1, 1, 1, 1, 1)
            yield from ((n - 4, 8), (n - 5, 2, 7))  # the last of two chunks and of three
            yield (n // 2, n - n // 2 - 1, 2, 1)


def _long_chunk(encoding: Rotary) -> Iterable[tuple[int, ...]]:
    """Yield a short chunk and one that is longer than the first length of other frequencies."""
    lengths = lengths_of(encoding) if encoding.depends_on_length else []
    return ((n // 3, 2 * n + 5) for n in lengths[:1] if 8 < n <= _LONGEST)


def _probe(
    run: Run,
    encoding: Rotary,
    cache: bool,
    size: tuple[int, int],
    chunks: tuple[int, ...],
    judged: int | None = None,
) -> Probe:
    x = run.random((*size, sum(chunks), encoding.head_dim), len(chunks))
    call, case = Chunked(encoding, x, chunks, cache, judged), f"chunks {list(chunks)}"
    words = "" if judged else f"x of shape {x.shape} in {case}"
    return Probe("chunks", case, call, required=not judged, words=words)


def _view(run: Run, x: Any, positions: Any) -> Any:
    start = first_positions(run, positions)
    if start.ndim or start != 0:
        raise Inexpressible("every sequence starts at 0")
    return run.driver.fn(x, [int(x.shape[2])])
