"""Diagnose calls of ``apply`` by their tokens: the positions used, or a mistake in some calls only.

Calls of different sizes are made again with random x. Each wrong token is compared with the
rotation to every position, and with the known wrong rotations at its own position.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.conditions import ALONE, FLAT, Variables
from posenc_ref.conformance.diagnosis.in_part import LARGEST, in_part
from posenc_ref.conformance.diagnosis.match import match, placed
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.position_mistakes import other_tokens, tiled_tokens
from posenc_ref.conformance.diagnosis.rule import DECLARED
from posenc_ref.conformance.diagnosis.scored import failed
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.located.record import MEMORY
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.probes import ONE_EACH, ONE_TOKEN
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.phases.axis_positions import name_axis_positions
from posenc_ref.conformance.phases.positions_used import FORM, name_positions

from .diagnose_state import name_grown
from .tokens.tiles import first_of_tiles, twice_in_tiles
from .wrong_rotations import ELEMENTS, other_axes, rotations

_ROWS = np.array([[4, 9, 2, 0, 31], [7, 1, 8, 40, 3]])
#: The first positions of the first and the last row are neither the smallest nor the largest.
_FOUR = np.array([[12, 3, 50, 9], [40, 2, 8, 41], [3, 61, 5, 22], [25, 7, 1, 30]])
_SINGLE = np.array([[9], [30], [4], [17]])
_REPEATED = np.array([7, 7, 3, 90, 3, 0, 0, 55])
#: (B, H, S), positions or the first position, and how x lies in memory unless it is contiguous.
Size = tuple[tuple[int, int, int], object] | tuple[tuple[int, int, int], object, str]
CALLS: tuple[Size, ...] = (
    ((2, 3, 5), 0), ((2, 3, 1), 37), ((3, 2, 1), 5), ((1, 1, 1), 9), ((3, 2, 2), 7),
    ((4, 2, 7), 3), ((2, 4, 4), 0), ((2, 3, 5), _ROWS), ((1, 2, 8), _REPEATED),
    ((1, 2, 33), 0), ((2, 1, 70), 0), ((1, 2, 130), 0), ((1, 12, 6), 2),
    ((1, 2, 64), 0), ((2, 1, 48), 0), ((1, 2, 32), 0), ((1, 1, 1100), 0), ((2, 1, 23), 0),
    ((1, 2, 55), 5), ((2, 3, 5), 4, "transposed"), ((2, 3, 4), 3, "sliced"),
    ((4, 2, 1), _SINGLE),
    ((1, 7, 3), 2), ((2, 10, 2), 3), ((1, 5, 4), 1),
)  # fmt: skip
#: Calls that could refute a rule found in the others.
FURTHER: tuple[Size, ...] = (
    ((3, 2, 9), 11), ((2, 5, 1), 21), ((4, 2, 4), _FOUR), ((1, 3, 100), 0), ((2, 2, 67), 4),
    ((2, 9, 3), 60), ((1, 17, 4), 33), ((1, 2, 96), 0), ((1, 1, 1060), 9), ((2, 5, 3), 50),
    ((1, 6, 3), 5),
    ((3, 2, 7), 1, "transposed"), ((1, 2, 6), 2, "sliced"),
    ((4, 3, 1), _SINGLE[::-1].copy()),  # PyTorch takes no negative strides
)  # fmt: skip


#: Calls of one far token, and of several there, if only calls of one are wrong; then calls that
#: could refute a rule.
FAR: tuple[Size, ...] = (
    ((1, 2, 1), 300), ((2, 1, 1), 5003), ((1, 1, 1), 40000), ((1, 2, 4), 5003), ((1, 1, 5), 40000),
)  # fmt: skip
_FAR_AGAIN: tuple[Size, ...] = (((1, 3, 1), 1023), ((2, 2, 1), 20011))
#: The token that has the same position on all axes, in one of four calls each, and in which rows.
_TEXT, _TEXT_ROWS = {1: 0, 3: -1}, (slice(None), slice(0, 1), slice(-1, None))
#: How many of the smallest calls of each kind are made again, and how many of the largest.
_AGAIN, _LONG = 20, 4
#: The name of the value that says where a cause is made, which further calls have tested.
PLACED = "only in"
#: Codes of mistakes in numbers, which keep their code wherever they are made.
_PARAMETERS = ("base", "position-scale")
#: If calls of so many sizes are wrong, and none is right, the mistake does not depend on the call.
_MANY = 12
#: Longer calls whose positions have gaps, which tell tiles apart: the first is the longest.
_GAPS: tuple[Size, ...] = (
    ((1, 2, 140), 3 * np.arange(140) + 1), ((2, 1, 37), np.arange(37)[::-1] ** 2),
)  # fmt: skip
#: The most tokens of a call that is made again.
_LARGEST = 2**12


@dataclass(frozen=True)
class Turned:
    """One call: the tokens x (B, H, S, D) and their positions (S,) or (B, S)."""

    encoding: Rotary
    x: np.ndarray
    positions: np.ndarray
    memory: str = MEMORY[0]
    needed: tuple[int, ...] = ()  #: the rows that calls so far needed, each more than all before

    def rotated(self) -> np.ndarray:
        """Return the tokens before the rotation."""
        return self.x

    def rotated_to(self, positions: np.ndarray) -> Truth:
        """Return the result at other positions (B, H, S)."""
        return apply_truth(self.encoding, self.x, positions)

    def variables(self) -> Variables:
        """Return numbers that may be mistaken for the positions."""
        b, h, n = self.x.shape[:3]
        row, head = np.indices((b, h))[..., None]
        index = np.arange(n)
        p = self.positions if self.positions.ndim == 1 else self.positions[:, None, :]
        first = p.reshape(-1, n)[0]
        rows = np.broadcast_to(p, (b, h, n))[:, 0]
        none = 0 * index
        flat = dict(zip(FLAT, ((row * h + head) * n + index, none + b * h * n), strict=True))
        return {
            DECLARED: p,
            "the index in the call": index,
            "the batch row": row,
            "the head": head,
            "the length of the call": 0 * index + n,
            **flat,
            FORM: none + self.positions.ndim,
            "the number of gaps in the positions": none + int((np.diff(rows) != 1).sum()),
            "the number of batch rows": none + b,
            "the number of heads": none + h,
            "the number of heads after this one": h - 1 - head,
            "the number of tokens after this one": n - 1 - index,
            "the number of tokens of earlier rows": row * n,
            "the number of the token in the batch": row * n + index,
            "the position of the same token of the last row": rows[-1],
            **_elsewhere(rows, row, head, index),
            "the position of the same token of row 0": first,
            "the position of the same token of the row before, or of the last row":
                np.roll(rows, 1, axis=0)[:, None],
            "the position of the same token of the next row, or of row 0":
                np.roll(rows, -1, axis=0)[:, None],
            "the position of the same token of the row with the largest first position":
                rows[np.argmax(rows[:, 0])],
            "the position of the same token of the row with the smallest first position":
                rows[np.argmin(rows[:, 0])],
            "the largest position of this token in all rows": rows.max(axis=0),
            "the smallest position of this token in all rows": rows.min(axis=0),
            "the largest position of the call": none + p.max(),
            "the smallest position of the call": none + p.min(),
            "the first position of the row": p[..., :1] + 0 * index,
            "the smallest position of the row": p.min(axis=-1, keepdims=True) + 0 * index,
            "the last position of the row": p[..., -1:] + 0 * index,
            "the position of the token before": np.roll(p, 1, axis=-1),
            "the position of the next token": np.roll(p, -1, axis=-1),
        }  # fmt: skip


def _elsewhere(
    rows: np.ndarray, row: np.ndarray, head: np.ndarray, index: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the positions (B, S) ``rows`` of tokens that a wrong reshape may select."""
    b, n = rows.shape
    h = head.shape[1]
    same = {"(b H + h) modulo B": (row * h + head) % b, "h modulo B": (head + 0 * row) % b}
    found = {f"the position of the same token of row {t}": rows[r[..., 0]] for t, r in same.items()}
    tokens = other_tokens(row, head, index, b, h, n) | tiled_tokens(index, n)
    for text, at in tokens.items():
        here = np.broadcast_to(at, (b, h, n))
        found[f"{ALONE}{text}"] = rows[np.arange(b)[:, None, None], here]
    flat = row * n + index
    found["the position there if (rows, tokens) is transposed and reshaped to its own shape"] = (
        rows[flat % b, flat // b]
    )
    packed = ((row * n + index) * h + head) % (b * n)
    found[f"{ALONE}(t H + h) modulo B S, t = b S + s, counted through all rows of the batch"] = (
        rows.ravel()[packed]
    )
    return found


def diagnose(run: Run, encoding: Rotary, *, early: bool = False) -> bool:
    """Report the positions used, or a wrong rotation in some calls only; return whether found.

    With ``early``, nothing is reported if all calls are wrong: then the mistake does not depend on
    the call.
    """
    if encoding.depends_on_length or (early and _every_size_wrong(run)):
        return False
    code, several = code_of_places(run), encoding.num_axes > 1
    far = (
        not {f.case for f in run.failures} & {ONE_TOKEN, ONE_EACH}
        and run.ledger.evidence.single_tokens()
    )
    calls = list(calls_of(run, encoding, (*CALLS, *FAR) if far else CALLS))
    wrong = failed(run, calls)
    if not wrong or (early and len(wrong) == len(calls)):
        return False
    right = [one for one in calls if all(one is not w for w in wrong)]
    known = chain(rotations(encoding), other_axes(encoding) if several else ())
    part = in_part(run, wrong, right, known) if right else None
    if part is not None and (held := _held(run, encoding, calls, part[0])) is not None:
        if several and " or " in held[0] and on_axes(run, encoding, calls):
            return True  # listed sizes may be those of the calls that meet another condition
        mistake = placed(part[0], held[0])
        text = (
            f"{wrong[0].case}; {plural(len(wrong), 'wrong call equals', 'wrong calls equal')} "
            f"this, and none of {held[1]} further calls refutes it"
        )
        own = mistake.code if several or mistake.code in (ELEMENTS, *_PARAMETERS) else code
        place = held[0].removeprefix("only in ")
        for axis, of_axis in (("head", "position-axis"), ("batch row", "row-offset")):
            if own not in _PARAMETERS and place.startswith(axis):
                own = of_axis
        if own == "row-offset" and place.startswith("token"):
            own = "wrong-row"  # calls with positions of each row failed too, for the same tokens
        run.add(own, mistake.message, text, remedy=mistake.remedy, values={PLACED: place})
        return True
    if several:
        return on_axes(run, encoding, calls)
    more = partial(calls_of, run, encoding, FURTHER)
    if name_grown(run, calls, more):
        return True
    if match(run, calls, twice_in_tiles(encoding), parts=False, whole=True, further=more):
        return True
    more = partial(calls_of, run, encoding, (*_GAPS, *FURTHER))
    if match(run, calls, first_of_tiles(_GAPS[0][0][2]), parts=False, whole=True, further=more):
        return True
    again = (*FURTHER, *_judged(run), *(_FAR_AGAIN if far else ()))
    between = lambda low, high: calls_of(run, encoding, (((1, 2, high - low + 1), low),))  # noqa: E731
    further = lambda: calls_of(run, encoding, again)  # noqa: E731
    return name_positions(run, calls, code, further, between=between)


def on_axes(run: Run, encoding: Rotary, calls: list[JudgedCall] | None = None) -> bool:
    """Report the positions used on each of several axes; return whether a rule gives them."""
    calls = calls or list(calls_of(run, encoding, CALLS))
    return name_axis_positions(run, encoding, calls, lambda: calls_of(run, encoding, FURTHER))


def judged_again(run: Run, encoding: Rotary) -> bool:
    """Report the positions used in the judged calls, made again; return whether they are found."""
    if encoding.depends_on_length or encoding.num_axes > 1:
        return False
    judged = tuple(_judged(run))
    near = tuple((size, 37) for size, *_ in judged[:_AGAIN])  # a far one alone gives no rule
    calls = list(calls_of(run, encoding, near + judged))
    return bool(failed(run, calls)) and name_positions(run, calls, "wrong-row")


def _every_size_wrong(run: Run) -> bool:
    """Return whether every judged call with a position above 0 is wrong, in many sizes.

    Then :data:`CALLS`, which are of the same kinds, would be wrong too.
    """
    sizes, right = set(), False
    for record in run.ledger.evidence.records:
        call = record.call
        if call is not None and call.sizes and call.positions is not None and call.positions.any():
            sizes.add(call.sizes)
            right = right or not record.failed
    return not right and len(sizes) >= _MANY


def code_of_places(run: Run) -> str:
    """Return the code of wrong positions in some forms of calls: per row, single, or others."""
    failed = {f.case for f in run.failures}
    if ONE_TOKEN in failed or (ONE_EACH not in failed and run.ledger.evidence.single_tokens()):
        return "decode-offset"
    rows = ONE_EACH in failed or any("per-row" in case for case in failed)
    return "row-offset" if rows else "wrong-row"


def _judged(run: Run) -> Iterator[Size]:
    """Yield sizes and positions of calls that the run has judged, to be made again with other x.

    A rule must predict these too: small and long calls, wrong and right ones.
    """
    known: dict[bool, dict[tuple[int, int, int], np.ndarray]] = {True: {}, False: {}}
    for record in run.ledger.evidence.records:
        call = record.call
        if call is None or call.sizes is None or call.positions is None or not record.whole:
            continue
        if len(call.sizes) == 3 and 0 < np.prod(call.sizes) <= _LARGEST:
            b, h, n = call.sizes
            at = call.positions
            if at.shape in ((n,), (b, n)) and np.array_equal(at, np.rint(at)) and at.min() >= 0:
                known[record.failed].setdefault((b, h, n), at.astype(np.int64))
    for one in known.values():
        found = sorted(one.items(), key=lambda item: np.prod(item[0]))
        yield from (item for item in found[:_AGAIN] + found[_AGAIN:][-_LONG:])


def _held(
    run: Run, encoding: Rotary, calls: list[JudgedCall], mistake: Mistake
) -> tuple[str, int] | None:
    """Return where the mistake is made in all calls, and the number of further calls.

    Return None if a further call refutes it. If judged calls show that it begins at some largest
    position, that is the place, and not the sizes of calls that go so far.
    """
    further = list(calls_of(run, encoding, FURTHER))
    part = _place_of(run, [*calls, *further], mistake)
    if part and encoding.num_axes == 1:
        judged = list(calls_of(run, encoding, tuple(_judged(run))))
        again = _place_of(run, [*calls, *further, *judged], mistake)
        if again and LARGEST in again:
            return again, len(further) + len(judged)
    return None if part is None else (part, len(further))


def _place_of(run: Run, calls: list[JudgedCall], mistake: Mistake) -> str | None:
    """Return where the mistake is made, in words, or None if it does not explain the calls."""
    wrong = failed(run, calls)
    right = [one for one in calls if all(one is not w for w in wrong)]
    part = in_part(run, wrong, right, (mistake,))
    return None if part is None else part[1]


def calls_of(run: Run, encoding: Rotary, sizes: tuple[Size, ...]) -> Iterator[JudgedCall]:
    """Make calls of these sizes, each with its reference; leave out those that are refused."""
    several, of_rows = encoding.num_axes > 1, True
    for i, (size, at, *layout) in enumerate(sizes):
        memory = layout[0] if layout else MEMORY[0]
        p = np.asarray(at)
        if p.ndim > 1 and not of_rows:  # as the judge, which does not try them then
            continue
        positions = p + np.arange(size[2]) if p.ndim == 0 else p
        if several:
            rows = np.random.default_rng(i).integers(0, 40, (encoding.num_axes, size[0], size[2]))
            if (
                i % 4 in _TEXT and size[2] > 1
            ):  # as of text, whose tokens have the same position on all axes
                text = _TEXT_ROWS[i // 4 % 3], _TEXT[i % 4]
                rows[:, *text] = rows[0, *text]
            positions, p = rows, rows[0]
        if not run.settings.allows(int(positions.max())):
            continue
        x = run.random((*size, encoding.head_dim), 60 + i)
        try:
            y = run.driver.apply(x, positions, memory)
        except (Refused, Malformed):
            of_rows = of_rows and (several or p.ndim == 1)
            continue
        call = Turned(encoding, x, positions, memory, tuple(run.driver.needed))
        where = "at per-row positions" if p.ndim > 1 else f"from position {positions[0]} on"
        where += f", x {memory}" if layout else ""
        yield JudgedCall(f"B, H, S = {size} {where}", y, apply_truth(encoding, x, positions), call)
