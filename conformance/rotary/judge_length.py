"""Judge frequencies that depend on the length: calls of many lengths, short ones first."""

from __future__ import annotations

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.oracle.calls import at_length
from posenc_ref.conformance.phases.schedule_mistakes import trained_field

#: The start of the names of cases whose largest position is in an unusual token, row or axis.
WHOSE = "the largest position in"
#: Early positions in every call; errors of slow pairs show at the larger ones.
_ROWS = np.array([0, 1, 2, 5, 11, 23])


def lengths_of(encoding: Rotary) -> list[int]:
    """Return lengths around the original length of the declared scaling, and multiples of it."""
    scaling = getattr(encoding, "scaling", None)
    field = trained_field(scaling)
    if not field:
        return [32, 1024, 32768]
    start = getattr(scaling, field)
    extended = round(start * (getattr(scaling, "factor", None) or 4.0))
    around = [start - 1, start, start + 1, start + 2]
    ladder = [32, *around, round(1.5 * start), 2 * start, 2 * start + 1, 3 * start, 4 * start]
    return sorted({n for n in [*ladder, extended, extended + 1] if n > _ROWS[-1] + 1})


def positions_of(length: int) -> np.ndarray:
    """Return some early positions, and the last position of a call of this length."""
    return np.append(_ROWS, length - 1)


def judge(run: Run, access: Access) -> None:
    """Judge calls up to position ``length - 1``, for each length of :func:`lengths_of`."""
    encoding = run.encoding
    seen: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    highest = access.reach(lengths_of(encoding)[-1] - 1)
    if access.mode in ("single", "contiguous"):
        run.limit("each position is judged in a separate call; its length is the position plus one")
    for length in lengths_of(encoding):
        positions = positions_of(length)
        if length - 1 > highest:
            break
        x = run.random((1, 2, positions.size, access.dim), 13)
        truth = apply_truth(encoding, x, positions, access.lengths(positions))
        try:
            y = access.rows(x, positions)
        except (Refused, Malformed) as error:
            run.limit(f"a call of length {length}: refused ({error})")
            continue
        if run.judge("lengths", case(length), y, truth):
            seen[length] = x, y
    _whose_length(run, access, highest)
    _replay(run, access, seen)


def _whose_length(run: Run, access: Access, highest: int) -> None:
    """Judge calls with the largest position in an early token, in one row, or on one axis."""
    encoding = run.encoding
    far = max((n for n in lengths_of(encoding)[:-2] if n - 1 <= highest), default=0) - 1
    if access.mode != "any" or far <= _ROWS[-1]:
        return
    near = np.array([5, 0, 11, 2])
    first, last = np.r_[near[:1], far, near[1:]], np.r_[near, far]
    cases = {
        "another token than the last": first,
        "the last row of a batch": np.stack([np.r_[near, 3], last]),
        "the first row of a batch": np.stack([last, np.r_[near, 3]]),
    }
    for axis in range(encoding.num_axes if encoding.num_axes > 1 else 0):
        one = np.zeros((encoding.num_axes, 1, last.size), dtype=np.int64)
        one[:, 0] = np.r_[near, 3]
        one[axis, 0] = last
        cases[f"axis {axis}"] = one
    for name, positions in cases.items():
        rows = positions.shape[-2] if positions.ndim > 1 else 1
        shape = (rows, 2, positions.shape[-1], access.dim)
        x = run.random(shape, 15)
        try:
            y = run.driver.apply(x, positions)
        except (Refused, Malformed) as error:
            run.limit(f"the largest position in {name}: refused ({error})")
            continue
        run.judge("lengths", f"{WHOSE} {name}", y, apply_truth(encoding, x, positions))


def _replay(run: Run, access: Access, seen: dict[int, tuple[np.ndarray, np.ndarray]]) -> None:
    """Repeat the calls that were right, after the longest call; judge that results stay equal.

    A function may keep the frequencies of its longest call until a call within the original
    length resets them. A repetition of the first call, which is short, does not reveal this.
    """
    for length, (x, y) in reversed(seen.items()):
        run.count("state")
        if not np.array_equal(access.rows(x, positions_of(length)), y):
            longest = max(seen)
            run.add(
                "state",
                f"a call of length {length} gives other values after one of length {longest}",
                "the same call was right before",
            )
            return


def kept_lengths(
    run: Run, x: np.ndarray, positions: np.ndarray, results: tuple[np.ndarray, np.ndarray]
) -> bool:
    """Report that a repeated call has the frequencies of a longer one; return whether it has."""
    encoding, (first, again) = run.encoding, results
    if encoding is None or not encoding.depends_on_length or np.array_equal(first, again):
        return False
    if not run.fits(first, apply_truth(encoding, x, positions)):
        return False
    longest = run.ledger.highest + 1
    for length in (longest, *lengths_of(encoding)):
        if run.fits(again, at_length(encoding, x, positions, length)):
            run.count("state")
            run.add(
                "state",
                "the frequencies of a longer call are kept: a short call after it does not get its "
                "own",
                f"positions {positions[0]}..{positions[-1]}, right at first, and repeated after "
                f"longer calls: the frequencies of length {length}",
                remedy="Choose the frequencies anew in every call, by its own length.",
            )
            return True
    return False


def case(length: int) -> str:
    """Return the name of the case for one length."""
    return f"a call of length {length}"
