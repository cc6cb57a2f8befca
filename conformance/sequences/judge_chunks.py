"""Judge ``decode`` and ``key_cache``: a sequence that is fed in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.diagnosis.drive import Probe, drive, one_result
from posenc_ref.conformance.diagnosis.localize import name_pattern
from posenc_ref.conformance.diagnosis.match import match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Malformed
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.transforms import alike
from posenc_ref.conformance.rotary.as_apply import (
    Inexpressible,
    host_positions,
    judge_as_apply,
    starts,
)
from posenc_ref.conformance.rotary.judge_length import lengths_of

from .cache_mistakes import cache_mistakes
from .chunk_mistakes import Chunked, chunk_mistakes

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
#: The number of tokens judged at the end of each optional sequence.
JUDGED = 40
#: Chunks past the usual sizes of caches and tables.
LONG = ((1000, 1, 1, 22), (4093, 1, 1, 1, 1, 3), (8190, 1, 1, 1), (32766, 1, 1))


def judge_decode(run: Run) -> None:
    """Judge ``fn(x, chunks)``: each chunk continues the one before; then judge as ``apply``."""
    _judge(run, cache=False, named=chunk_mistakes, otherwise="decode-offset")


def judge_key_cache(run: Run) -> None:
    """Judge ``fn(k, chunks)``: all keys, rotated for the final length; then as ``apply``."""
    _judge(run, cache=True, named=cache_mistakes, otherwise="stale-cache")


def _judge(run: Run, *, cache: bool, named: Any, otherwise: str) -> None:
    encoding = alike(run.encoding)
    run.report.required = ("chunks", "state")
    ask = one_result(lambda call: _called(run, call)[:, :, call.tail])
    calls = drive(run, _required(run, encoding, cache), ask)
    if calls is None:
        return
    explained = match(run, calls, named())
    if not (explained and run.report.codes):
        calls += drive(run, _optional(run, encoding, cache), ask) or []
        explained = match(run, calls, named())
    if explained and run.report.codes:
        _state(run, calls[0])
        return
    judge_as_apply(run, _view(run), encoding, "lambda x, p: fn(x, [len(p)])")
    _state(run, calls[0])
    if run.failures and not run.report.codes:
        name_pattern(run, calls, otherwise, "sequences fed in several chunks give wrong results")


def _around(encoding: Rotary) -> Iterable[tuple[int, ...]]:
    """Yield lengths of chunks that end before, at and after each change of the frequencies."""
    if not encoding.depends_on_length:
        return
    for n in lengths_of(encoding):
        if 8 < n <= LONG[-1][0]:
            yield (n - 3, 1, 1, 1, 1, 1)
            yield (n // 2, n - n // 2 - 1, 2, 1)


def _x(run: Run, encoding: Rotary, size: tuple[int, int], chunks: tuple[int, ...]) -> np.ndarray:
    shape = (*size, sum(chunks), encoding.head_dim)
    return run.random(shape, len(chunks))


def _required(run: Run, encoding: Rotary, cache: bool) -> Iterator[Probe]:
    for chunks in CHUNKS:
        x, case = _x(run, encoding, (2, 3), chunks), f"chunks {list(chunks)}"
        call = Chunked(encoding, x, chunks, cache)
        yield Probe("chunks", case, call, words=f"x of shape {x.shape} in {case}")


def _optional(run: Run, encoding: Rotary, cache: bool) -> Iterator[Probe]:
    """Yield long sequences, and one with an empty chunk."""
    longer = sorted({*LONG, *_around(encoding)}, key=sum)
    for chunks in ((2, 0, 3), *longer):
        if run.settings.allows(sum(chunks) - 1):
            x = _x(run, encoding, (1, 2), chunks)
            call = Chunked(encoding, x, chunks, cache, JUDGED)
            yield Probe("chunks", f"chunks {list(chunks)}", call, False)


def _called(run: Run, call: Chunked) -> np.ndarray:
    y = run.driver.array(run.driver.call(call.x, list(call.chunks)))
    if y.shape != call.x.shape:
        raise Malformed(f"expected shape {call.x.shape}, as x has, got {y.shape}")
    run.reached(call.x.shape[2] - 1)
    return y


def _view(run: Run) -> Any:
    fn = run.driver.fn

    def view(x: Any, positions: Any) -> Any:
        start = starts(host_positions(run, positions))
        if start.ndim or start != 0:
            raise Inexpressible("every sequence starts at 0")
        return fn(x, [int(x.shape[2])])

    return view


def _state(run: Run, first: JudgedCall) -> None:
    """Judge a repetition of the first sequence, and a kept result."""
    call: Chunked = first.facts
    state.replay(run, lambda: _called(run, call), first.actual, first.case)
    chunks = list(call.chunks)
    state.kept_result(
        run, lambda: run.driver.call(call.x, chunks), lambda: run.driver.call(-call.x, chunks)
    )
