"""Judge ``shift_keys``: rotated keys moved by delta positions, as in a context shift."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref._namespace import namespace
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.conditions import Variables
from posenc_ref.conformance.diagnosis.drive import Probe, drive, drive_crossed, one_result
from posenc_ref.conformance.diagnosis.match import match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake, mistakes
from posenc_ref.conformance.diagnosis.relation import name_place
from posenc_ref.conformance.diagnosis.rule import DECLARED
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.crossing import Crossing, Row
from posenc_ref.conformance.harness.probes import SIZES, WIDE, dense
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.oracle.transforms import alike, shift
from posenc_ref.conformance.phases.positions_used import name_positions
from posenc_ref.conformance.rotary.as_apply import Inexpressible, host_positions, judge_as_apply

from .call import called, scaled

#: Positive deltas, and negative ones as in a context shift; from small to large.
DELTAS = (1, 3, 7, -1, -7, 211, -512, 4096, -4093, 100003, -70001)
#: Sizes and deltas of which every two meet in a call.
CROSSED = {"B": (1, 3), "H": (1, 9), "S": (1, 7, 13, 70), "delta": (-7, 65537)}
#: The largest delta when judged as ``apply``, where each token takes a call.
_LONGEST = 8191


@dataclass(frozen=True)
class Moved:
    """Keys (B, H, S, D) rotated to positions 0 .. S-1, and the delta to add to their positions."""

    encoding: Rotary  #: the declared encoding, with one axis
    x: np.ndarray
    delta: int

    def truth(self) -> Truth:
        """Return ``R(delta) x``."""
        return self.by(np.full(self.x.shape[2], self.delta))

    def rotated(self) -> np.ndarray:
        """Return the keys before the shift."""
        return self.x

    def rotated_to(self, positions: np.ndarray) -> Truth:
        """Return the result with other deltas (B, H, S)."""
        return self.by(positions)

    def variables(self) -> Variables:
        """Return numbers that may be mistaken for delta; DECLARED is delta itself."""
        row, head = np.indices(self.x.shape[:2])[..., None]
        index = np.arange(self.x.shape[2])
        delta = np.full_like(index, self.delta)
        return {
            DECLARED: delta,
            "the size of delta": np.abs(delta),
            "the index in the call": index,
            "the length of the call": 0 * index + index.size,
            "the batch row": row,
            "the head": head,
        }

    def by(self, delta: np.ndarray) -> Truth:
        """Return the result with other deltas, one per token."""
        return apply_truth(shift(self.encoding), self.x, delta)


def judge(run: Run) -> None:
    """Judge ``fn(rotated_k, delta)``, then judge it as ``apply`` with delta as the position."""
    run.report.required = ("shifts", "state")
    run.driver.names = ("rotated_k",)
    encoding = alike(run.encoding)
    ask = one_result(partial(_called, run))
    calls = drive(run, _probes(run, encoding), ask)
    if calls is None:
        return
    if match(run, calls, _mistakes(encoding), parts=False) and run.report.codes:
        first = calls[0]
        state.replay(
            run, lambda: _called(run, first.facts), first.actual, first.case, first.truth.value
        )
        return
    calls += drive(run, _wide(run, encoding), ask) or []
    if not run.settings.reduced:
        crossing = Crossing(CROSSED, seed=run.settings.seed)
        calls += drive_crossed(run, crossing, partial(_crossed, run, encoding), ask)
    further = partial(_further, run, encoding)
    if name_positions(run, calls, "stale-cache", further, noun="shift"):
        return
    last, highest = run.settings.up_to(_LONGEST), run.ledger.highest
    run.ledger.highest = min(highest, last)
    short = replace(run, settings=replace(run.settings, max_position=last, few=True))
    recipe = "lambda x, p: fn(x, int(p[0]))  # a shift has no attention factor and no offset"
    judge_as_apply(short, partial(_view, run), shift(encoding), recipe)
    run.reached(highest)
    if run.failures and not run.report.codes:
        name_place(run, calls, "stale-cache", "keys are not moved by delta")


def _probes(run: Run, encoding: Rotary) -> Iterator[Probe]:
    for i, delta in enumerate(DELTAS):
        if not run.settings.allows(abs(delta)):
            continue
        size = SIZES[i % len(SIZES)]
        k = dense((*size, encoding.head_dim), run.settings.seed + i)
        x = run.driver.rounded(np.asarray(encoding.apply(k, np.arange(size[2]))))
        words = f"delta {delta}" if i else f"rotated_k of shape {x.shape}, delta {delta}"
        case = f"B, H, S = {size}, delta {delta}"
        yield Probe("shifts", case, Moved(encoding, x, delta), i == 0, words)


def _wide(run: Run, encoding: Rotary) -> Iterator[Probe]:
    """Yield calls with more keys, heads and rows than one tile of a kernel."""
    for i, size in enumerate(WIDE):
        call = Moved(encoding, run.random((*size, encoding.head_dim), 20 + i), 37 + i)
        case = f"B, H, S = {size}, delta {call.delta}"
        yield Probe("shifts", case, call, False, f"B, H, S = {size}")


def _crossed(run: Run, encoding: Rotary, row: Row) -> Probe | None:
    *size, delta = row.values()
    if not run.settings.allows(abs(delta)):
        return None
    call = Moved(encoding, run.random((*size, encoding.head_dim), sum(size)), delta)
    words = f"B, H, S = {tuple(size)}, delta {delta}"
    return Probe("shifts", words, call, False)


def _further(run: Run, encoding: Rotary) -> Iterator[JudgedCall]:
    """Make calls that could refute a rule for deltas."""
    ask = one_result(partial(_called, run))
    for i, (size, delta) in enumerate((((3, 2, 6), 29), ((2, 3, 9), -37), ((1, 1, 1), -2))):
        call = Moved(encoding, run.random((*size, encoding.head_dim), 40 + i), delta)
        yield from ask(Probe("shifts", f"B, H, S = {size}, delta {delta}", call, False))


def _called(run: Run, call: Moved) -> np.ndarray:
    return called(run, abs(call.delta), call.x, call.delta)


def _view(run: Run, x: Any, positions: Any) -> Any:
    p, fn = host_positions(run, positions), run.driver.fn
    if p.ndim > 1 or p.size == 0:
        raise Inexpressible("one delta moves all keys of a call")
    if (p == p[0]).all():
        return fn(x, int(p[0]))
    moved = [fn(x[:, :, i : i + 1], int(d)) for i, d in enumerate(p)]
    return namespace(x).concat(moved, axis=2)


def _mistakes(encoding: Rotary) -> Iterator[Mistake]:
    def by(delta: Callable[[Moved], Any]) -> Callable[[Moved], Truth]:
        return lambda call: call.by(np.broadcast_to(delta(call), call.x.shape[2]))

    yield Mistake(
        "sign",
        "keys move the other way: by -delta",
        by(lambda call: -call.delta),
        "Rotate every key by +delta, with the sign that delta has.",
    )
    remedy = "Rotate every key by delta with its sign: a negative delta moves keys back."
    yield from mistakes(
        "sign",
        by,
        ("the sign of delta is lost: keys move by |delta|", lambda call: abs(call.delta), remedy),
        ("a negative delta moves no key", lambda call: max(call.delta, 0), remedy),
    )
    yield from mistakes(
        "stale-cache",
        by,
        ("keys stay where they are", lambda call: 0, "Rotate every key by delta positions."),
        (
            "keys are rotated anew, to delta + index, although they are rotated already",
            lambda call: call.delta + np.arange(call.x.shape[2]),
            "Rotate cached keys by delta alone: they are at their old positions already.",
        ),
    )
    remedy = "Rotate every key by delta, once."
    text = "delta is applied twice"
    yield Mistake("position-scale", text, by(lambda call: 2 * call.delta), remedy)
    text, remedy = "keys move one position too far", "Rotate every key by delta, without adding 1."
    yield Mistake("decode-offset", text, by(lambda call: call.delta + 1), remedy)
    if encoding.offset:
        yield Mistake(
            "position-origin",
            f"the offset {encoding.offset:g} of the positions is added to delta",
            by(lambda call: call.delta + encoding.offset),
            "Rotate by delta alone: the old and the new position have the same offset.",
        )
    if (m := encoding.attention_factor()) != 1.0:
        remedy = "Rotate without m: rotated keys are multiplied by m already."
        yield from mistakes(
            "attention-factor",
            lambda size: lambda call: scaled(call.truth(), size),
            (f"the attention factor m = {m:.6g} is applied a second time", m, remedy),
            ("the attention factor m is divided out", 1 / m, remedy),
        )
