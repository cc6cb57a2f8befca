"""Diagnose angles that do not grow linearly with the position."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.probes import GENERIC
from posenc_ref.conformance.harness.run import Run

from .angle_step import (
    angle_step,
    half_values,
    interpolated,
    other_pairs,
    step_of_one,
    value_step,
)
from .declaration import Declaration, unit_size
from .factor_mistakes import on_one
from .frequencies import SIGMAS, shorter
from .measure import Phases, Tables
from .position_map import REDUCTION, report_quadrants
from .start import start_of

#: Errors that grow start below this one, and follow the position with this correlation, at least.
_SMALL, _ALIKE = 2.0**-8, 0.8
#: The fewest positions that show how errors grow, and the least highest one of them.
_TOLD, _NEAREST = 8, 128
#: The least part of the errors that is a drift of the size of cos and sin.
_DRIFTS = 1 / 64
#: The largest error of cos and sin of a function of small positions, in float32.
_ROUNDED = 2.0**-16
#: An angle that is measured is less than a whole turn by some way, and not small.
_LEAST, _MOST = 0.2, 2.0
#: The fewest distances.
_FEWEST = 4
#: The sizes of blocks within which positions may be stretched: tables of a fine part of positions.
_BLOCKS = (*(2**n for n in range(5, 15)), 100, 1000, 10000)
#: The largest error of predicted cos and sin, and the least error of the declared ones.
_NEAR, _FAR = 0.05, 0.25
#: The relative difference of a measured factor from one that is known.
_SAME = 2.0**-18
#: Positions below this one are added up, step by step.
_SUMMED = 2**17


def diagnose_nonlinear(run: Run, tables: Tables, declared: Declaration) -> None:
    """Report why angles do not grow linearly with the position."""
    at = np.arange(1, 33)
    cos, sin = unit_size(tables, at, declared)
    true_cos, true_sin = (
        t * s for t, s in zip(declared.exact(at), (1, declared.sign), strict=True)
    )
    angle = at[:, None] * declared.frequencies
    slack, m = run.budget * ROUNDOFF[run.coarse] * (1 + angle), declared.amplitude
    fits = np.hypot(cos - true_cos, sin - true_sin) <= slack
    n, k = (int(i) for i in np.argwhere(~fits)[0]) if (~fits).any() else (0, 0)
    where = (
        f"pair {k} at position {at[n]}: cos {cos[n, k]:.6g}, sin {sin[n, k]:.6g}, declared "
        f"{true_cos[n, k]:.6g}, {true_sin[n, k]:.6g}"
    )
    if one := on_one((cos * m, sin * m), (true_cos, true_sin), slack, m):
        run.add(declared.amplitude_code, one[0], where, remedy=declared.factor_remedy)
        return
    seen, exact = np.stack([cos, sin]) * m, np.stack([true_cos, true_sin]) * m
    for i, name in enumerate(("cos", "sin")):  # only one of them may have been stored as such
        if (np.abs(seen - exact)[1 - i] > slack * m).any():
            continue
        if stored := half_values(run, seen[i], exact[i]):
            off = np.abs(seen - exact)[i].max()
            other = ("sin", "cos")[i]
            text = f"{name} is rounded to {stored}, off by up to {off:.2g}, and {other} is not"
            remedy = f"Keep {name} in the precision of {other}."
            run.add("table-precision", text, where, remedy=remedy)
            return
    wrong = not fits.all()
    slacks = slack * m
    own = other_pairs(seen, exact, slacks) or step_of_one(seen, exact, angle, slacks)
    if wrong and own is not None:
        run.add(own[0], own[1], where, remedy=own[2])
        return
    if wrong and (found := function_of_position(at, cos, sin, declared)):
        run.add("position-scale", found[0], where, remedy=found[1])
        return
    if found := value_step(run, seen, exact):
        run.add("table-precision", found[0], where, remedy=found[1])
        return
    if found := interpolated(at, seen, lambda p: _signed(declared, p)):
        run.add("table-precision", found[0], where, remedy=found[1])
        return
    size = np.hypot(cos, sin)
    # However coarse the angle is, cos ** 2 + sin ** 2 is 1.
    crooked = np.abs(size - 1).max() > 2 * run.budget * ROUNDOFF[run.coarse]
    turned = np.abs(np.angle((cos + 1j * sin) * (true_cos - 1j * true_sin)))
    small = angle <= np.pi / 4
    folded = np.hypot(np.abs(cos) - np.abs(true_cos), np.abs(sin) - np.abs(true_sin))
    if wrong and (folded <= slack).all():
        report_quadrants(run, (cos - true_cos, sin - true_sin), slack, where)
    elif fits[small].all() and np.abs(size - 1).max() <= 0.01:
        text = "small angles are right, larger ones are not"
        run.add("range-reduction", text, where, remedy=REDUCTION)
    elif np.abs(size - 1).max() <= slack.max() and (step := angle_step(run, tables, declared)):
        text, evidence = step
        remedy = "Compute cos and sin of each angle, or interpolate between the steps."
        run.add("angle-precision", text, evidence, remedy=remedy)
    elif crooked and turned.max() <= 0.01:
        text = "the size of cos and sin changes with the position"
        remedy = "Use cos and sin of the angle: cos ** 2 + sin ** 2 is 1 at every position."
        if (turned > slack).any():  # neither the size nor the angle is right
            off = max(np.abs(cos - true_cos).max(), np.abs(sin - true_sin).max())
            text = f"cos and sin are approximations, off by up to {off:.3g}"
            remedy = "Use accurate cos and sin, such as numpy.cos and numpy.sin."
        run.add("amplitude", text, where, remedy=remedy)
    elif not fits[small].all() and _coarse(np.hypot(cos - true_cos, sin - true_sin), angle):
        text = "angles are coarse: consistent with frequencies or angles in half precision"
        remedy = "Compute positions, frequencies and angles in float32 or better."
        run.add("angle-precision", text, where, remedy=remedy)
    elif fits.any(axis=1).all() or np.ptp(size) > 0.01 or fits[small].all():
        remedy = "Take cos and sin of the same angle, p * theta_k, for every pair."
        text = "cos and sin are not those of one angle p * theta"
        run.add("not-a-rotation", text, where, remedy=remedy)
    else:
        remedy = "Turn pair k by theta_k times the position that is passed for the token."
        run.add("wrong-row", "angles are not proportional to the position", where, remedy=remedy)


#: Functions that positions may go through, in words.
_FUNCTIONS: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("log(1 + p)", np.log1p),
    ("log2(1 + p)", lambda p: np.log2(1 + p)),
    ("sqrt(p)", np.sqrt),
    ("p ** 2", lambda p: p * p),
    ("tanh(p)", np.tanh),
    ("p / (1 + p)", lambda p: p / (1 + p)),
    ("1 / (1 + p)", lambda p: 1 / (1 + p)),
)


def function_of_position(
    at: np.ndarray, cos: np.ndarray, sin: np.ndarray, declared: Declaration
) -> tuple[str, str] | None:
    """Return that all angles are those of a function of the position, in words, and the remedy."""
    for words, function in _FUNCTIONS:
        angle = (function(1.0 * at) + declared.origin)[:, None] * declared.frequencies
        right = np.exp(declared.sign * 1j * angle)
        if np.abs(cos + 1j * sin - right).max() <= _ROUNDED:
            text = f"the angles are those of {words}, not of the position p"
            return text, f"Use the position p itself, not {words}."
    return None


def _coarse(off: np.ndarray, angle: np.ndarray) -> bool:
    """Return whether errors of angles below a half turn are a few half-precision roundings."""
    near = angle <= np.pi
    return bool((off <= 2 * _SMALL + 8 * _SMALL * angle)[near].all())


def _signed(declared: Declaration, at: np.ndarray) -> np.ndarray:
    """Return the exact cos and sin of the function's own sign and amplitude."""
    cos, sin = declared.exact(at)
    return np.stack([cos, declared.sign * sin]) * declared.amplitude


def running_sums(run: Run, tables: Tables, declared: Declaration) -> bool:
    """Report angles that are added up in float32, all or up to some position; return whether so.

    Each addition rounds, so the sums of all tokens together predict every angle.
    """
    at = np.sort(GENERIC[run.ledger.highest >= GENERIC])
    cos, sin = unit_size(tables, at, declared)
    seen = cos + 1j * sin
    exact = np.exp(declared.sign * 1j * (at + declared.origin)[:, None] * declared.frequencies)
    near = at < _SUMMED
    if near.sum() < _FEWEST or declared.origin:
        return False
    step = declared.frequencies.astype(np.float32)
    sums = np.cumsum(np.tile(step, (int(at[near][-1]), 1)), axis=0, dtype=np.float32)
    summed = exact.copy()
    summed[near] = np.exp(declared.sign * 1j * sums[at[near] - 1].astype(np.float64))
    slack = run.budget * ROUNDOFF["float32"]
    differ = np.abs(summed - exact).max(axis=1) > 8 * slack
    right, by_sum = (np.abs(seen - t).max(axis=1) <= slack for t in (exact, summed))
    if not (by_sum | right).all() or (by_sum & differ).sum() < _FEWEST:
        return False
    last = int(at[by_sum & differ].max())
    if not by_sum[at <= last].all():
        return False
    more = "" if last == at[-1] else f" up to position {last} or farther; later ones are right"
    run.add(
        "angle-precision",
        f"angles are running sums of the frequencies in float32{more}",
        f"{int((at <= last).sum())} positions up to {last} have the angles of the sums",
        remedy="Compute the angle of each position as position * theta_k: a sum rounds at every "
        "addition. Or add up in float64.",
    )
    return True


def growing_errors(run: Run, tables: Tables, declared: Declaration) -> None:
    """Report errors that grow with the position, as of rotations that are added up."""
    at = GENERIC[run.ledger.highest >= GENERIC]
    if at.size < _TOLD and run.ledger.highest >= _NEAREST:
        at = np.unique(np.rint(np.geomspace(at[0], run.ledger.highest, 2 * _TOLD)).astype(int))
    cos, sin = unit_size(tables, at, declared)
    angle = (at + declared.origin)[:, None] * declared.frequencies
    off = np.abs(cos + 1j * sin - np.exp(1j * angle)).max(axis=1)
    if (
        at.size < _TOLD
        or not np.isfinite(off).all()
        or off.min() <= 0
        or off[:2].max() > _SMALL
        or off[-2:].min() < 10 * off[0]
    ):
        return
    if np.corrcoef(np.log(at), np.log(off))[0, 1] < _ALIKE:
        return
    text = "the errors of cos and sin grow with the position, beyond those of float32 angles"
    drift = np.abs(np.hypot(cos, sin) - 1).max(axis=1)
    if drift[-2:].min() > max(10 * drift[0], _DRIFTS * off[-2:].max()):
        text += ", and cos ** 2 + sin ** 2 drifts from 1: a rounded rotation is raised to a power "
        text += "or multiplied from token to token, or each cos and sin comes from those before, "
        text += "and no angle is computed"
    run.add(
        "angle-precision",
        text,
        f"off by {off[0]:.2g} at position {at[0]}, {off[off.size // 2]:.2g} at "
        f"{at[off.size // 2]}, {off[-1]:.2g} at {at[-1]}",
        remedy="Compute the angle of each token as position * theta_k, in float32 or better: do "
        "not add up angles, multiply rotations from token to token, or raise a rotation to a "
        "power.",
    )


def squared(run: Run, tables: Tables, declared: Declaration) -> bool:
    """Report angles of ``p + p ** 2 / d``; return whether that gives all angles, up to far ones."""
    at = np.sort(GENERIC[run.ledger.highest >= GENERIC])
    theta = declared.frequencies
    if declared.by_length is not None or (theta <= 0).any() or at.size < _FEWEST:
        return False
    cos, sin = unit_size(tables, at, declared)
    seen = cos + 1j * sin
    right = np.exp(declared.sign * 1j * (at + declared.origin)[:, None] * theta)
    if np.abs(seen - right).max() < _FAR:
        return False
    last = int(at[at * theta.min() <= _MOST].max(initial=0))
    if not last:
        return False
    k = int(np.argmax(np.where(last * theta <= _MOST, theta, 0)))
    turned = declared.sign * float(np.angle(seen[at == last][0, k]))
    used = turned / theta[k] - declared.origin
    for d in shorter(last**2 / (used - last), 7) if used != last else ():
        angle = (at + at**2 / d + declared.origin)[:, None] * theta
        if np.abs(seen - np.exp(declared.sign * 1j * angle)).max() <= _NEAR:
            sign = "+" if d > 0 else "-"
            text = f"the angles are those of p {sign} p ** 2 / {abs(d):.7g}, not of the position p"
            where = f"position {last} has the angles of position {used:.6g}"
            run.add("position-scale", text, where, remedy=_remedy(declared))
            return True
    return False


def one_right(run: Run, tables: Tables, declared: Declaration) -> bool:
    """Report that only one of cos and sin is right at all far positions; return whether so.

    The other one is named if it is that of a - b, where the angle is the sum a + b of the angles
    of a block of positions and of a position within it.
    """
    at = np.sort(GENERIC[run.ledger.highest >= GENERIC])
    if declared.by_length is not None or at.size < _FEWEST:
        return False
    seen = unit_size(tables, at, declared)
    w = declared.frequencies

    def exact(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        angle = (p + declared.origin)[:, None] * w
        return np.cos(angle), declared.sign * np.sin(angle)

    true, slack = exact(at), run.budget * (ROUNDOFF[run.coarse] + ROUNDOFF["float32"] * at)
    off = [np.abs(a - b).max(axis=1) for a, b in zip(seen, true, strict=True)]
    right = [bool((e <= slack).all()) for e in off]
    if right[0] == right[1]:
        return False
    i = right.index(False)
    if not (off[i] > _FAR).any() or np.abs(seen[i] + true[i]).max() <= _NEAR:
        return False
    name, other = ("cos", "sin")[i], ("sin", "cos")[i]
    text = f"{other} is right at every position, {name} is not"
    remedy = f"Compute {name} of the same angle as {other}."
    for size in _BLOCKS:
        if np.abs(seen[i] - exact(at // size * size - at % size)[i]).max() <= _NEAR:
            text += f": it is {name}(a - b), where a and b are the angles of the first position of "
            text += f"a block of {size} and of the position in the block"
            remedy = "Use sin(a + b) = sin a cos b + cos a sin b and cos(a + b) = cos a cos b - "
            remedy += "sin a sin b."
            break
    far = int(np.argmax(off[i] > _FAR))
    where = f"position {at[far]}: {name} off by {off[i][far]:.3g}, {other} by {off[1 - i][far]:.2g}"
    run.add("not-a-rotation", text, where, remedy=remedy)
    return True


def _remedy(declared: Declaration) -> str:
    text = "Turn every pair by the position itself times theta_k, with no power or other function "
    return f"{text}of the position. {declared.schedule.formula}".strip()


def not_proportional(run: Run, tables: Tables, phases: Phases, declared: Declaration) -> bool:
    """Report angles whose ratio to the measured frequencies grows or falls with the position.

    A frequency that is measured at small positions is then no frequency. Return whether reported.
    """
    if squared(run, tables, declared):
        return True
    at = np.sort(GENERIC[run.ledger.highest >= GENERIC])
    w = declared.sign * phases.frequencies
    if declared.by_length is not None or (w <= 0).any():
        return False
    start, misfit = start_of(declared.sign * phases.start, w, int(np.argmax(w)))
    cos, sin = unit_size(tables, at, declared)
    angle = np.arctan2(declared.sign * sin, cos)
    ratio, noise, near = [], [], []
    for i, p in enumerate(at):
        due = (p + (start if misfit <= _NEAR else declared.origin)) * w
        (fit,) = np.nonzero((due <= _MOST) & (due >= _LEAST))
        if fit.size:
            k = fit[np.argmax(w[fit])]
            near.append(int(p))
            ratio.append(float(angle[i, k] / due[k]))
            error = run.budget * ROUNDOFF[run.coarse] / due[k]
            noise.append(float(error + SIGMAS * phases.sigma[k] / w[k]))
    off, steps = np.array(ratio) - 1, np.diff(ratio)
    telling = np.abs(steps) > np.array(noise)[1:]
    if len(near) < _FEWEST or telling.sum() < _FEWEST - 1:
        return False
    same = (steps[telling] > 0).all() or (steps[telling] < 0).all()
    begun = np.abs(off[1:3]) > np.array(noise)[1:3]  # a bound or a wrap has no effect so early
    if not same or not begun.any():
        return False
    ends = [f"{ratio[i]:.6g} at position {near[i]}" for i in (0, -1)]
    where = f"angles divided by position and frequency at small positions: {ends[0]}, {ends[1]}"
    text = "the angles are not proportional to the position"
    run.add("position-scale", text, where, remedy=_remedy(declared))
    return True


def stretched_in_blocks(run: Run, tables: Tables, phases: Phases, declared: Declaration) -> bool:
    """Report positions that are stretched within blocks of N, and right at multiples of N.

    Position p is then ``p - p % N + ratio (p % N)``. Return whether that gives all far angles.
    """
    at = np.sort(GENERIC[run.ledger.highest >= GENERIC])
    theta = declared.frequencies
    if declared.by_length is not None or (theta <= 0).any() or at.size < _FEWEST:
        return False
    cos, sin = unit_size(tables, at, declared)
    measured = float(np.median(declared.sign * phases.frequencies / theta))

    def off(used: np.ndarray) -> float:
        angle = (used + declared.origin)[:, None] * theta
        return float(np.abs(cos + 1j * declared.sign * sin - np.exp(1j * angle)).max())

    if off(at * measured) < _FAR:
        return False
    for size in _BLOCKS:
        near = abs(measured * (size - 1) / size - 1) <= _SAME
        ratio = size / (size - 1) if near else measured
        if off(at - at % size + ratio * (at % size)) <= _NEAR:
            table = f"(numpy.arange({size}), not numpy.linspace(0, {size}, {size}))"
            run.add(
                "position-scale",
                f"within each block of {size} positions, the position in the block is multiplied "
                f"by {ratio:.7g}; multiples of {size} are right",
                f"angles at {at.size} positions up to {at[-1]}, to {_NEAR:g}",
                remedy=f"Let position p mod {size} of a block be itself" + f" {table}" * near + ".",
            )
            return True
    return False
