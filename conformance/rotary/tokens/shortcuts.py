"""Find calls that are computed in another way because of their positions on several axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.scored import failed, scores
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth, identical
from posenc_ref.conformance.rotary.wrong_rotations import other_axes

#: Sizes (B, H, S) of the calls, and of those that could refute a cause.
_SIZE, _OTHERS = (2, 2, 6), ((3, 1, 4), (1, 2, 9))
#: Positions are below this one.
_BELOW = 40
#: What is true of tokens, given their positions (A, B, S): an array (B, S).
Test = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class _Call:
    x: np.ndarray
    positions: np.ndarray  #: (A, B, S)


def diagnose(run: Run, encoding: Rotary) -> bool:
    """Report a mistake that the positions of a call decide on; return whether there is one.

    A call with other positions on every axis must be right.
    """
    count = encoding.num_axes
    if count == 1 or encoding.depends_on_length:
        return False
    try:
        general = _made(run, encoding, _SIZE, _drawn(0, count, _SIZE))
        if failed(run, [general]):
            return False
        calls = [general, *_calls(run, encoding, _SIZE, 1)]
    except (Malformed, Refused):
        return False
    if not failed(run, calls):
        return False
    tests = [t for t in _tests(count) if _holds_where_wrong(run, calls, t[1])]
    known = (_placed(encoding, one, *t) for t in tests for one in _computed(encoding))
    return match(run, calls, known, parts=False, whole=True, further=partial(_more, run, encoding))


def _computed(encoding: Rotary) -> Iterator[Mistake]:
    """Yield what may be computed there."""
    yield from other_axes(encoding)
    yield Mistake(
        "decode-offset",
        "nothing is rotated",
        lambda call: identical(call.x),
        "Rotate these tokens too, by the angles of their positions.",
    )


def _placed(encoding: Rotary, mistake: Mistake, words: str, test: Test) -> Mistake:
    def predict(call: Any) -> Truth | None:
        own, other = apply_truth(encoding, call.x, call.positions), mistake.predict(call)
        where = np.broadcast_to(test(call.positions), call.positions.shape[1:])[:, None, :, None]
        if other is None or not where.any():
            return own
        parts = (np.where(where, getattr(other, n), getattr(own, n)) for n in _PARTS)
        return Truth(*parts)

    remedy = f"{mistake.remedy} Do so {words} too: do not choose the computation by the positions."
    return replace(mistake, message=f"{mistake.message}, {words}", predict=predict, remedy=remedy)


#: The arrays of a truth.
_PARTS = ("value", "terms", "angle")


def _holds_where_wrong(run: Run, calls: list[JudgedCall], test: Test) -> bool:
    """Return whether the test is true of every wrong token."""
    for one in failed(run, calls):
        wrong = (scores(run, one, one.truth) > run.budget).any(axis=(1, 3))
        if (wrong & ~np.broadcast_to(test(one.facts.positions), wrong.shape)).any():
            return False
    return True


def _tests(count: int) -> Iterator[tuple[str, Test]]:
    """Yield tests of positions in words: of whole calls, rows and tokens, or of one of these."""
    atoms = list(_atoms(count))
    for i, j in combinations(range(count), 2):  # tables that are as long may be taken for one
        text = f"in calls with the same largest position on axes {i} and {j}"
        yield text, lambda p, i=i, j=j: np.asarray(p[i].max() == p[j].max())  # type: ignore[misc]
    for words, of in atoms:
        yield f"in calls with {words}", lambda p, of=of: np.asarray(of(p).all())  # type: ignore[misc]
    for words, of in atoms:
        yield f"in batch rows with {words}", lambda p, of=of: of(p).all(axis=-1, keepdims=True)  # type: ignore[misc]
        yield f"in calls whose row 0 has {words}", lambda p, of=of: np.asarray(of(p)[0].all())  # type: ignore[misc]
        yield f"in calls whose last row has {words}", lambda p, of=of: np.asarray(of(p)[-1].all())  # type: ignore[misc]
        yield f"for tokens with {words}", lambda p, of=of: of(p)  # type: ignore[misc]
        yield f"in calls whose first token has {words}", lambda p, of=of: np.asarray(of(p)[0, 0])  # type: ignore[misc]
        yield f"in batch rows whose first token has {words}", lambda p, of=of: of(p)[:, :1]  # type: ignore[misc]
        yield f"in batch rows whose last token has {words}", lambda p, of=of: of(p)[:, -1:]  # type: ignore[misc]


def _atoms(count: int) -> Iterator[tuple[str, Test]]:
    """Yield what positions may be, in words, for every token (B, S)."""
    if count > 2:
        yield "the same position on all axes", lambda p: (p == p[:1]).all(axis=0)
    for i, j in combinations(range(count), 2):
        yield f"the same position on axes {i} and {j}", lambda p, i=i, j=j: p[i] == p[j]  # type: ignore[misc]
    for a in range(count):
        yield f"position 0 on axis {a}", lambda p, a=a: p[a] == 0  # type: ignore[misc]
    yield "position 0 on some axis", lambda p: (p == 0).any(axis=0)
    for a in range(count):
        yield f"one position on axis {a}", lambda p, a=a: p[a] == p[a].flat[0]  # type: ignore[misc]
    for a in range(count):
        yield f"consecutive positions on axis {a}", lambda p, a=a: _consecutive(p[a])  # type: ignore[misc]
    yield (
        "consecutive positions on all axes",
        lambda p: np.logical_and.reduce([_consecutive(one) for one in p]),
    )


def _consecutive(p: np.ndarray) -> np.ndarray:
    """Return whether each position of (B, S) is the one before it plus 1; the first one is."""
    return np.asarray(np.diff(p, axis=-1, prepend=p[:, :1] - 1) == 1)


def _drawn(seed: int, count: int, size: tuple[int, int, int]) -> np.ndarray:
    """Return positions (A, B, S) none of which is 0, that of its neighbour or of another axis."""
    b, _, s = size
    drawn = np.random.default_rng(seed).permuted(np.tile(np.arange(1, _BELOW), (b * s, 1)), axis=1)
    return np.ascontiguousarray(drawn[:, :count].T.reshape(count, b, s))


def _positions(seed: int, count: int, size: tuple[int, int, int]) -> Iterator[np.ndarray]:
    """Yield positions of which some are equal, 0, or consecutive, in a call or a part of it."""
    index = np.arange(size[2])
    parts: tuple[Any, ...] = (..., (0,), (0, 0), (-1,), (slice(None), 0), (slice(None), -1))

    def drawn() -> np.ndarray:
        nonlocal seed
        seed += 101
        return _drawn(seed, count, size)

    for part in parts:
        for i, j in combinations(range(count), 2):
            p = drawn()
            p[j][part] = p[i][part]
            yield p
        if count > 2:
            p = drawn()
            for a in range(1, count):
                p[a][part] = p[0][part]
            yield p
    for i, j in combinations(range(count), 2):
        p = drawn()
        p[j].flat[0] = max(p[i].max(), p[j].max())
        p[i].flat[-1] = p[j].flat[0]
        yield p
    for a in range(count):
        for part in parts:
            for one in (0, 5, 3 + index, index) if part in parts[:2] else (0,):
                p = drawn()
                p[a][part] = one
                yield p
    yield drawn()[:1] * 0 + index + np.zeros((count, 1, 1), np.int64)
    yield drawn() * 0 + 4 + index


def _calls(
    run: Run, encoding: Rotary, size: tuple[int, int, int], seed: int
) -> Iterator[JudgedCall]:
    for p in _positions(seed, encoding.num_axes, size):
        yield _made(run, encoding, size, p)


def _more(run: Run, encoding: Rotary) -> list[JudgedCall]:
    """Make calls of other sizes, which could refute a cause."""
    with suppress(Malformed, Refused):
        return [c for i, size in enumerate(_OTHERS) for c in _calls(run, encoding, size, i + 2)]
    return []


def _made(
    run: Run, encoding: Rotary, size: tuple[int, int, int], positions: np.ndarray
) -> JudgedCall:
    x = run.random((*size, encoding.head_dim), int(positions.sum()))
    y = run.driver.apply(x, positions)
    listed = np.array2string(positions[:, 0], separator=", ").replace("\n", "")
    case = f"B, H, S = {size}, positions of row 0 {listed}"
    return JudgedCall(case, y, apply_truth(encoding, x, positions), _Call(x, positions))
