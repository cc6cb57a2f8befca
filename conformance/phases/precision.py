"""Classify the precision of angles: recompute cos and sin in several models, and compare.

The class is that of the model that matches the function's values to rounding. The size of an error
never decides it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from posenc_ref.accuracy import BUDGET, ROUNDOFF, TINY
from posenc_ref.angles import ERROR_BOUND

from .frequencies import half_precision

_HALF = ("bfloat16", "float16")
#: Below this relative error, a wrong pi looks like other float32 roundings.
_NEAR = 8 * ROUNDOFF["float32"]
#: Below this relative error, a wrong pi is not recognised in angles that have float32 roundings.
_COARSE = 1.5 * ROUNDOFF["float32"]
#: Above this relative error, a wrong pi is plain in angles that have float32 roundings.
_CLEAR = 64 * ROUNDOFF["float32"]
#: The roundings of cos and sin that are allowed in addition to those of angles.
_CLOSE = 16
#: The relative error of such a pi: the roundings of an angle whose frequency is exact.
_ROUNDINGS = 3 * ROUNDOFF["float32"]
#: A wrong pi explains the errors of such angles if it leaves less than this part of them.
_LEFT = 0.25
#: Values of pi that are fractions.
_FRACTIONS = {22 / 7: "22/7", 355 / 113: "355/113"}
#: Values of pi that occur in code: pi rounded or truncated to some digits, and in float32.
_WRITTEN = {float(np.float32(np.pi))} | {
    round(float(cut(np.pi * 10.0**n)) / 10.0**n, n) for n in range(2, 10) for cut in (round, int)
}


@dataclass(frozen=True)
class Model:
    """One way to compute cos and sin of ``positions * frequencies``."""

    code: str  #: the code of its finding; empty if the model is no mistake
    name: str
    angles: Callable[[np.ndarray, np.ndarray], np.ndarray]
    table: str | None = None  #: the format cos and sin are rounded to
    exact: bool = False  #: whether it is float64 throughout, and so compared strictly
    slip: float = 0.0  #: the relative error of its pi
    remedy: str = ""  #: empty: the remedy of the code

    def cos_sin(self, positions: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the cos and sin of this model, (positions, pairs)."""
        angle = self.angles(positions.astype(np.float64), w)
        with np.errstate(invalid="ignore"):  # float16 positions overflow
            cos, sin = np.cos(angle), np.sin(angle)
        if self.table:
            cos, sin = rounded(cos, self.table), rounded(sin, self.table)
        return cos, sin


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Return ``values`` rounded to ``dtype``, as float64."""
    if dtype == "float64":
        return values
    if dtype == "float32":
        return np.asarray(values.astype(np.float32).astype(np.float64))
    if dtype == "TF32":  # 11 significant bits, ties to even
        mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
        return np.asarray(np.ldexp(np.rint(mantissa * 2048.0), exponent - 11))
    return dict(half_precision(values))[dtype]


def _holds(dtype: str, values: tuple[np.ndarray, np.ndarray]) -> bool:
    """Return whether all values are numbers of ``dtype``."""
    return all(np.array_equal(rounded(v, dtype), v, equal_nan=True) for v in values)


def _product(p: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.asarray(p[:, None] * w)


def _float32(p: np.ndarray, w: np.ndarray) -> np.ndarray:
    return rounded(_product(p, rounded(w, "float32")), "float32")


#: A code, what is rounded, and the angles; ``half`` rounds to a half-precision format.
_IN_HALF: tuple[tuple[str, str, Callable[..., np.ndarray]], ...] = (
    ("position-precision", "positions", lambda p, w, half: _product(half(p), w)),
    ("angle-precision", "frequencies", lambda p, w, half: _product(p, half(w))),
    ("angle-precision", "timescales", lambda p, w, half: _product(p, 1 / half(1 / w))),
    ("angle-precision", "angles", lambda p, w, half: half(_product(p, w))),
    (
        "angle-precision",
        "positions and frequencies",
        lambda p, w, half: _product(half(p), half(w)),
    ),
    (
        "angle-precision",
        "positions, frequencies and angles",
        lambda p, w, half: half(_product(half(p), half(w))),
    ),
    ("angle-precision", "frequencies and angles", lambda p, w, half: half(_product(p, half(w)))),
)


def models() -> list[Model]:
    """Return every model without fitted numbers; those that need no finding come first."""
    found = [
        Model("", "float64 angles", _product, exact=True),
        Model("", "float32 angles", _float32),
    ]
    for half in (*_HALF, "TF32"):
        to_half = partial(rounded, dtype=half)
        for code, what, angles in _IN_HALF:
            if half == "TF32" and not what.startswith("positions"):
                continue  # TF32 and float16 have the same digits
            remedy = f"Compute and keep {what} in float32 or better, not in {half}."
            name = f"{what} in {half}"
            found.append(Model(code, name, partial(angles, half=to_half), remedy=remedy))
        if half == "TF32":
            break
        remedy = (
            f"Keep the tables in float32; or, if they are meant so, declare precision={half!r}."
        )
        name = f"cos and sin tables in {half}"
        found.append(Model("table-precision", name, _product, table=half, remedy=remedy))
    return found


def classify(
    positions: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    frequencies: np.ndarray,
    dtype: str,
    origin: float = 0.0,
) -> Model | None:
    """Return the model whose cos and sin match the function's at every position, or None.

    ``cos`` and ``sin`` (positions, pairs) are the function's own, with amplitude 1, in
    ``dtype``. Models that are no mistake are tried first; of the half-precision models that
    match, the nearest is returned. A model that rounds nothing at these positions is left out.
    """
    best: tuple[float, Model] | None = None
    positions = positions + origin
    exact = models()[0].cos_sin(positions, frequencies)
    for model in models():
        c, s = model.cos_sin(positions, frequencies)
        if model.code and np.array_equal(c, exact[0]) and np.array_equal(s, exact[1]):
            continue  # such as float16 positions below 2048: nothing was rounded
        worst = _misfit(positions, (cos, sin), (c, s), frequencies, dtype, model)
        if worst > BUDGET[dtype]:
            seen = positions, (cos, sin), frequencies, dtype
            if model.exact and (short := _short_pi(*seen) or _short_turns(*seen)):
                return short
            continue
        if not model.code:
            return model
        if best is None or worst < best[0]:
            best = worst, model
    return best[1] if best else None


def as_float32(
    positions: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    frequencies: np.ndarray,
    dtype: str,
    origin: float,
) -> bool:
    """Return whether the values may be those of float32 angles, as all are at small positions.

    They are compared as those of float64 angles are.
    """
    model, at = replace(models()[1], exact=True), positions + origin
    seen = (at, (cos, sin), model.cos_sin(at, frequencies), frequencies, dtype, model)
    return _misfit(*seen) <= BUDGET[dtype]


def reduced(pi: float, turns: Callable[[np.ndarray], np.ndarray] = np.trunc) -> Model:
    """Return the model of angles reduced modulo ``2 pi`` with another value of pi."""

    def angles(p: np.ndarray, w: np.ndarray) -> np.ndarray:
        angle = _product(p, w)
        return np.asarray(angle - 2 * pi * turns(angle / (2 * pi)))

    written = _FRACTIONS.get(pi, f"{pi:.12g}")
    name = f"angles reduced with pi = {written}"
    remedy = f"Reduce angles with pi in full precision (math.pi, in float64), not {written}."
    slip = abs(pi - np.pi) / np.pi
    return Model("range-reduction", name, angles, exact=True, slip=slip, remedy=remedy)


def _short_pi(
    positions: np.ndarray, actual: tuple[np.ndarray, np.ndarray], w: np.ndarray, dtype: str
) -> Model | None:
    """Return the model that reduces angles with a wrong pi and matches the values, or None.

    Fractions and values of pi with few digits are tried first.

    If the wrong pi is so close to pi that float32 rounds both alike, only values that occur in
    code are accepted, because a position scale rounded to float32 gives the same errors.
    """
    tried: list[tuple[float, Model]] = []
    for turns in (np.trunc, np.rint):
        fitted = _fitted_pi(positions, actual, w, turns)
        short = (round(fitted, digits) for digits in range(2, 10))
        for pi in (*_FRACTIONS, *short, float(np.float32(np.pi)), fitted):
            model = reduced(pi, turns)
            if model.slip > _COARSE and (pi in _WRITTEN or model.slip > _NEAR):
                tried.append((pi, model))
            most = BUDGET[dtype]
            if model.slip <= _NEAR:
                coarse = ROUNDOFF[dtype] > ROUNDOFF["float32"]
                if pi not in _WRITTEN or (coarse and model.slip <= ROUNDOFF["float32"]):
                    continue
                if not coarse:
                    most /= 8  # the only other error is the rounding of cos and sin
            predicted = model.cos_sin(positions, w)
            if _misfit(positions, actual, predicted, w, dtype, model) <= most:
                return model
    for found, model in tried:
        if _explains(model, positions, actual, w, dtype):
            # Roundings hide the last digits of a fitted pi.
            return next(m for pi, m in tried if abs(pi / found - 1) <= _ROUNDINGS)
    return None


def _short_turns(
    positions: np.ndarray, actual: tuple[np.ndarray, np.ndarray], w: np.ndarray, dtype: str
) -> Model | None:
    """Return the model that multiplies fractions of a turn by 2 pi with few digits, or None.

    Half precision hides it.
    """
    if ROUNDOFF[dtype] > ROUNDOFF["float32"] or any(_holds(half, actual) for half in _HALF):
        return None

    def angles(
        p: np.ndarray, w: np.ndarray, *, pi: float, whole: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        turns = _product(p, w) / (2 * np.pi)
        return np.asarray(2 * pi * (turns - whole(turns)))

    for pi in (3.0, *_FRACTIONS, *sorted(_WRITTEN, key=lambda pi: -abs(pi - np.pi))):
        slip = abs(pi - np.pi) / np.pi
        for whole in (np.floor, np.rint) if slip > _NEAR else ():
            text = _FRACTIONS.get(pi, f"{pi:.12g}")
            name = f"fractions of a turn are multiplied by 2 pi, with pi = {text}"
            remedy = f"Use pi in full precision (math.pi), not {text}."
            turned = partial(angles, pi=pi, whole=whole)
            exact = slip <= _CLEAR  # or else float32 angles hide nothing
            model = Model("range-reduction", name, turned, exact=exact, slip=slip, remedy=remedy)
            predicted = model.cos_sin(positions, w)
            if _misfit(positions, actual, predicted, w, dtype, model) <= BUDGET[dtype]:
                return model
    return None


def _explains(
    model: Model,
    positions: np.ndarray,
    actual: tuple[np.ndarray, np.ndarray],
    w: np.ndarray,
    dtype: str,
) -> bool:
    """Return whether a wrong pi explains angles that have float32 roundings as well.

    The rest must be as small as the roundings of correct float32 functions: some of the product and
    the reduction, and ``2 |ln w|`` of a frequency, whose exponent is rounded. These are few for
    fast pairs, whose angles refute a pi that is not used.
    """
    at = positions.astype(np.float64)
    angle = _product(at, w)
    values = max(_CLOSE * ROUNDOFF["float32"], 4 * ROUNDOFF[dtype])
    with np.errstate(divide="ignore"):
        relative = _ROUNDINGS + 2 * ROUNDOFF["float32"] * np.abs(np.log(np.abs(w)))
    noise = values + np.abs(angle) * np.where(w == 0, 0, relative)
    seen = np.arctan2(actual[1], actual[0])
    off, left = (
        np.abs(np.remainder(seen - a + np.pi, 2 * np.pi) - np.pi) / noise
        for a in (angle, model.angles(at, w))
    )
    return bool(left.max() <= 1 and np.linalg.norm(left) <= _LEFT * np.linalg.norm(off))


def _fitted_pi(
    positions: np.ndarray,
    actual: tuple[np.ndarray, np.ndarray],
    w: np.ndarray,
    turns: Callable[[np.ndarray], np.ndarray],
) -> float:
    """Return the value of pi that fits the errors of the angles.

    The angles with the fewest whole turns are fitted first.
    """
    angle = _product(positions.astype(np.float64), w)
    slip = np.arctan2(actual[1], actual[0]).ravel() - angle.ravel()
    off = 0.0
    for _ in range(3):  # a wrong pi changes the number of turns
        count = turns(angle / (2 * (np.pi + off))).ravel()
        off = 0.0
        for i in np.argsort(np.abs(count), kind="stable"):
            if count[i] and np.isfinite(slip[i]):
                left = np.remainder(slip[i] + 2 * off * count[i] + np.pi, 2 * np.pi) - np.pi
                off -= left / (2 * count[i])
    return float(np.pi + off)


def _misfit(
    positions: np.ndarray,
    actual: tuple[np.ndarray, np.ndarray],
    predicted: tuple[np.ndarray, np.ndarray],
    w: np.ndarray,
    dtype: str,
    model: Model,
) -> float:
    """Return the largest difference from a model's cos and sin, in units of their rounding."""
    if model.table:
        return _table_misfit(actual, positions, w, model.table)
    # Half-precision angles usually come with cos and sin in the same format.
    for half in ("float32", *_HALF) if model.code and not model.exact else ("float32",):
        if _holds(half, actual):
            dtype = max((dtype, half), key=lambda name: ROUNDOFF[name])
    angle = np.abs(_product(positions.astype(np.float64), w))
    grain = ERROR_BOUND if model.exact else ROUNDOFF["float32"] * angle
    worst = 0.0
    for a, p in zip(actual, predicted, strict=True):
        # Half-precision numbers halfway between two neighbours may be rounded either way.
        floor = max(TINY[dtype], ROUNDOFF["float32"])
        unit = ROUNDOFF[dtype] * np.maximum(np.abs(p), floor) + grain
        off = np.where(np.isnan(a) & np.isnan(p), 0.0, np.abs(a - p) / unit)  # both overflowed
        worst = max(worst, float(np.max(np.where(np.isnan(off), np.inf, off), initial=0.0)))
    return worst


def _table_misfit(
    actual: tuple[np.ndarray, np.ndarray], positions: np.ndarray, w: np.ndarray, half: str
) -> float:
    """Return the largest score of values that are half-precision numbers, or infinity for others.

    The reference is the exact cos and sin, with a tolerance, and not their rounded values: the
    error of a float32 angle can change the direction in which a value is rounded.
    """
    angle = _product(positions.astype(np.float64), w)
    worst = 0.0
    for a, t in zip(actual, (np.cos(angle), np.sin(angle)), strict=True):
        if not np.array_equal(rounded(a, half), a):
            return np.inf
        unit = ROUNDOFF[half] * np.maximum(np.abs(t), ROUNDOFF[half])
        off = np.abs(a - t) / (unit + ROUNDOFF["float32"] * np.abs(angle))
        worst = max(worst, float(np.max(np.where(np.isnan(off), np.inf, off), initial=0.0)))
    return worst if worst <= BUDGET[half] else np.inf
