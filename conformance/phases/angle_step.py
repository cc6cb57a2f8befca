"""Recognise angles rounded to the steps of a table of cos and sin, or to a fixed-point grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import GENERIC
from posenc_ref.conformance.harness.run import Run

from .declaration import Declaration, unit_size
from .frequencies import half_precision
from .measure import Tables, wrap

#: Steps of angles, in radians, by their names: parts of a turn, and powers of 2.
STEPS = {
    **{f"2 pi/{2**n}, as in a table of {2**n} angles": 2 * np.pi / 2**n for n in range(6, 21)},
    **{f"2 ** -{n} rad": 2.0**-n for n in range(6, 21)},
    **{f"1/{n} rad": 1.0 / n for n in (100, 1000, 10000, 100000)},
    "1 degree": np.pi / 180,
    "1 rad": 1.0,
}
#: Tables of as many angles or more are not measured.
_MOST_STEPS = 2**17
#: The largest error of interpolated values: roundings of float32.
_INTERPOLATED = 64 * ROUNDOFF["float32"]
#: Smaller roots of 1 less a rounded square show how they are computed, if there are so many; the
#: largest error of their squares, in roundings.
_SMALL_ROOT, _FEWEST, _SQUARED = 1 / 8, 12, 8
WAYS = {"to the nearest step": np.rint, "down": np.floor, "towards 0": np.trunc}
#: The code, the message and the remedy.
Found = tuple[str, str, str]
_NAMES = ("cos", "sin")
_OWN = "Take cos and sin of the same angle, that of the pair itself."


def value_step(run: Run, values: np.ndarray, exact: np.ndarray) -> tuple[str, str] | None:
    """Return the message and the remedy of cos and sin in float32 or fixed point, if they are."""
    off = np.abs(values - exact)
    if run.coarse == "float64" and np.array_equal(values.astype(np.float32), values):
        what = "the rotation of float64 x is" if _narrowed(run) else "cos and sin are"
        remedy = "Rotate float64 x in float64: do not cast x to float32."
        if what.startswith("cos"):
            remedy = "Keep cos and sin in float64 for float64 x."
        return f"{what} rounded to float32, off by up to {off.max():.3g}", remedy
    for bits in range(6, 22):
        step = 2.0**-bits
        for unit, words in ((step, f"2**-{bits}"), (1 / (2**bits - 1), f"1/{2**bits - 1}")):
            whole = np.abs(values / unit - np.rint(values / unit)) * unit
            if whole.max() <= 4 * ROUNDOFF[run.coarse] and unit > 32 * ROUNDOFF[run.coarse]:
                remedy = "Keep cos and sin in floating point, or with more bits."
                return f"cos and sin are multiples of {words}: fixed point", remedy
    return None


def half_values(run: Run, values: np.ndarray, exact: np.ndarray) -> str | None:
    """Return the half-precision dtype to which values are rounded, the coarsest first, or None."""
    rounding = 4 * ROUNDOFF[run.coarse]
    for (name, rounded), (_, near) in zip(
        half_precision(values), half_precision(exact), strict=True
    ):
        step = 2 * ROUNDOFF[name]
        held = np.abs(values - rounded) <= rounding * np.abs(values)
        # A value near a tie may be rounded to either side.
        close = np.abs(values - near) <= step * (1 + np.abs(near))
        if step > 8 * rounding and held.all() and close.all():
            return name
    return None


def _narrowed(run: Run) -> bool:
    """Return whether ``apply`` rounds x itself to float32, at position 0, where nothing turns."""
    if run.report.surface != "apply" or run.driver.axes > 1 or run.encoding is None:
        return False
    x = run.random((1, 1, 1, run.encoding.head_dim), 33)
    try:
        y = run.driver.apply(x, np.arange(1))
    except (Refused, Malformed):
        return False
    return np.array_equal(y.astype(np.float32), y) and not np.array_equal(x.astype(np.float32), x)


def interpolated(
    at: np.ndarray, values: np.ndarray, exact: Callable[[np.ndarray], np.ndarray]
) -> tuple[str, str] | None:
    """Return the message and the remedy of cos and sin interpolated between tabulated positions.

    Parameters
    ----------
    at : array (S,), int
        The positions.
    values : array (2, S, pairs)
        Cos and sin of the function.
    exact : callable
        Returns the exact values at positions.
    """
    for step in (2, 3, 4, 5, 8, 10, 16):
        low = at // step * step
        part = ((at - low) / step)[:, None]
        between = (1 - part) * exact(low) + part * exact(low + step)
        if np.abs(values - between).max() <= _INTERPOLATED:
            text = f"cos and sin are tabulated at multiples of {step} only: between them, they are "
            text += "interpolated linearly"
            return text, "Tabulate or compute cos and sin at every position."
    return None


def root_of_other(run: Run, tables: Tables, declared: Declaration, *, hidden: bool = False) -> bool:
    """Report cos or sin that is a square root of 1 less the square of the other.

    The other one must be right. Small roots show the formula, which must give all of them. With
    ``hidden``, the root may be right to the tolerance at the positions that are measured.
    """
    at = np.unique(np.r_[np.arange(1, 33), GENERIC])
    at = at[at <= run.ledger.highest]
    kind = {"float32": np.float32, "float64": np.float64}.get(run.coarse)
    if kind is None or declared.by_length is not None:
        return False
    seen, exact = (np.stack(t) for t in (unit_size(tables, at, declared), declared.exact(at)))
    exact[1] *= declared.sign
    angle = np.abs((at + declared.origin)[:, None] * declared.frequencies)
    unit = ROUNDOFF[run.coarse]
    slack = run.budget * (unit + ROUNDOFF["float32"] * angle)
    off = np.abs(seen - exact)
    turned = (seen * exact < 0) & (np.abs(exact) > slack)
    right = (off <= slack).all(axis=(1, 2))
    for i, name in enumerate(_NAMES):
        if not right[1 - i] or turned[i].any() or (right[i] and not hidden):
            continue
        other, of, one = _NAMES[1 - i], seen[1 - i].astype(kind), kind(1)
        small = np.abs(exact[i]) < _SMALL_ROOT
        said = ""
        for words, square in (
            (f"sqrt(1 - {other} ** 2)", one - of * of),
            (f"sqrt((1 - {other}) (1 + {other}))", (one - of) * (one + of)),
        ):
            root = np.sqrt(np.maximum(square, 0))
            same = np.abs(np.abs(seen[i]) - root) <= 4 * unit * root
            if small.sum() >= _FEWEST and same[small].all():
                said = f"{name} is {words} in {run.coarse}: it is off by up to {off[i].max():.2g} "
                said += f"where it is small; {other} is right"
                break
        squares = np.abs(seen[i] ** 2 - exact[i] ** 2)
        if not said and not right[i] and (squares <= _SQUARED * unit * (1 + angle)).all():
            said = (
                f"{name} is off by up to {off[i].max():.2g} where it is small, and its square is "
            )
            said += f"right to rounding; {other} is right: consistent with a square root, such as "
            said += f"sqrt(1 - {other} ** 2)"
        if said:
            remedy = f"Compute {name} of the angle itself: where {other} is near 1 or -1, the root "
            remedy += "keeps few digits."
            where = f"{name} and {other} at {at.size} positions"
            run.add("table-precision", said, where, remedy=remedy)
            return True
    return False


def frequency_step(w: np.ndarray, sigma: np.ndarray, declared: np.ndarray) -> str:
    """Return the words for frequencies rounded to steps of an angle, empty if they are not."""
    for bits in range(8, 49):
        for unit, words in ((2 * np.pi, "2 pi / "), (1.0, "1 / ")):
            step = unit * 2.0**-bits
            for how, of in WAYS.items():
                expected = of(declared / step) * step
                if (np.abs(w - expected) <= 8 * sigma + 1e-9 * step).all():
                    return f"frequencies are rounded {how}, in steps of {words}2**{bits} rad"
    return ""


def angle_step(run: Run, tables: Tables, declared: Declaration) -> tuple[str, str] | None:
    """Return the message and the evidence of angles rounded to steps, None if they are not."""
    at = np.unique(np.r_[np.arange(1, 33), GENERIC[:6]])
    at = at[at <= max(run.ledger.highest, 8)]
    cos, sin = unit_size(tables, at, declared)
    angle = (at + declared.origin)[:, None] * declared.frequencies
    seen = np.arctan2(sin, cos)
    slack = run.budget * (ROUNDOFF[run.coarse] + ROUNDOFF["float32"] * np.abs(angle))
    for name, step in {**STEPS, **_measured_step(seen, run)}.items():
        for how, of in WAYS.items():
            misfit = np.abs(wrap(seen - of(angle / step) * step))
            # An angle at the edge of a step may be rounded to either side.
            edge = np.abs(misfit - step) <= slack
            if (misfit <= slack).mean() > 0.98 and ((misfit <= slack) | edge).all():
                off = float(np.abs(wrap(seen - angle)).max())
                text = f"angles are rounded {how}, in steps of {name}, without interpolation"
                return text, f"angles at {at.size} positions; off by up to {off:.3g} rad"
    return None


def _measured_step(seen: np.ndarray, run: Run) -> dict[str, float]:
    """Return the largest part of a turn of which all angles are multiples, by its name."""
    angles = np.unique(seen[np.isfinite(seen)])
    unit = run.budget * ROUNDOFF[run.coarse] / (2 * np.pi)
    # A finer step could not be told from none.
    n = np.arange(8, min(_MOST_STEPS, int(0.05 / unit)))
    for a in angles / (2 * np.pi):
        n = n[np.abs(n * a - np.rint(n * a)) <= n * unit]
    if not n.size:
        return {}
    return {f"2 pi/{n[0]}, as in a table of {n[0]} angles": 2 * np.pi / n[0]}


def other_pairs(seen: np.ndarray, exact: np.ndarray, slack: np.ndarray) -> Found | None:
    """Return that cos or sin, (2, S, P), is that of other pairs by one rule, None if it is not.

    Every value must equal that of the pair that the rule gives.
    """
    count = seen.shape[-1]
    rules = {}
    for name, one, right in zip(_NAMES, seen, exact, strict=True):
        for words, of in (("", np.arange(count)), *_orders(count)):
            if (np.abs(one - right[:, of]) <= slack + slack[:, of]).all():
                rules[name] = words
                break
        else:
            return None
    said = [f"{name} of pair k is that of pair {words}" for name, words in rules.items() if words]
    if not said:
        return None
    left = [name for name, words in rules.items() if not words]
    tail = f", {left[0]} that of pair k" if left else ""
    return "not-a-rotation", " and ".join(said) + tail, _OWN


def _orders(count: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield wrong pairs in words, and their indices."""
    k = np.arange(count)
    yield f"k - 1, modulo {count}", (k - 1) % count
    yield f"k + 1, modulo {count}", (k + 1) % count
    yield "k - 1, at least 0", np.maximum(k - 1, 0)
    yield f"k + 1, at most {count - 1}", np.minimum(k + 1, count - 1)
    yield f"{count - 1} - k", count - 1 - k
    yield "k // 2", k // 2
    yield f"2k modulo {count}", 2 * k % count
    yield f"(2k + 1) modulo {count}", (2 * k + 1) % count
    yield f"(k + {count // 2}) modulo {count}", (k + count // 2) % count
    yield f"k modulo {max(count // 2, 1)}", k % max(count // 2, 1)
    yield "0", 0 * k
    yield f"{count - 1}", 0 * k + count - 1


def step_of_one(
    seen: np.ndarray, exact: np.ndarray, angle: np.ndarray, slack: np.ndarray
) -> Found | None:
    """Return that the angles of cos or of sin alone, (2, S, P), are rounded to steps, or None."""
    right = [bool((np.abs(one - of) <= slack).all()) for one, of in zip(seen, exact, strict=True)]
    if right[0] == right[1]:
        return None
    i = right.index(False)
    other = _NAMES[1 - i]
    for moved, said in ((0.0, ""), (np.pi / 2, " plus pi/2")):
        function = np.sin if (i == 1) == (moved == 0.0) else np.cos
        if i == 1 and moved:
            continue
        for name, step in STEPS.items():
            for how, of in WAYS.items():
                stepped = of((angle + moved) / step) * step
                off = np.abs(seen[i] - function(stepped))
                # An angle at the edge of a step may be rounded to either side.
                if ((off <= slack) | (off <= 1.01 * step)).all() and (off <= slack).mean() > 0.98:
                    text = f"the angles{said} of {_NAMES[i]} are rounded {how}, in steps of {name}"
                    remedy = f"Compute {_NAMES[i]} of each angle itself, as {other}."
                    return "angle-precision", f"{text}, those of {other} are not", remedy
    return None
