"""Judge several position axes: positions that differ between axes, and each axis alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.harness import probes
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import GENERIC, unit_pairs
from posenc_ref.conformance.harness.reach import REQUIRED_TOKENS, Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.phases.declaration import live
from posenc_ref.conformance.phases.measure import Pair, unwrap

#: The largest position of an axis in cases with several axes; images and clips are not larger.
_LARGEST = 1021
#: The largest grid of which every position is judged: more rows, and more columns, than 14 patches.
_SIDES = (16, 17)


@dataclass(frozen=True)
class AxisPhases:
    """The measured frequencies of every axis (A, pairs), their errors, and the start angles."""

    frequencies: np.ndarray
    sigma: np.ndarray
    start: np.ndarray  #: (pairs,) the angle where every position is 0
    linear: bool


def judge(run: Run, access: Access) -> None:
    """Judge positions that differ between axes, rows and tokens, small positions first."""
    encoding = run.encoding
    rng = np.random.default_rng(run.settings.seed + 17)
    count = encoding.num_axes
    grid = np.stack([(np.arange(6) // (a + 1)) % (a + 3) for a in range(count)])
    cases = {
        "a grid": np.broadcast_to(grid[:, None], (count, 2, 6)),
        "positions that differ between axes": rng.integers(0, 64, (count, 2, 7)),
        "larger positions that differ between axes": rng.integers(0, _LARGEST, (count, 2, 7)),
    }
    # As many rows as axes: an exchange of both axes of the positions has the same shape.
    cases["as many rows as axes"] = rng.integers(0, 64, (count, count, 5))
    # A shortcut for text may look at one row only.
    text = np.broadcast_to(np.arange(3, 10), (count, 1, 7))
    media = rng.integers(0, 64, (count, 1, 7))
    cases["text in the first row only"] = np.concatenate((text, media), axis=1)
    cases["text in the last row only"] = np.concatenate((media, text), axis=1)
    single = np.arange(5 + count, 5, -1)[:, None, None]
    if run.driver.accepts(np.ones((1, 1, 1, access.dim)), single):  # whole grids alone may be
        cases["a single token"] = single
    for a in range(count):
        one = np.zeros((count, 1, 5), dtype=np.int64)
        one[a] = [0, 1, 7, 37, 211]
        cases[f"axis {a} alone"] = one
    highest = access.reach(int(GENERIC[-1]))
    sizes = (*[2] * (count - 2), *_extents(run, access, highest))
    cases[f"every position of a grid of {' x '.join(map(str, sizes))}"] = probes.grid(sizes)[
        :, None
    ]
    generic = GENERIC[highest >= GENERIC]
    if generic.size:
        rolled = np.stack([np.roll(generic, a) for a in range(count)])
        cases["scattered positions, in another order on each axis"] = rolled[:, None]
    for case, positions in cases.items():
        shape = (positions.shape[1], 2, positions.shape[2], access.dim)
        x, last = run.random(shape, 18), int(positions.max())
        allowed = last <= highest or run.settings.allows(last)
        if not allowed or (last > highest and not run.driver.accepts(x, positions)):
            continue
        try:
            _judge(run, case, x, positions.astype(np.int64))
        except (Refused, Malformed) as error:
            run.raised(f"positions (A, B, S) that differ between axes: {case}", error)
            return


def _extents(run: Run, access: Access, highest: int) -> list[int]:
    """Return the sizes of the last two axes of a grid, at most :data:`_SIDES`.

    Every position that the function accepts on one axis, with 0 on the others, is in the grid.
    """
    found = []
    count = run.encoding.num_axes
    for axis, size in zip(range(count - 2, count), _SIDES, strict=True):
        last = np.zeros((count, 1, 1), dtype=np.int64)
        for last[axis] in range(size - 1, highest, -1):
            if run.driver.accepts(np.ones((1, 1, 1, access.dim)), last):
                break
        else:
            last[axis] = min(size - 1, highest)
        found.append(int(last[axis, 0, 0]) + 1)
    return found


def _judge(run: Run, case: str, x: np.ndarray, positions: np.ndarray) -> None:
    """Judge one case; if the call is refused, split it into calls of few tokens."""
    tokens = positions.shape[-1]
    try:
        y = run.driver.apply(x, positions)
    except Refused:
        if tokens <= REQUIRED_TOKENS:
            raise
        for i in range(0, tokens, REQUIRED_TOKENS):
            part = slice(i, i + REQUIRED_TOKENS)
            _judge(run, f"{case}, from token {i} on", x[:, :, part], positions[..., part])
        return
    run.judge("axes", case, y, apply_truth(run.encoding, x, positions))


def whole_grid(run: Run, x: np.ndarray, refused: Refused) -> bool:
    """Judge x in a call of a whole grid of nearly as many tokens; return whether it is accepted."""
    sizes = probes.sides(x.shape[2], run.driver.axes)
    positions = np.repeat(probes.grid(sizes)[:, None], x.shape[0], axis=1)
    x = x[:, :, : positions.shape[2]]
    try:
        y = run.driver.apply(x, positions)
    except Refused:
        return False
    run.limit(
        f"some calls with the same positions on every axis are refused ({refused}); judged in "
        "whole grids instead"
    )
    case = f"B, H, S = {x.shape[:3]}, a grid of {' x '.join(map(str, sizes))}"
    run.judge("values", case, y, apply_truth(run.encoding, x, positions))
    return True


def stale(run: Run, access: Access) -> None:
    """Judge calls with the same positions on one axis, and other positions on the other axes."""
    encoding = run.encoding
    rng = np.random.default_rng(run.settings.seed + 19)
    x = run.random((1, 2, REQUIRED_TOKENS, access.dim), 20)
    highest = access.reach(63)
    ends = [highest] * encoding.num_axes
    if highest < 63:
        ends[-2:] = [size - 1 for size in _extents(run, access, highest)]
    most = np.array(ends)[:, None, None]
    while most[0].any() and not run.driver.accepts(x[:1, :, :1], most):
        most[0] -= 1  # the ends of all axes together may be a larger grid than is made

    def fits(y: np.ndarray, positions: np.ndarray) -> bool:
        return run.fits(y, apply_truth(encoding, x, positions))

    def right(positions: np.ndarray) -> bool:
        return fits(run.driver.apply(x, positions), positions)

    for axis in range(encoding.num_axes):
        drawn = rng.integers(0, 64, (3, encoding.num_axes, 1, REQUIRED_TOKENS))
        one, two, three = np.minimum(drawn, most)
        two[axis] = one[axis]
        run.count("state")
        if not right(one):
            continue
        case = f"the positions of the call before on axis {axis}, others on the other axes"
        again = run.driver.apply(x, two)
        if not fits(again, one):
            run.judge("axes", case, again, apply_truth(encoding, x, two))
        elif not fits(again, two) and right(three):
            run.add(
                "state",
                f"a call returns the result of another one with the same positions on axis {axis}",
                f"calls of {REQUIRED_TOKENS} tokens with other positions on the other axes",
            )
            return


def measure(run: Run, count: int, dim: int, pairs: list[Pair], sign: int = 1) -> AxisPhases:
    """Return the frequency of every pair on each of ``count`` axes, for heads of size ``dim``."""
    first, out_a, out_b = (
        [p.a for p in pairs], [p.out_a for p in pairs], [p.out_b for p in pairs]
    )  # fmt: skip
    every = []
    for axis in range(count):

        def tables(at: np.ndarray, axis: int = axis) -> tuple[np.ndarray, np.ndarray]:
            positions = np.zeros((count, 1, at.size), dtype=at.dtype)
            positions[axis] = at
            x = unit_pairs((1, 1, at.size, dim), np.array(first))
            y = run.driver.apply(x, positions)[0, 0]
            return y[:, out_a], y[:, out_b]

        every.append(unwrap(tables, run.coarse))
    return AxisPhases(
        np.stack([sign * p.frequencies for p in every]),
        np.stack([p.sigma for p in every]),
        sign * every[0].start,
        all(p.linear for p in every),
    )


def declared_axes(encoding: Rotary) -> np.ndarray:
    """Return the declared axis of every pair with a nonzero frequency."""
    axes = encoding.axes()
    assert axes is not None
    return live(encoding, (axes,))[0]
